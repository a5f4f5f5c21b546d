"""Estimator checkpoints with the position in the data, and with the object graph of the variables.

Weights and position are in one checkpoint, so they are restored together or not at all. Variables are saved by object
graph, as TensorFlow's guide to checkpoints shows for Estimators; the scopes in their names become objects. The weights
`dense/kernel` and `dense/bias`, for example, can be restored without the Estimator:

    checkpoint = tf.train.Checkpoint(dense=tf.train.Checkpoint(kernel=kernel, bias=bias))
    checkpoint.restore(tf.train.latest_checkpoint(model_dir)).expect_partial()

In a folder with an Estimator's name-based checkpoints, new checkpoints are name-based, too. The saver of a model
function's scaffold is not replaced.

Usage, with `data` that has a position and a tensor `records` with the number of records in a batch:
    saver = CheckpointHook(estimator, data, save_steps=100)
    estimator.train(input_fn, hooks=[DataPositionHook(data, estimator.model_dir), saver])    # in this order
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import tensorflow.compat.v1 as tf
from absl import logging
from tensorflow.core.protobuf import trackable_object_graph_pb2
from tensorflow.python.trackable import base as trackable
from tensorflow.python.training.saving import saveable_object_util

from ...estimator.background_saving import BackgroundSaverHook
from ...monitoring.progress import save_timed

if TYPE_CHECKING:
    from tensorflow.python.training.saving.saveable_object import SaveableObject

POSITION = "generic_trainer/data_position"
_VALUE = "VARIABLE_VALUE"  # name of the attribute that every variable has in an object graph
_KEY_SUFFIX = f"/.ATTRIBUTES/{_VALUE}"
_SAVER = "_generic_trainer_saver"


class Data(Protocol):
    """Data whose position is saved in checkpoints.

    Attributes:
      records: Number of records in the batch of a step, as a tensor of the graph being built.
    """

    records: tf.Tensor

    def begin(self, session: tf.Session, position: str | None) -> None:
        """Starts reading at a value returned by `position()`; at the beginning if it is None."""

    def trained(self, count: int) -> None:
        """Advances the position by a number of records that the weights were trained on."""

    def position(self) -> str:
        """Returns the position in the data that corresponds to the weights."""


def read_position(checkpoint: str | None) -> str | None:
    """Returns the position in the data that a checkpoint contains; None if it has none."""
    if checkpoint is None:
        return None
    reader = tf.train.load_checkpoint(checkpoint)
    if not reader.has_tensor(POSITION):
        logging.warning("%s contains no position in the data; reading the data from the beginning.", checkpoint)
        return None
    value: bytes = reader.get_tensor(POSITION)
    return value.decode()


class DataPositionHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Counts the records of every trained step, and resumes reading at the restored checkpoint's position.

    It must come before the saver hook, which must not save a step that is not counted yet.

    Args:
      data: The data.
      model_dir: Folder of the checkpoints.
      from_beginning: Whether to start at the beginning of the data, ignoring the position in the current latest
        checkpoint.
    """

    def __init__(self, data: Data, model_dir: str, from_beginning: bool = False) -> None:
        self._data = data
        self._model_dir = model_dir
        self._ignored = tf.train.latest_checkpoint(model_dir) if from_beginning else None

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts reading; called again when TensorFlow has recovered from a lost parameter server."""
        del coord
        checkpoint = tf.train.latest_checkpoint(self._model_dir)
        self._data.begin(session, None if checkpoint == self._ignored else read_position(checkpoint))

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        """Fetches the number of records in this step's batch."""
        del run_context
        return tf.train.SessionRunArgs(self._data.records)

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Counts the records of the completed step."""
        del run_context
        self._data.trained(int(run_values.results))


class CheckpointHook(BackgroundSaverHook):
    """Saves checkpoints with the position in the data; they are written in the background.

    Args:
      estimator: Estimator to which `save_objects` was applied; its RunConfig sets how many checkpoints are kept.
      data: Data whose position is saved.
      save_steps: Steps between checkpoints. Either this or `save_secs` must be set.
      save_secs: Seconds between checkpoints.
      workers_paused: Returns a context manager in which no other worker trains.
    """

    def __init__(
        self,
        estimator: tf.estimator.Estimator,
        data: Data,
        save_steps: int | None = None,
        save_secs: float | None = None,
        workers_paused: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        super().__init__(estimator.model_dir, save_secs=save_secs, save_steps=save_steps)
        self._data = data
        self._workers_paused = workers_paused
        self._estimator = estimator

    def begin(self) -> None:
        """Creates the saver, and a variable for the position that only this saver saves."""
        super().begin()
        position = tf.get_variable(
            POSITION, [], tf.string, tf.zeros_initializer(), trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES]
        )
        self._value = tf.placeholder(tf.string, [])
        self._assign = position.assign(self._value).op
        saver = getattr(self._estimator, _SAVER, None)
        variables = saver._var_list if saver is not None else None
        if not isinstance(variables, dict):
            variables = saveable_object_util.op_list_to_dict(_default_saveables() if variables is None else variables)
        keep = self._estimator.config.keep_checkpoint_max
        self._saver = _saver({**variables, POSITION: position}, max_to_keep=keep)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Saves the initial state."""
        state = tf.train.get_checkpoint_state(self._checkpoint_dir)
        if state is not None:
            self._saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        super().after_create_session(session, coord)

    def _save(self, session: tf.Session, step: int) -> bool:
        with save_timed(), self._workers_paused():
            session.run(self._assign, {self._value: self._data.position()})
            return super()._save(session, step)


