"""Writes an Estimator's checkpoints in the background, in the same files that its saver would write.

    save_in_background(estimator, train_spec.hooks)          # an Estimator's own checkpoints
    hook = BackgroundSaverHook(model_dir, save_steps=100)    # replaces a tf.train.CheckpointSaverHook

The values are the inputs of the saver's own operations, all from the same step. The saver still updates the checkpoint
state file, deletes old checkpoints and writes the MetaGraph, after the files are complete. See
`checkpoints/background_writer.py`.

A checkpoint is completed before training continues: at the end, before a listener's `after_save`, and before an
evaluation of TensorFlow's `train_and_evaluate`. Checkpoints are written synchronously with parameter servers, with
savers of other classes, and if the memory does not suffice for a copy of the variables. In any case, the time that
training waits for a checkpoint is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow.compat.v1 as tf
from absl import logging
from tensorflow.python.client.session import SessionInterface

from ..checkpoints import background_writer
from ..checkpoints.background_writer import BackgroundWriter, Value
from ..monitoring.progress import report_checkpoint, save_timed

_SAVE = "SaveV2"
_EVALUATES = "_NewCheckpointListenerForEvaluate"  # listener of train_and_evaluate on one machine


def save_in_background(estimator: tf.estimator.Estimator, hooks: Iterable[tf.train.SessionRunHook] = ()) -> None:
    """Makes an Estimator write its own checkpoints in the background.

    No-op if the Estimator uses a distribution strategy, or if a hook already saves checkpoints.

    Args:
      estimator: The Estimator; its RunConfig sets the interval between checkpoints.
      hooks: Hooks of its training.
    """
    build = estimator._call_model_fn
    if not _saves(estimator.config) or estimator.config.train_distribute or _has_saver(hooks):
        return

    def call_model_fn(
        features: object, labels: object, mode: str, config: tf.estimator.RunConfig
    ) -> tf.estimator.EstimatorSpec:
        spec = build(features, labels, mode, config)
        if mode != tf.estimator.ModeKeys.TRAIN or _has_saver([*spec.training_hooks, *spec.training_chief_hooks]):
            return spec
        config = estimator.config
        hook = BackgroundSaverHook(
            estimator.model_dir,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            scaffold=spec.scaffold,
            save_graph_def=config.checkpoint_save_graph_def,
        )
        return spec._replace(training_chief_hooks=(hook, *spec.training_chief_hooks))

    estimator._call_model_fn = call_model_fn


def is_single_process(config: tf.estimator.RunConfig) -> bool:
    """Returns whether a RunConfig is for training in a single process, without a cluster or distribution strategy."""
    return not (config.cluster_spec or config.train_distribute or config.master)


def _saves(config: tf.estimator.RunConfig) -> bool:
    return bool(config.save_checkpoints_secs or config.save_checkpoints_steps)


def _has_saver(hooks: Iterable[tf.train.SessionRunHook]) -> bool:
    return any(isinstance(hook, tf.train.CheckpointSaverHook) for hook in hooks)


class BackgroundSaverHook(tf.train.CheckpointSaverHook):  # type: ignore[misc]
    """A CheckpointSaverHook (with the same arguments) that writes checkpoints in the background."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self._writer = BackgroundWriter()
        self._snapshot: _Snapshot | None = None
        self._is_ending = False

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Saves the initial state. The session may be a new one after the first was lost."""
        self._writer.wait()
        self._snapshot = None
        super().after_create_session(session, coord)

    def end(self, session: tf.Session) -> None:
        """Saves the last step, and completes the file before returning."""
        self._is_ending = True
        self._writer.wait()
        super().end(session)

    def _save(self, session: tf.Session, step: int) -> bool:
        with background_writer.pause(), save_timed():
            self._writer.wait()
            if self._is_ending or not self._begin(session, int(step)):
                wants_stop: bool = super()._save(session, step)
                report_checkpoint(step)
                return wants_stop
            return self._call_listeners(session, step)

    def _begin(self, session: tf.Session, step: int) -> bool:
        """Starts to write in the background; returns False if the checkpoint must be written synchronously."""
        saver = self._get_saver()
        if self._snapshot is None:
            self._snapshot = _Snapshot.of(saver, session.graph)
        if self._snapshot is None or not self._writer.has_room(self._snapshot.size(session)):
            logging.log_first_n(
                logging.INFO, "Writing %s-%d synchronously; training waits for it.", 1, self._save_path, step
            )
            return False
        for listener in self._listeners:
            listener.before_save(session, step)
        values = self._snapshot.take(session)
        prefix, graph = f"{self._save_path}-{step}", session.graph

        def update_checkpoint_state() -> None:
            with graph.as_default():
                saver.save(_WrittenSession(graph, prefix), self._save_path, step, write_meta_graph=self._save_graph_def)

        logging.info("Saving checkpoints for %d into %s.", step, self._save_path)
        self._writer.begin(prefix, step, values, update_checkpoint_state)
        return True

    def _call_listeners(self, session: tf.Session, step: int) -> bool:
        """Calls the listeners; returns whether one of them requests that training stops."""
        if any(_needs_files(listener, step) for listener in self._listeners):
            self._writer.wait()
        answers = [bool(listener.after_save(session, step)) for listener in self._listeners]
        return any(answers)


def _needs_files(listener: tf.train.CheckpointSaverListener, step: int) -> bool:
    """Returns whether a listener may read the checkpoint: all except TensorFlow's evaluation when it is not due."""
    if type(listener).__name__ != _EVALUATES:
        return True
    return not listener._is_first_run and bool(listener._timer.should_trigger_for_step(step))


