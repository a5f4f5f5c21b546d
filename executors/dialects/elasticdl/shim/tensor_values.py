"""Access to the values of dense, sparse and ragged tensors, and to the variable of a layer's weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import tensorflow as tf

if TYPE_CHECKING:
    import keras

AnyTensor: TypeAlias = "tf.Tensor | tf.SparseTensor | tf.RaggedTensor"
# A batch of features or labels, or a model's outputs for one.
Tensors: TypeAlias = "AnyTensor | Sequence[AnyTensor] | Mapping[str, AnyTensor]"


def map_values(function: Callable[[tf.Tensor], tf.Tensor], inputs: AnyTensor) -> AnyTensor:
    """Applies a function to the values of a tensor; returns a tensor of the same kind and shape."""
    if isinstance(inputs, tf.SparseTensor):
        return inputs.with_values(function(inputs.values))
    if isinstance(inputs, tf.RaggedTensor):
        return tf.ragged.map_flat_values(function, inputs)
    return function(inputs)


def variable_of(weight: tf.Variable | keras.Variable) -> tf.Variable:
    """Returns the `tf.Variable` of a layer's weight, which Keras 3 wraps in a `keras.Variable`.

    A variable that is partitioned over parameter servers is not a `tf.Variable` and is returned unchanged; embedding
    lookups support it.
    """
    return weight if isinstance(weight, tf.Variable) else getattr(weight, "value", weight)
