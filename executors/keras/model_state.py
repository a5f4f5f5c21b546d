"""The complete training state of a compiled Keras model, as a `tf.train.Checkpoint`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from ..compat.keras import is_built, tensor_variable

if TYPE_CHECKING:
    import keras


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


def _build(optimizer: keras.optimizers.Optimizer, model: keras.Model) -> None:
    build: Callable[[Sequence[keras.Variable]], None] | None = getattr(optimizer, "build", None)
    if build is not None and not is_built(optimizer):
        with model.distribute_strategy.scope():
            build(model.trainable_variables)


def _left_out(state: tf.train.Checkpoint, model: keras.Model) -> list[tf.Variable]:
    """Returns the variables of a Keras 3 model that TensorFlow does not track: those of random generators."""
    known = tf.train.TrackableView(state).descendants()
    tracked = {id(trackable) for trackable in known} | {id(tensor_variable(trackable)) for trackable in known}
    values = [tensor_variable(variable) for variable in model.variables]
    return [value for value in values if isinstance(value, tf.Variable) and id(value) not in tracked]