class _Snapshot:
    """Reads all values that a saver saves, without copying them."""

    def __init__(self, tensors: list[tf.Tensor], places: list[tuple[str, str]]) -> None:
        self._places = places
        self._is_changed_in_place = [_is_reference(tensor) for tensor in tensors]
        self._tensors: list[tf.Tensor] = []
        self._size: int | None = None
        # Session fetches are copies, but a py_function in the graph receives the tensors themselves.
        self._operation = tf.py_function(self._note, tensors, [], name="generic_trainer/snapshot")

    @classmethod
    def of(cls, saver: tf.train.Saver, graph: tf.Graph) -> _Snapshot | None:
        """Returns the snapshot for a saver and a session's graph; None if the saver must write synchronously."""
        if type(saver).save is not tf.train.Saver.save or saver._pad_step_number or saver._is_empty:
            return None
        if graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS):  # their threads use the graph, which is modified below
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
        """Returns the size of a copy of the values in bytes."""
        if self._size is None:
            self._size = background_writer.size(self.take(session))
        return self._size

    def take(self, session: tf.Session) -> list[Value]:
        """Returns the current values."""
        session.run(self._operation)
        tensors, self._tensors = self._tensors, []
        return [
            Value(name, part, np.array(tensor) if is_changed else tensor)
            for (name, part), tensor, is_changed in zip(self._places, tensors, self._is_changed_in_place, strict=True)
        ]

    def _note(self, *tensors: tf.Tensor) -> None:
        self._tensors = list(tensors)


def _saving_operations(graph: tf.Graph, name: str) -> list[tf.Operation]:
    """Returns the operations that write a saver's files, found by traversing the graph from its last operation."""
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
    """Returns whether a tensor is a reference variable of TensorFlow 1, which the next step changes in place."""
    if tensor.dtype._is_ref_dtype:
        return True
    return bool(tensor.op.type == "Identity" and _is_reference(tensor.op.inputs[0]))


class _WrittenSession(SessionInterface):  # type: ignore[misc]
    """Session replacement for a saver whose files are already written, so that it only does its bookkeeping."""

    def __init__(self, graph: tf.Graph, prefix: str) -> None:
        self._graph = graph
        self._prefix = prefix

    @property
    def graph(self) -> tf.Graph:
        """The graph of the MetaGraph file."""
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
        """Returns the checkpoint's path."""
        del fetches, feed_dict, options, run_metadata
        return self._prefix
