"""`labels.flatten()`: what model files of 2019 say, whose losses and metrics were called with NumPy arrays as labels.

An array takes on the type of what it is compared with, a tensor does not: `tf.equal(tf.argmax(predictions, 1),
labels.flatten())` compares int64 with int32. So `flatten()` gives labels that become a tensor of the type asked for.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import tensorflow as tf


class FlatLabels:
    """A vector of labels, of whatever numeric type is wanted.

    Attributes:
      tensor: The labels, with the type that `feed` gave them.
    """

    def __init__(self, tensor: tf.Tensor) -> None:
        self.tensor = tensor

    def __tf_tensor__(self, dtype: tf.DType | None = None, name: str | None = None) -> tf.Tensor:
        """Returns the labels as TensorFlow asks for them."""
        return self.tensor if dtype in (None, self.tensor.dtype) else tf.cast(self.tensor, dtype, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor, name)


def _delegated(function: Callable[[tf.Tensor, object], tf.Tensor]) -> Callable[[FlatLabels, object], tf.Tensor]:
    return lambda self, other: function(self.tensor, other)


for _name in ("add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "getitem"):
    setattr(FlatLabels, f"__{_name}__", _delegated(getattr(operator, _name)))


def allow_numpy_idioms() -> None:
    """Gives tensors a `flatten()` in this process; changes nothing where they have one."""
    if not hasattr(tf.Tensor, "flatten"):
        tf.Tensor.flatten = lambda self: FlatLabels(tf.reshape(self, [-1]))
