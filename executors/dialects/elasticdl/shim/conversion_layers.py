"""Layers of `elasticdl_preprocessing` that convert between dtypes and between dense, ragged and sparse tensors.

ToNumber(tf.int32, default_value=-1)([["12", ""]])       # [[12, -1]]
ToRagged()([["1,2,3"], ["4"], [""]])                     # [["1", "2", "3"], ["4"], []]
ToSparse()([["A", ""], ["B", "C"]])                      # without ""
"""

from __future__ import annotations

import tensorflow as tf

from .tensor_values import AnyTensor, map_values

_PACKAGE = "elasticdl_preprocessing"


@tf.keras.utils.register_keras_serializable(_PACKAGE)
class ToNumber(tf.keras.layers.Layer):  # type: ignore[misc]
    """Parses strings as numbers, with a default for empty strings; casts numbers."""

    def __init__(self, out_type: tf.DType | str | type, default_value: float, **kwargs: object) -> None:
        """Sets the output dtype.

        Args:
          out_type: The output dtype. Strings can be parsed to float32, float64, int32 and int64.
          default_value: The number for an empty string.
          **kwargs: Arguments of `tf.keras.layers.Layer`.

        Raises:
          ValueError: When `out_type` is not a numeric dtype.
        """
        dtype = tf.as_dtype(out_type)
        if not (dtype.is_floating or dtype.is_integer):
            raise ValueError(f"ToNumber: out_type is {dtype.name}; it must be a numeric type, such as tf.float32.")
        super().__init__(**kwargs)
        self.out_type = dtype
        self.default_value = default_value

    def call(self, inputs: AnyTensor) -> AnyTensor:
        """Converts the values."""
        return map_values(self._number, inputs)

    def _number(self, values: tf.Tensor) -> tf.Tensor:
        if values.dtype != tf.string:
            return tf.cast(values, self.out_type)
        texts = tf.where(tf.equal(values, ""), str(self.default_value), values)
        return tf.strings.to_number(texts, self.out_type)

    def get_config(self) -> dict[str, object]:
        """Returns the layer's configuration, with the name of the dtype."""
        return {**super().get_config(), "out_type": self.out_type.name, "default_value": self.default_value}


def _ignored(ignore_value: str | float | None, dtype: tf.DType) -> tf.Tensor | None:
    """Returns the placeholder of missing values; by default "" or -1, and None (no placeholder) for floats."""
    if ignore_value is not None:
        return tf.cast(ignore_value, dtype)
    if dtype == tf.string:
        return tf.constant("")
    return tf.constant(-1, dtype) if dtype.is_integer else None


@tf.keras.utils.register_keras_serializable(_PACKAGE)
class ToRagged(tf.keras.layers.Layer):  # type: ignore[misc]
    """Splits strings at a separator and drops missing values; returns a ragged tensor.

    ElasticDL's earlier releases split strings, as its guide documents. The last release did not, but got strings that
    had been split before, for which the result is the same.
    """

    def __init__(self, sep: str = ",", ignore_value: str | float | None = None, **kwargs: object) -> None:
        """Sets separator and placeholder.

        Args:
          sep: The separator.
          ignore_value: The placeholder of missing values; None for "" in strings, -1 in integers, none in floats.
          **kwargs: Arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(**kwargs)
        self.sep = sep
        self.ignore_value = ignore_value

    def call(self, inputs: tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns a ragged tensor without the missing values.

        Raises:
          TypeError: When the input is a SparseTensor.
        """
        if isinstance(inputs, tf.SparseTensor):
            raise TypeError(
                "ToRagged takes dense and ragged tensors, not sparse ones; use tf.RaggedTensor.from_sparse."
            )
        ragged = inputs if isinstance(inputs, tf.RaggedTensor) else tf.RaggedTensor.from_tensor(inputs)
        if ragged.dtype == tf.string:
            rank = ragged.shape.rank
            ragged = tf.strings.split(ragged, self.sep).merge_dims(rank - 1, rank)
        ignored = _ignored(self.ignore_value, ragged.dtype)
        return ragged if ignored is None else tf.ragged.boolean_mask(ragged, tf.not_equal(ragged, ignored))

    def get_config(self) -> dict[str, object]:
        """Returns the layer's configuration."""
        return {**super().get_config(), "sep": self.sep, "ignore_value": self.ignore_value}


@tf.keras.utils.register_keras_serializable(_PACKAGE)
class ToSparse(tf.keras.layers.Layer):  # type: ignore[misc]
    """Converts a dense tensor to a sparse one without the missing values."""

    def __init__(self, ignore_value: str | float | None = None, **kwargs: object) -> None:
        """Sets the placeholder of missing values; None for "" in strings, -1 in integers and 0.0 in floats."""
        super().__init__(**kwargs)
        self.ignore_value = ignore_value

    def call(self, inputs: tf.Tensor | tf.SparseTensor) -> tf.SparseTensor:
        """Returns a sparse tensor without the missing values. A sparse input is returned unchanged."""
        if isinstance(inputs, tf.SparseTensor):
            return inputs
        ignored = _ignored(self.ignore_value, inputs.dtype)
        places = tf.where(tf.not_equal(inputs, tf.constant(0, inputs.dtype) if ignored is None else ignored))
        return tf.SparseTensor(places, tf.gather_nd(inputs, places), tf.shape(inputs, out_type=tf.int64))

    def get_config(self) -> dict[str, object]:
        """Returns the layer's configuration."""
        return {**super().get_config(), "ignore_value": self.ignore_value}