def save_objects(estimator: tf.estimator.Estimator) -> None:
    """Makes an Estimator save and restore by object graph in all modes, except with name-based checkpoints."""
    build = estimator._call_model_fn

    def call_model_fn(
        features: object, labels: object, mode: str, config: tf.estimator.RunConfig
    ) -> tf.estimator.EstimatorSpec:
        spec = build(features, labels, mode, config)
        saver = spec.scaffold.saver if spec.scaffold is not None else None
        if saver is None and not _has_name_based_checkpoint(estimator.model_dir):
            saver = _ExportSaver() if mode == tf.estimator.ModeKeys.PREDICT else _object_saver()
            scaffold = tf.train.Scaffold(saver=saver, copy_from_scaffold=spec.scaffold)
            spec = spec._replace(scaffold=scaffold)
        setattr(estimator, _SAVER, saver)
        return spec

    estimator._call_model_fn = call_model_fn


def _has_name_based_checkpoint(model_dir: str) -> bool:
    latest = tf.train.latest_checkpoint(model_dir)
    return latest is not None and _is_name_based(latest)


def _is_name_based(checkpoint: str) -> bool:
    return not tf.train.load_checkpoint(checkpoint).has_tensor(trackable.OBJECT_GRAPH_PROTO_KEY)


class _ExportSaver(tf.train.Saver):  # type: ignore[misc]
    """Restores variables by object graph, and saves them by name, as in a SavedModel of TensorFlow 1."""

    def __init__(self) -> None:
        super().__init__(sharded=True)
        self._objects = _object_saver()

    def restore(self, sess: tf.Session, save_path: str) -> None:
        """Restores a checkpoint by object graph, or the variables of a SavedModel by name."""
        if _is_name_based(save_path):
            super().restore(sess, save_path)
        else:
            self._objects.restore(sess, save_path)


def _object_saver() -> tf.train.Saver:
    named = saveable_object_util.op_list_to_dict(_default_saveables())
    objects = {f"{name}{_KEY_SUFFIX}": value for name, value in named.items()}
    key = trackable.OBJECT_GRAPH_PROTO_KEY
    graph = tf.constant(object_graph(list(named)).SerializeToString())
    return _saver({**objects, key: trackable.NoRestoreSaveable(graph, key, tf.string)})


def _saver(saved: dict[str, tf.Variable | SaveableObject], **options: object) -> tf.train.Saver:
    return tf.train.Saver(saved, sharded=True, save_relative_paths=True, **options)


def _default_saveables() -> list[tf.Variable | SaveableObject]:
    """Returns the objects that an Estimator's default saver saves."""
    return [*tf.global_variables(), *tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS)]


def object_graph(names: Sequence[str]) -> trackable_object_graph_pb2.TrackableObjectGraph:
    """Returns the object graph of variables: each part of a name is a child object of the part before.

    Args:
      names: Names of the variables, such as "dense/kernel".
    """
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.nodes.add()
    places = {"": 0}
    for name in names:
        parts = name.split("/")
        for depth, part in enumerate(parts, 1):
            path, above = "/".join(parts[:depth]), "/".join(parts[: depth - 1])
            if path not in places:
                places[path] = len(graph.nodes)
                graph.nodes.add()
                graph.nodes[places[above]].children.add(node_id=places[path], local_name=part)
        graph.nodes[places[name]].attributes.add(name=_VALUE, full_name=name, checkpoint_key=f"{name}{_KEY_SUFFIX}")
    return graph
