"""Adds `flatten()` to tensors for model files of 2019, whose losses and metrics got labels as NumPy arrays.

NumPy labels are converted to the other operand's dtype, tensors are not: `tf.equal(tf.argmax(predictions, 1),
labels.flatten())` would compare int64 with int32. So `flatten()` returns labels that convert to any requested dtype.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import tensorflow as tf


class FlatLabels:
    """A vector of labels that converts to a tensor of any requested dtype.

    Attributes:
      tensor: The labels with their original dtype.
    """

    def __init__(self, tensor: tf.Tensor) -> None:
        self.tensor = tensor

    def __tf_tensor__(self, dtype: tf.DType | None = None, name: str | None = None) -> tf.Tensor:
        """Returns the labels as a tensor of `dtype`; implements TensorFlow's conversion protocol."""
        return self.tensor if dtype in (None, self.tensor.dtype) else tf.cast(self.tensor, dtype, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor, name)


def _delegated(function: Callable[[tf.Tensor, object], tf.Tensor]) -> Callable[[FlatLabels, object], tf.Tensor]:
    return lambda self, other: function(self.tensor, other)


for _name in ("add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "getitem"):
    setattr(FlatLabels, f"__{_name}__", _delegated(getattr(operator, _name)))


def allow_numpy_idioms() -> None:
    """Adds a `flatten` method to `tf.Tensor` in this process, unless it has one."""
    if not hasattr(tf.Tensor, "flatten"):
        tf.Tensor.flatten = lambda self: FlatLabels(tf.reshape(self, [-1]))
