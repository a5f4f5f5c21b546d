"""Saves an Estimator's checkpoints while it trains on, in the files that its saver would write.

    save_in_background(estimator, train_spec.hooks)          # an Estimator's own checkpoints
    hook = BackgroundSaverHook(model_dir, save_steps=100)    # in place of a tf.train.CheckpointSaverHook

What is saved is what the saver's own operations get, all of one step, and the saver keeps the books: state file, the
oldest checkpoint's deletion, the graph's description. It does so when the files are whole. See `checkpoint_writer`.

Where a checkpoint has to be whole before training goes on, it is written first: at the end, for a listener that is told
after saving, and before an evaluation of TensorFlow's. And so it is with parameter servers, with savers of other kinds,
and where memory does not hold the variables twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow.compat.v1 as tf
from absl import logging
from tensorflow.python.client.session import SessionInterface

from ..checkpoints import background_writer
from ..checkpoints.background_writer import BackgroundWriter, Value
from ..monitoring.progress import report_checkpoint

_SAVE = "SaveV2"
_EVALUATES = "_NewCheckpointListenerForEvaluate"  # of train_and_evaluate, on one machine


def save_in_background(estimator: tf.estimator.Estimator, hooks: Iterable[tf.train.SessionRunHook] = ()) -> None:
    """Has an Estimator's own checkpoints written while it trains on.

    It stays as it is where it is one of a cluster or distributes its training, and where a hook saves already.

    Args:
      estimator: Its RunConfig says when to save.
      hooks: Those that it is going to be trained with.
    """
    config = estimator.config
    build = estimator._call_model_fn
    if not (config.save_checkpoints_secs or config.save_checkpoints_steps) or _saves(hooks):
        return
    if not is_alone(config):
        return

    def call_model_fn(
        features: object, labels: object, mode: str, config: tf.estimator.RunConfig
    ) -> tf.estimator.EstimatorSpec:
        spec = build(features, labels, mode, config)
        if mode != tf.estimator.ModeKeys.TRAIN or _saves([*spec.training_hooks, *spec.training_chief_hooks]):
            return spec
        hook = BackgroundSaverHook(
            estimator.model_dir,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            scaffold=spec.scaffold,
            save_graph_def=config.checkpoint_save_graph_def,
        )
        return spec._replace(training_chief_hooks=(hook, *spec.training_chief_hooks))

    estimator._call_model_fn = call_model_fn


def is_alone(config: tf.estimator.RunConfig) -> bool:
    """Returns whether a RunConfig is that of a training in one process, which nothing is distributed to."""
    return not (config.cluster_spec or config.train_distribute or config.master)


def _saves(hooks: Iterable[tf.train.SessionRunHook]) -> bool:
    return any(isinstance(hook, tf.train.CheckpointSaverHook) for hook in hooks)


class BackgroundSaverHook(tf.train.CheckpointSaverHook):  # type: ignore[misc]
    """A CheckpointSaverHook, with its arguments, whose checkpoints are written while training goes on."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self._writer = BackgroundWriter()
        self._snapshot: _Snapshot | None = None
        self._is_ending = False

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Saves what training begins with. The session may be a second one, after the first was lost."""
        self._writer.wait()
        self._snapshot = None
        super().after_create_session(session, coord)

    def end(self, session: tf.Session) -> None:
        """Saves the last step, whole before anybody hears of the end."""
        self._is_ending = True
        self._writer.wait()
        super().end(session)

    def _save(self, session: tf.Session, step: int) -> bool:
        with background_writer.pause():
            self._writer.wait()
            if self._is_ending or not self._begin(session, int(step)):
                wants_stop: bool = super()._save(session, step)
                report_checkpoint(step)
                return wants_stop
            return self._tell(session, step)

    def _begin(self, session: tf.Session, step: int) -> bool:
        """Begins to write, unless that has to be done at once."""
        saver = self._get_saver()
        if self._snapshot is None:
            self._snapshot = _Snapshot.of(saver, session.graph)
        if self._snapshot is None or not self._writer.has_room(self._snapshot.size(session)):
            logging.log_first_n(logging.INFO, "%s-%d is written while training waits.", 1, self._save_path, step)
            return False
        for listener in self._listeners:
            listener.before_save(session, step)
        values = self._snapshot.take(session)
        prefix, graph = f"{self._save_path}-{step}", session.graph

        def keep_the_books() -> None:
            with graph.as_default():
                saver.save(_Written(graph, prefix), self._save_path, step, write_meta_graph=self._save_graph_def)

        logging.info("Saving checkpoints for %d into %s.", step, self._save_path)
        self._writer.begin(prefix, step, values, keep_the_books)
        return True

    def _tell(self, session: tf.Session, step: int) -> bool:
        """Tells the listeners; returns whether one wants training to stop."""
        if any(_needs_files(listener, step) for listener in self._listeners):
            self._writer.wait()
        answers = [bool(listener.after_save(session, step)) for listener in self._listeners]
        return any(answers)


def _needs_files(listener: tf.train.CheckpointSaverListener, step: int) -> bool:
    """Returns whether a listener may read the checkpoint: any but TensorFlow's evaluation when it is not due."""
    if type(listener).__name__ != _EVALUATES:
        return True
    return not listener._is_first_run and bool(listener._timer.should_trigger_for_step(step))


