"""Converts a column of lists to an array with the shape and dtype of a signature's named input."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from ...inputs.csv.columns import BYTES, DOUBLE, FLOAT, INT


class UnfitRowError(ValueError):
    """A row of a column does not fit the input; `row` is its index in the batch."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row


def arrow_type(dtype: tf.dtypes.DType) -> pa.DataType:
    """Returns the Arrow type to parse text or JSON into for an input of a TensorFlow dtype."""
    if dtype == tf.string:
        return BYTES
    if dtype == tf.float64:
        return DOUBLE
    return FLOAT if dtype.is_floating else INT


def input_array(column: pa.ListArray, spec: tf.TensorSpec) -> np.ndarray:
    """Returns the column as an array of shape [rows, *spec.shape[1:]] and the spec's dtype.

    Args:
      column: An Arrow array of lists of integers, floats or bytes; null for a row without a value.
      spec: A tf.TensorSpec. One size after the batch dimension may be unknown: it is inferred from the length of the
        rows, which must be equal. With an unknown rank, the result is a matrix.

    Raises:
      UnfitRowError: If a row has no value, the wrong number of values, or a value that the spec's dtype cannot
        represent.
    """
    if pa.types.is_null(column.type):
        raise UnfitRowError(0, "is missing")
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), -1))
    if (lengths < 0).any():
        raise UnfitRowError(int(np.argmax(lengths < 0)), "is missing")
    shape = [None] if spec.shape.rank is None else spec.shape.as_list()[1:]
    sizes = [-1 if size is None else size for size in shape]
    if sizes.count(-1) > 1:
        raise UnfitRowError(0, "is a flat list, which cannot be reshaped to more than one unknown dimension")
    _require_lengths(lengths, sizes)
    values = column.flatten()
    # All sizes are explicit, as NumPy cannot infer a size of -1 next to a size of 0.
    return _cast(values, spec.dtype, lengths).reshape([len(lengths), *_resolved_sizes(sizes, lengths)])


def _require_lengths(lengths: np.ndarray, sizes: list[int]) -> None:
    known = math.prod(size for size in sizes if size != -1)
    if -1 not in sizes:
        odd, wanted = lengths != known, f"{known}"
    else:
        odd, wanted = lengths != lengths[0], f"{lengths[0]} like the first example of its batch"
        if known and lengths[0] % known:
            raise UnfitRowError(0, f"has {_values(lengths[0])}, not a multiple of {known}")
    if odd.any():
        row = int(np.argmax(odd))
        raise UnfitRowError(row, f"has {_values(lengths[row])}, not {wanted}")


def _values(count: object) -> str:
    return f"{count} value" if count == 1 else f"{count} values"


def _resolved_sizes(sizes: list[int], lengths: np.ndarray) -> list[int]:
    known = math.prod(size for size in sizes if size != -1)
    return [int(lengths[0]) // max(known, 1) if size == -1 else size for size in sizes]


def _cast(values: pa.Array, dtype: tf.dtypes.DType, lengths: np.ndarray) -> np.ndarray:
    """Casts the values to a dtype; integers may become floats, and floats without a fraction integers."""
    is_text = pa.types.is_large_binary(values.type) or pa.types.is_binary(values.type)
    if is_text != (dtype == tf.string):
        raise UnfitRowError(0, "has string values" if is_text else "has numeric values")
    array: np.ndarray = values.to_numpy(zero_copy_only=False)
    if is_text:
        return array.astype(object)
    with np.errstate(invalid="ignore"):
        cast: np.ndarray = array.astype(dtype.as_numpy_dtype)
    if not dtype.is_floating and (odd := cast != array).any():
        value = int(np.argmax(odd))
        row = int(np.searchsorted(np.cumsum(lengths), value, side="right"))
        raise UnfitRowError(row, f"has the value {array[value]}")
    return cast
