"""Applies a function to the values of a dense, sparse or ragged tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def map_values(function: Callable[[Any], Any], inputs: Any) -> Any:
    """Returns a tensor of the same kind and shape, with `function` applied to its values."""
    if isinstance(inputs, tf.SparseTensor):
        return inputs.with_values(function(inputs.values))
    if isinstance(inputs, tf.RaggedTensor):
        return tf.ragged.map_flat_values(function, inputs)
    return function(inputs)
