"""The complete training state of a compiled Keras model, as a `tf.train.Checkpoint`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from ..checkpoints.restore import variables_of
from ..compat.keras import is_built, tensor_variable

if TYPE_CHECKING:
    import keras

_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def state_of(model: keras.Model, **more: object) -> tf.train.Checkpoint:
    """Returns a checkpoint of the model, its optimizer, and variables that TensorFlow does not track.

    Args:
      model: A built and compiled model.
      **more: Other objects to track.
    """
    optimizer = model.optimizer
    if optimizer is not None:
        _build(optimizer, model)
        more["optimizer"] = optimizer
    state = tf.train.Checkpoint(model=model, **more)
    if others := _left_out(state, model):
        state = tf.train.Checkpoint(model=model, others=others, **more)
    return state


def shapes_of(state: tf.train.Checkpoint, model: keras.Model) -> dict[str, list[int]]:
    """Returns the variables' shapes by checkpoint key, without metrics' variables, which each fit resets."""
    variables = [variable for metric in model.metrics for variable in metric.variables]
    left_out = {id(one) for variable in variables for one in (variable, tensor_variable(variable))}
    found = variables_of(state).items()
    return {key: shape for key, (_, shape, owner) in found if id(owner) not in left_out and key != _GRAPH}


def _build(optimizer: keras.optimizers.Optimizer, model: keras.Model) -> None:
    build: Callable[[Sequence[keras.Variable]], None] | None = getattr(optimizer, "build", None)
    if build is not None and not is_built(optimizer):
        with model.distribute_strategy.scope():
            build(model.trainable_variables)


def _left_out(state: tf.train.Checkpoint, model: keras.Model) -> list[tf.Variable]:
    """Returns the variables of a Keras 3 model that TensorFlow does not track: those of random generators."""
    known = tf.train.TrackableView(state).descendants()
    found = {id(one) for one in known} | {id(tensor_variable(one)) for one in known}
    values = [tensor_variable(variable) for variable in model.variables]
    return [value for value in values if isinstance(value, tf.Variable) and id(value) not in found]
