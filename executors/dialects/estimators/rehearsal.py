"""Rehearses an Estimator's export before training: builds and saves each exporter's graph without variables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import tensorflow as tf
from absl import logging

from ...compat.tensorflow import mark_variables_written
from ...compat.tensorflow_estimator import add_serving_graph, serving_receiver_fn_of
from ...errors import ModuleError
from ...saved_models.export_rehearsal import rehearsal
from ...saved_models.input_names import argument_names
from ...saved_models.signatures import meta_graph_of
from .inputs import ServingInputReceiverFn

if TYPE_CHECKING:
    from tensorflow.core.protobuf import meta_graph_pb2

_WHEEL = "tensorflow_estimator"


def rehearse_exports(estimator: tf.estimator.Estimator, exporters: Iterable[tf.estimator.Exporter], where: str) -> None:
    """Builds the export graphs before training, so that errors in them are raised before training instead of after it.

    Only TensorFlow's own exporters and `export_saved_model` are rehearsed; overridden ones are skipped.

    Args:
      estimator: The Estimator, untrained or not.
      exporters: The EvalSpec's exporters.
      where: The module and function, for error messages.

    Raises:
      ModuleError: When a signature input has a name that would prevent loading the model.
      Exception: Any exception of the serving functions or the model function.
    """
    rehearsed: list[ServingInputReceiverFn] = []
    for exporter in exporters:
        receiver_fn = serving_receiver_fn_of(exporter)
        if receiver_fn is None or not (
            _is_from_tensorflow(exporter.export) and _is_from_tensorflow(estimator.export_saved_model)
        ):
            logging.debug(
                "The export of %r is not tested before training: it overrides TensorFlow's export method.", exporter
            )
        elif receiver_fn not in rehearsed:
            rehearsed.append(receiver_fn)
            with rehearsal() as folder, _same_classes():
                for name, signature in _save_graph(estimator, receiver_fn, folder).items():
                    _require_loadable(signature, f"{folder}/{len(rehearsed)}", f"{where}: the signature {name!r}")


def _is_from_tensorflow(method: Callable[..., object]) -> bool:
    return bool(method.__module__.startswith(_WHEEL))


@contextlib.contextmanager
def _same_classes() -> Iterator[None]:
    """Restores the base classes of all `tf.Module` subclasses after the block.

    When tf-keras clones a model in a graph, it replaces the bases of the model's class by their TensorFlow 1 versions,
    which affects all instances. The model of a `model_to_estimator`, created in eager mode, could then no longer be
    cloned for training.
    """
    before = {one: one.__bases__ for one in _subclasses(tf.Module)}
    try:
        yield
    finally:
        for one, bases in before.items():
            if one.__bases__ != bases:
                one.__bases__ = bases


def _subclasses(base: type) -> Iterator[type]:
    subclasses: list[type] = type.__subclasses__(base)
    for one in subclasses:
        yield one
        yield from _subclasses(one)


def _save_graph(
    estimator: tf.estimator.Estimator, receiver_fn: ServingInputReceiverFn, folder: str
) -> dict[str, meta_graph_pb2.SignatureDef]:
    """Exports the serving graph like `export_saved_model` but without variables; returns the signatures by name."""
    predict = tf.estimator.ModeKeys.PREDICT
    with tf.Graph().as_default():
        builder = tf.compat.v1.saved_model.Builder(folder)
        mark_variables_written(builder)
        add_serving_graph(estimator, builder, receiver_fn, predict)
        builder.save()
    return dict(meta_graph_of(folder).signature_def)


def _require_loadable(signature: meta_graph_pb2.SignatureDef, folder: str, what: str) -> None:
    """Raises if TensorFlow cannot load and call a signature because of the names of its inputs.

    If any name is not a valid argument name, a tiny model with the same input names is saved, loaded and called.
    """
    names = sorted(signature.inputs)
    invalid = [name for name, argument in argument_names(names).items() if name != argument]
    if not invalid or not tf.executing_eagerly():
        return
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = {name: tf.compat.v1.placeholder(tf.float32, []) for name in names}
        outputs = {"sum": tf.add_n(list(inputs.values()))}
        builder = tf.compat.v1.saved_model.Builder(folder)
        definition = tf.compat.v1.saved_model.predict_signature_def(inputs, outputs)
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={"serving_default": definition})
        builder.save()
    try:
        loaded = tf.saved_model.load(folder, tags=["serve"])
        loaded.signatures["serving_default"](**{name: tf.constant(0.0) for name in names})
    except (TypeError, ValueError) as error:
        raise ModuleError(
            f"{what} has input names with which TensorFlow cannot load the model: {', '.join(map(repr, invalid))} "
            f"({error}). Rename them in the serving_input_receiver_fn's receiver_tensors, or rename the columns."
        ) from error
