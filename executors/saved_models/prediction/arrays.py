"""A column of lists as the array that a named input of a signature takes, with its shape and type."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from ...inputs.csv.columns import BYTES, DOUBLE, FLOAT, INT


class UnfitRowError(ValueError):
    """A row of a column does not fit; `row` is its index."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row


def arrow_type(dtype: tf.dtypes.DType) -> pa.DataType:
    """Returns the type of a column that text or JSON is read into for an input of a TensorFlow type."""
    if dtype == tf.string:
        return BYTES
    if dtype == tf.float64:
        return DOUBLE
    return FLOAT if dtype.is_floating else INT


def input_array(column: pa.ListArray, spec: tf.TensorSpec) -> np.ndarray:
    """Returns the column's rows, the first dimension, each in the shape that the spec gives after that.

    Args:
      column: An Arrow array of lists of integers, floats or bytes; null where a row has no value.
      spec: A tf.TensorSpec. One size after the batch dimension may be open: it is as the rows of the column are long,
        which must all be so. A spec of unknown rank takes a matrix.

    Raises:
      UnfitRowError: When a row has no value, too many or too few, or one that the spec's type cannot hold.
    """
    if pa.types.is_null(column.type):
        raise UnfitRowError(0, "is missing")
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), -1))
    if (lengths < 0).any():
        raise UnfitRowError(int(np.argmax(lengths < 0)), "is missing")
    shape = [None] if spec.shape.rank is None else spec.shape.as_list()[1:]
    sizes = [-1 if size is None else size for size in shape]
    if sizes.count(-1) > 1:
        raise UnfitRowError(0, "is a list, which does not say how it is to be cut up")
    _require_lengths(lengths, sizes)
    values = column.flatten()
    # The first size is given, since NumPy cannot find out a size next to one of 0.
    return _cast(values, spec.dtype, lengths).reshape([len(lengths), *_closed(sizes, lengths)])


def _require_lengths(lengths: np.ndarray, sizes: list[int]) -> None:
    known = math.prod(size for size in sizes if size != -1)
    if -1 not in sizes:
        odd, wanted = lengths != known, f"{known}"
    else:
        odd, wanted = lengths != lengths[0], f"{lengths[0]}, as the first of its batch has"
        if known and lengths[0] % known:
            raise UnfitRowError(0, f"has {_values(lengths[0])}, not a multiple of {known}")
    if odd.any():
        row = int(np.argmax(odd))
        raise UnfitRowError(row, f"has {_values(lengths[row])}, not {wanted}")


def _values(count: object) -> str:
    return f"{count} value" if count == 1 else f"{count} values"


def _closed(sizes: list[int], lengths: np.ndarray) -> list[int]:
    known = math.prod(size for size in sizes if size != -1)
    return [int(lengths[0]) // max(known, 1) if size == -1 else size for size in sizes]


def _cast(values: pa.Array, dtype: tf.dtypes.DType, lengths: np.ndarray) -> np.ndarray:
    """Returns the values as the TensorFlow type; integers may become floats, and floats that are whole, integers."""
    is_text = pa.types.is_large_binary(values.type) or pa.types.is_binary(values.type)
    if is_text != (dtype == tf.string):
        raise UnfitRowError(0, "holds strings" if is_text else "holds numbers")
    array: np.ndarray = values.to_numpy(zero_copy_only=False)
    if is_text:
        return array.astype(object)
    with np.errstate(invalid="ignore"):
        cast: np.ndarray = array.astype(dtype.as_numpy_dtype)
    if not dtype.is_floating and (odd := cast != array).any():
        value = int(np.argmax(odd))
        row = int(np.searchsorted(np.cumsum(lengths), value, side="right"))
        raise UnfitRowError(row, f"holds {array[value]}")
    return cast
