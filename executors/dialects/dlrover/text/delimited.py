r"""Decodes batches of delimited rows into tensors.

The row syntax is that of `tf.io.decode_csv`: RFC 4180 quoting, and no line breaks outside of quotes.

Usage:

    fields = [Field("age", "int32"), Field("tags", "string", is_sparse=True), Field("label", "float32")]
    decode(tf.constant(["31,a\x01b,1", ",,0"]), fields)     # {"age": [31, 0], "tags": a SparseTensor [2, 2], …}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ....errors import InputError, did_you_mean
from ....inputs.message_text import join_names, short_repr
from ....inputs.readers.reader_errors import MAX_COLUMNS

FIELD_DELIM = ","
VALUE_DELIM = "\x01"

# The type that each dtype is parsed as: one that decode_csv and to_number support in every TensorFlow release.
_PARSED_AS = {
    "float16": tf.string,
    "float32": tf.float32,
    "float64": tf.float64,
    "int8": tf.int32,
    "int16": tf.int32,
    "int32": tf.int32,
    "int64": tf.int64,
    "uint8": tf.int32,
    "uint16": tf.int32,
    "uint32": tf.int64,
    "uint64": tf.string,
    "bool": tf.string,
    "string": tf.string,
}
# DLRover's type names, as np.dtype resolves them.
_OTHER_NAMES = {"float": "float64", "double": "float64", "int": "int64", "str": "string", "bytes": "string"}

# Exceptions that computing the tensors of `decode` raises for bad data. TensorFlow's message quotes the field that is
# not a number; if the field is not UTF-8, as in a Latin-1 file, creating the exception fails with UnicodeDecodeError.
DECODE_ERRORS = (tf.errors.InvalidArgumentError, UnicodeDecodeError)


@dataclasses.dataclass(frozen=True)
class Field:
    """A column of delimited rows.

    Attributes:
      name: Name of the column.
      dtype: Type of its values: a tf.DType, a name such as "float32", a NumPy dtype or scalar type, or a Python type.
        Converted to a tf.DType. As in NumPy, "float" and "double" are float64 and "int" is int64.
      is_sparse: Whether a field holds any number of values, separated by `value_delim`.
      is_required: Whether an empty field is an error, as for a label, instead of the default 0 or "".

    Raises:
      InputError: If the type cannot be decoded.
    """

    name: str
    dtype: Any
    is_sparse: bool = False
    is_required: bool = False

    def __post_init__(self) -> None:
        name = _name_of(self.dtype)
        known = [*_PARSED_AS, *_OTHER_NAMES]
        if name not in known:
            raise InputError(
                f"the column {self.name!r} has the dtype {self.dtype!r}, which cannot be "
                f"decoded.{did_you_mean(name, known)} Supported dtypes: {', '.join(known)}."
            )
        object.__setattr__(self, "dtype", tf.as_dtype(_OTHER_NAMES.get(name, name)))


def decode(
    rows: tf.Tensor, fields: Sequence[Field], delim: str = FIELD_DELIM, value_delim: str = VALUE_DELIM
) -> dict[str, tf.Tensor | tf.SparseTensor]:
    """Decodes delimited rows into one tensor per column.

    An empty field becomes 0, "" or False, and no value in a sparse column. Values that do not parse as their column's
    type, empty fields of required columns, and rows with a different number of fields raise one of DECODE_ERRORS when
    the tensors are computed; `row_checks.check_rows` then finds the row.

    Args:
      rows: String vector of shape [batch].
      fields: The columns, in the order of the fields in a row.
      delim: Delimiter between fields: one ASCII character other than a quote or line break.
      value_delim: Delimiter between the values of a sparse column.

    Returns:
      {name: tensor of shape [batch] and the column's dtype, or SparseTensor of shape [batch, most values of a row]}.

    Raises:
      InputError: If a delimiter is not allowed, or there are no columns, duplicate names or more than 2^16 columns.
    """
    check_format(fields, delim, value_delim)
    return typed(raw_columns(rows, fields, delim), fields, value_delim)


def raw_columns(rows: tf.Tensor, fields: Sequence[Field], delim: str) -> list[tf.Tensor]:
    """Returns the columns of delimited rows in types that decode_csv supports; sparse columns as strings."""
    columns: list[tf.Tensor] = tf.io.decode_csv(rows, [default_value(field) for field in fields], delim)
    return columns


def typed(
    columns: Sequence[tf.Tensor], fields: Sequence[Field], value_delim: str
) -> dict[str, tf.Tensor | tf.SparseTensor]:
    """Converts the result of `raw_columns` to that of `decode`."""
    return {
        field.name: split_values(column, field, value_delim) if field.is_sparse else _narrowed(column, field.dtype)
        for field, column in zip(fields, columns, strict=True)
    }


def split_values(text: tf.Tensor, field: Field, value_delim: str = VALUE_DELIM) -> tf.SparseTensor:
    """Splits the fields of a sparse column into values.

    Args:
      text: String vector of shape [batch]: each row's values, separated by `value_delim`; an empty string has none.
      field: The column.
      value_delim: Delimiter between values.

    Returns:
      SparseTensor of shape [batch, most values of a row] and the column's dtype. Values that do not parse raise an
      error when the tensor is computed, as in `decode`.
    """
    # Plain ops, since ragged tensors add some hundred ops to the exported graph of each column.
    parts = tf.raw_ops.StringSplitV2(input=text, sep=value_delim)  # an empty string gives one empty value
    rows, _ = tf.unstack(parts.indices, num=2, axis=1)
    kept = tf.squeeze(tf.where(tf.not_equal(tf.gather(text, rows), "")), 1)
    values = parsed_values(tf.gather(parts.values, kept), field.dtype)
    # Without a value there are no columns; otherwise the values are at least as many as those of one row.
    shape = tf.minimum(parts.shape, tf.stack([tf.int64.max, tf.size(kept, tf.int64)]))
    return tf.SparseTensor(tf.gather(parts.indices, kept), values, shape)


def check_format(fields: Sequence[Field], delim: str, value_delim: str) -> None:
    """Checks the columns and delimiters that `decode` takes.

    Raises:
      InputError: If there are no columns, duplicate names or more than 2^16 columns, or if a delimiter is not allowed.
    """
    if len(fields) > MAX_COLUMNS:
        raise InputError(
            f"there are {len(fields):,} columns, starting with {short_repr(fields[0].name)}. Each becomes a separate "
            f"tensor, and TensorFlow takes minutes for more than {MAX_COLUMNS:,}: omit those that the model does not "
            "read."
        )
    names = [field.name for field in fields]
    if not names or len(set(names)) != len(names):
        raise InputError(f"the columns are {join_names(names)}; at least one is required, and names must be unique.")
    if len(delim.encode()) != 1 or delim in '"\r\n':
        raise InputError(
            f"{delim!r} cannot separate fields; use one ASCII character that is not a quote or a line end."
        )
    if any(field.is_sparse for field in fields) and value_delim in ("", delim):
        raise InputError(
            f"{value_delim!r} cannot separate the values in a sparse column, where {delim!r} separates the columns."
        )


def _name_of(dtype: object) -> str:
    """Returns the name of a dtype given as a string, tf.DType, NumPy or Python type; else the `repr` of the object."""
    if isinstance(dtype, str):
        return dtype
    if isinstance(dtype, tf.DType):
        return str(dtype.base_dtype.name)
    is_numpys = isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic))
    if is_numpys or dtype in (bool, int, float, str, bytes):
        numpy_dtype = np.dtype(dtype)
        return "string" if numpy_dtype.kind in "SU" else numpy_dtype.name
    return repr(dtype)


def _raw_type(field: Field) -> tf.DType:
    """Returns the type that decode_csv parses a column as."""
    return tf.string if field.is_sparse else _PARSED_AS[field.dtype.name]


def default_value(field: Field) -> np.ndarray:
    """Returns decode_csv's `record_defaults` entry for a column: shape [1], or [0] if the column is required."""
    raw = _raw_type(field)
    if field.is_required:
        empty: np.ndarray = np.array([], raw.as_numpy_dtype)
        return empty
    nothing = "" if field.is_sparse or field.dtype == tf.string else "0" if raw == tf.string else 0
    default: np.ndarray = np.array([nothing], raw.as_numpy_dtype)
    return default


def parsed_values(text: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Parses a string vector as values of a type; values that do not parse fail when the tensor is computed."""
    raw = _PARSED_AS[dtype.name]
    return _narrowed(text if raw == tf.string else tf.strings.to_number(text, raw), dtype)


def _narrowed(values: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Casts values that were parsed as a wider type or as strings; values out of range fail an assertion."""
    if values.dtype == dtype:
        return values
    narrow, fits = {tf.bool: _bools, tf.float16: _halves, tf.uint64: _longs}.get(dtype, _integers)(values, dtype)
    check = tf.debugging.Assert(tf.reduce_all(fits), [f"a value in the data is not of the type {dtype.name}"])
    with tf.control_dependencies([check]):
        return tf.identity(narrow)


def _integers(values: tf.Tensor, dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.cast(values, dtype), (values >= int(dtype.min)) & (values <= int(dtype.max))


def _bools(text: tf.Tensor, _: tf.DType) -> tuple[tf.Tensor, tf.Tensor]:
    lower = tf.strings.lower(tf.strings.strip(text))
    true, false = (tf.equal(lower, digit) | tf.equal(lower, word) for digit, word in (("1", "true"), ("0", "false")))
    return true, true | false


def _halves(text: tf.Tensor, dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor]:
    values = tf.cast(tf.strings.to_number(text, tf.float32), dtype)
    return values, ~tf.math.is_inf(values) | tf.strings.regex_full_match(text, r"(?i)\s*[+-]?inf.*")


def _longs(text: tf.Tensor, dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor]:
    """Parses uint64 values of up to 20 digits in two halves, since no op of TensorFlow 2.15 parses more than 19."""
    digits = tf.strings.strip(text)
    padded = tf.strings.join(["0" * 20, tf.strings.regex_replace(digits, r"^\+?0*", "")])
    high, low = (tf.strings.to_number(tf.strings.substr(padded, start, 10), tf.int64) for start in (-20, -10))
    top_high, top_low = divmod(int(dtype.max), 10**10)
    fits = (high < top_high) | (tf.equal(high, top_high) & (low <= top_low))
    is_number = tf.strings.regex_full_match(digits, r"\+?0*[0-9]{1,20}")
    return tf.cast(high, dtype) * 10**10 + tf.cast(low, dtype), is_number & fits