class _Snapshot:
    """Reads all that a saver saves, without copying it."""

    def __init__(self, tensors: list[tf.Tensor], places: list[tuple[str, str]]) -> None:
        self._places = places
        self._is_changed_in_place = [_is_reference(tensor) for tensor in tensors]
        self._tensors: list[tf.Tensor] = []
        self._size: int | None = None
        # A session's fetches are copies; a function in the graph is given the tensors themselves.
        self._operation = tf.py_function(self._note, tensors, [], name="generic_trainer/snapshot")

    @classmethod
    def of(cls, saver: tf.train.Saver, graph: tf.Graph) -> _Snapshot | None:
        """Returns the snapshot of a saver of a session's graph; None when it has to write for itself."""
        if type(saver).save is not tf.train.Saver.save or saver._pad_step_number or saver._is_empty:
            return None
        if graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS):  # they use the graph, which gets one more operation
            return None
        tensors, places = [], []
        for operation in _saving_operations(graph, saver.saver_def.save_tensor_name):
            names, slices = (tf.get_static_value(operation.inputs[number]) for number in (1, 2))
            if names is None or slices is None or tf.DeviceSpec.from_string(operation.device).job is not None:
                return None
            tensors += operation.inputs[3:]
            places += [(name.decode(), part.decode()) for name, part in zip(names, slices, strict=True)]
        if not tensors:
            return None
        graph._unsafe_unfinalize()
        try:
            with graph.as_default(), tf.control_dependencies(None), tf.device(None):
                return cls(tensors, places)
        finally:
            graph.finalize()

    def size(self, session: tf.Session) -> int:
        """Returns the bytes that a copy of the values takes."""
        if self._size is None:
            self._size = background_writer.size(self.take(session))
        return self._size

    def take(self, session: tf.Session) -> list[Value]:
        """Returns the values as they are now."""
        session.run(self._operation)
        tensors, self._tensors = self._tensors, []
        return [
            Value(name, part, np.array(tensor) if is_changed else tensor)
            for (name, part), tensor, is_changed in zip(self._places, tensors, self._is_changed_in_place, strict=True)
        ]

    def _note(self, *tensors: tf.Tensor) -> None:
        self._tensors = list(tensors)


def _saving_operations(graph: tf.Graph, name: str) -> list[tf.Operation]:
    """Returns the operations that write the files of a saver, found backwards from its last one."""
    found, seen, ahead = [], set(), [graph.get_tensor_by_name(name).op]
    while ahead:
        operation = ahead.pop()
        if operation in seen:
            continue
        seen.add(operation)
        if operation.type == _SAVE:
            found.append(operation)
        else:
            ahead += [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
    return found


def _is_reference(tensor: tf.Tensor) -> bool:
    """Returns whether a tensor is a variable of TensorFlow 1's kind, whose memory the next step writes to."""
    if tensor.dtype._is_ref_dtype:
        return True
    return bool(tensor.op.type == "Identity" and _is_reference(tensor.op.inputs[0]))


class _Written(SessionInterface):  # type: ignore[misc]
    """Stands for a session where a saver does no more than keep its books: the files are there."""

    def __init__(self, graph: tf.Graph, prefix: str) -> None:
        self._graph = graph
        self._prefix = prefix

    @property
    def graph(self) -> tf.Graph:
        """The graph that is described beside the files."""
        return self._graph

    @property
    def sess_str(self) -> str:
        """The session's target: none."""
        return ""

    def run(
        self,
        fetches: object,
        feed_dict: Mapping[tf.Tensor, object] | None = None,
        options: tf.RunOptions | None = None,
        run_metadata: tf.RunMetadata | None = None,
    ) -> str:
        """Returns the path of the checkpoint."""
        del fetches, feed_dict, options, run_metadata
        return self._prefix
