"""Layers of `elasticdl_preprocessing` for numbers: normalization, discretization, rounding.

All accept dense, sparse and ragged tensors and return a tensor of the same kind:

    Normalizer(subtractor=1.0, divisor=2.0)([[3.0], [5.0]])         # [[1.0], [2.0]]
    Discretization(bins=[1, 5, 10])([[0.2], [1.6], [10.9]])         # [[0], [1], [3]]
    RoundIdentity(num_buckets=10)([[1.2], [4.9], [12.0]])           # [[1], [5], [0]]
    LogRound(num_bins=20, base=2)([[0.2], [3.1], [1024.0]])         # [[0], [2], [10]]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from .tensor_values import AnyTensor, map_values

_PACKAGE = "elasticdl_preprocessing"


@tf.keras.utils.register_keras_serializable(_PACKAGE)
class Normalizer(tf.keras.layers.Layer):  # type: ignore[misc]
    """Computes (x - subtractor) / divisor, as float32."""

    def __init__(self, subtractor: float, divisor: float, **kwargs: object) -> None:
        """Sets subtractor and divisor.

        Raises:
          ValueError: When the divisor is 0.
        """
        if divisor == 0:
            raise ValueError(
                "Normalizer: divisor is 0. A constant feature has a standard deviation of 0; use 1 instead."
            )
        super().__init__(**kwargs)
        self.subtractor = subtractor
        self.divisor = divisor

    def call(self, inputs: AnyTensor) -> AnyTensor:
        """Normalizes the values."""
        return map_values(self._normalized, inputs)

    def _normalized(self, values: tf.Tensor) -> tf.Tensor:
        return (tf.cast(values, tf.float32) - self.subtractor) / self.divisor

    def get_config(self) -> dict[str, object]:
        """Returns the layer's configuration."""
        return {**super().get_config(), "subtractor": self.subtractor, "divisor": self.divisor}


@tf.keras.utils.register_keras_serializable(_PACKAGE)
class Discretization(tf.keras.layers.Layer):  # type: ignore[misc]
    """Maps numbers to buckets from 0 to len(bins), as int64. A boundary belongs to the bucket above it."""

    def __init__(self, bins: Sequence[float], **kwargs: object) -> None:
        """Sets the bucket boundaries, in ascending order."""
        super().__init__(**kwargs)
        self.bins = list(bins)

    def num_bins(self) -> int:
        """Returns the number of buckets."""
        return len(self.bins) + 1

    def call(self, inputs: AnyTensor) -> AnyTensor:
        """Returns the buckets of the values."""
        return map_values(self._buckets, inputs)

    def _buckets(self, values: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.raw_ops.Bucketize(input=values, boundaries=[float(bound) for bound in self.bins]), tf.int64)

    def get_config(self) -> dict[str, object]:
        """Returns the layer's configuration."""
        return {**super().get_config(), "bins": self.bins}


def _within(values: tf.Tensor, size: int, default: int) -> tf.Tensor:
    """Casts rounded values to int64, with `default` for values outside [0, size) and NaN."""
    inside = tf.logical_and(values >= 0, values < size)
    numbers = tf.cast(tf.where(inside, values, tf.zeros_like(values)), tf.int64)
    return tf.where(inside, numbers, tf.cast(default, tf.int64))


@tf.keras.utils.register_keras_serializable(_PACKAGE)
class RoundIdentity(tf.keras.layers.Layer):  # type: ignore[misc]
    """Rounds to the nearest integer (halves to even), as int64."""

    def __init__(self, num_buckets: int, default_value: int = 0, **kwargs: object) -> None:
        """Sets the range of results.

        Args:
          num_buckets: Results are in [0, num_buckets).
          default_value: The result for values outside this range.
          **kwargs: Arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(**kwargs)
        self.num_buckets = num_buckets
        self.default_value = default_value

    def call(self, inputs: AnyTensor) -> AnyTensor:
        """Rounds the values."""
        return map_values(lambda values: _within(tf.round(values), self.num_buckets, self.default_value), inputs)

    def get_config(self) -> dict[str, object]:
        """Returns the layer's configuration."""
        return {**super().get_config(), "num_buckets": self.num_buckets, "default_value": self.default_value}


@tf.keras.utils.register_keras_serializable(_PACKAGE)
class LogRound(tf.keras.layers.Layer):  # type: ignore[misc]
    """Rounds the logarithm to the nearest integer, as int64."""

    def __init__(self, num_bins: int, default_value: int = 0, base: float | None = None, **kwargs: object) -> None:
        """Sets range and base.

        Args:
          num_bins: Results are in [0, num_bins).
          default_value: The result for values outside this range, and for numbers without a logarithm.
          base: The base of the logarithm; None for the natural logarithm.
          **kwargs: Arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(**kwargs)
        self.num_bins = num_bins
        self.default_value = default_value
        self.base = base

    def call(self, inputs: AnyTensor) -> AnyTensor:
        """Rounds the logarithms of the values."""
        return map_values(self._rounded, inputs)

    def _rounded(self, values: tf.Tensor) -> tf.Tensor:
        logarithm = tf.math.log(tf.cast(values, tf.float64))
        if self.base is not None:
            logarithm /= math.log(self.base)
        return _within(tf.round(logarithm), self.num_bins, self.default_value)

    def get_config(self) -> dict[str, object]:
        """Returns the layer's configuration."""
        own = {"num_bins": self.num_bins, "default_value": self.default_value, "base": self.base}
        return {**super().get_config(), **own}
