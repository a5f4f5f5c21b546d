r"""Delimited rows as tensors, and what is wrong with a row that cannot be decoded.

The rows are those of `tf.io.decode_csv`: fields with quotes as RFC 4180 has them, no line ends outside of quotes.

Usage:

    fields = [Field("age", "int32"), Field("tags", "string", is_sparse=True), Field("label", "float32")]
    decode(tf.constant(["31,a\x01b,1", ",,0"]), fields)     # {"age": [31, 0], "tags": a SparseTensor [2, 2], …}
    check_rows([b"31,a,1", b"old,a,1"], fields)             # InputError: row 1: the field 'age' is 'old', …
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import tensorflow as tf

from ..errors import InputError, did_you_mean

FIELD_DELIM = ","
VALUE_DELIM = "\x01"

# By which of the types that decode_csv and to_number parse everywhere the others are read.
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
# DLRover's names are those that np.dtype knows.
_OTHER_NAMES = {"float": "float64", "double": "float64", "int": "int64", "str": "string", "bytes": "string"}

# What running `decode` raises because of the data. TensorFlow's message quotes the field that is no number; where that
# is no UTF-8, as in a latin-1 file, Python cannot even make the exception.
DECODE_ERRORS = (tf.errors.InvalidArgumentError, UnicodeDecodeError)

_USUAL_DELIMS = (",", "\t", ";", "|")
_ROWS_AT_ONCE = 1024
_SHOWN = 200
_WHOLE = re.compile(rb"\s*[+-]?\d+\s*")
_DIGITS = 40  # more than any whole number has
_NAME = re.compile(r"[^\W\d][\w .:/#()%-]*")


@dataclasses.dataclass(frozen=True)
class Field:
    """A column of delimited rows.

    Attributes:
      name: Of the column.
      dtype: Of its values: a tf.DType, or a name such as "float32", or what NumPy has for one; a tf.DType afterwards.
        "float" and "double" are float64, "int" is int64, as in NumPy.
      is_sparse: Whether a field holds any number of values.

    Raises:
      InputError: When the type cannot be decoded.
    """

    name: str
    dtype: Any
    is_sparse: bool = False

    def __post_init__(self) -> None:
        name = _name_of(self.dtype)
        known = [*_PARSED_AS, *_OTHER_NAMES]
        if name not in known:
            raise InputError(
                f"the column {self.name!r} has the dtype {self.dtype!r}, which cannot be decoded."
                f"{did_you_mean(name, known)} Those that can are {', '.join(known)}."
            )
        object.__setattr__(self, "dtype", tf.as_dtype(_OTHER_NAMES.get(name, name)))


def decode(
    rows: Any, fields: Sequence[Field], delim: str = FIELD_DELIM, value_delim: str = VALUE_DELIM
) -> dict[str, Any]:
    """Returns the columns of delimited rows.

    A field that is empty is 0, "" or False, and no value in a sparse column. Other values that are not of their
    column's type, and rows with another number of fields, are one of DECODE_ERRORS when the tensors are computed;
    `check_rows` tells which row it is.

    Args:
      rows: String vector, [batch].
      fields: The columns in their order.
      delim: The character that separates fields.
      value_delim: What separates the values of a sparse column.

    Returns:
      {name: tensor [batch] of the column's dtype, or SparseTensor [batch, most values of a row]}.

    Raises:
      InputError: When a delimiter cannot be one.
    """
    _check_format(fields, delim, value_delim)
    columns = tf.io.decode_csv(rows, [_default(field) for field in fields], delim)
    return {
        field.name: split_values(column, field, value_delim) if field.is_sparse else _narrowed(column, field.dtype)
        for field, column in zip(fields, columns, strict=True)
    }


def split_values(text: Any, field: Field, value_delim: str = VALUE_DELIM) -> tf.SparseTensor:
    """Returns the values of a sparse column.

    Args:
      text: String vector, [batch]: the values of each row, with `value_delim` between them; none where it is empty.
      field: The column.
      value_delim: What separates values.

    Returns:
      [batch, most values of a row], of the column's dtype. A value that is not is an error as in `decode`.
    """
    some = tf.not_equal(text, "")
    parts = tf.strings.split(text, value_delim)  # one empty value where there is none
    values = tf.boolean_mask(parts.flat_values, tf.gather(some, parts.value_rowids()))
    lengths = tf.where(some, parts.row_lengths(), tf.zeros_like(parts.row_lengths()))
    sparse = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False).to_sparse()
    return tf.SparseTensor(sparse.indices, _parsed(sparse.values, field.dtype), sparse.dense_shape)


def check_rows(
    rows: Sequence[bytes],
    fields: Sequence[Field],
    delim: str = FIELD_DELIM,
    value_delim: str = VALUE_DELIM,
    first: int = 0,
    where: Callable[[int], str] = "row {}".format,
) -> None:
    """Looks for the first row that `decode` would not decode.

    Args:
      rows: The rows.
      fields: As of `decode`.
      delim: As of `decode`.
      value_delim: As of `decode`.
      first: Number of the first of these rows in its file, from 0.
      where: Says in words which row that is of a number, with its file.

    Raises:
      InputError: With the place, what is wrong, and the row.
    """
    _check_format(fields, delim, value_delim)
    with _Trial() as trial:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            bad = _first_bad(some, fields, delim, value_delim, trial)
            if bad is None:
                continue
            index, what = bad
            number = first + start + index
            header = (
                " It looks like a header, which has to be skipped."
                if number == 0 and _is_header(some[0], delim)
                else ""
            )
            raise InputError(f"{where(number)}: {what}. The row is {_shown(some[index])}.{header}")


def looks_like_data(
    row: bytes | str, fields: Sequence[Field], delim: str = FIELD_DELIM, value_delim: str = VALUE_DELIM
) -> bool:
    """Returns whether a row is probably no header: it can be decoded, and there are numbers in it."""
    row = row.encode("utf-8", "surrogateescape") if isinstance(row, str) else row
    try:
        texts = split_row(row, delim)
    except ValueError:
        return False
    if not any(text for field, text in zip(fields, texts, strict=False) if field.dtype != tf.string):
        return False
    with _Trial() as trial:
        return _first_bad([row], fields, delim, value_delim, trial) is None


def split_row(row: bytes, delim: str = FIELD_DELIM) -> list[bytes]:
    """Returns the fields of a row as `tf.io.decode_csv` finds them (decode_csv_op.cc, ExtractFields).

    Raises:
      ValueError: When its quotes are not as they should be; it says which field's.
    """
    separator = delim.encode()
    if not any(mark in row for mark in (b'"', b"\n", b"\r")):
        return row.split(separator) if row else []
    fields: list[bytes] = []
    position = 0
    while position < len(row):
        if row[position : position + 1] in (b"\n", b"\r"):  # before a field
            position += 1
            continue
        read = _quoted if row.startswith(b'"', position) else _unquoted
        try:
            field, position = read(row, position, separator)
        except ValueError as error:
            raise ValueError(f"field {len(fields) + 1} {error}") from None
        fields.append(field)
    return [*fields, b""] if row.endswith(separator) else fields


def _unquoted(row: bytes, start: int, separator: bytes) -> tuple[bytes, int]:
    """Returns a field and where the next one begins."""
    end = row.find(separator, start)
    field = row[start:] if end < 0 else row[start:end]
    if b'"' in field:
        raise ValueError("has a quote inside; such fields must be in quotes, with the quotes in them doubled")
    if b"\n" in field or b"\r" in field:
        raise ValueError("has a line end inside; rows must come without one, or the field be in quotes")
    return field, start + len(field) + 1


def _quoted(row: bytes, start: int, separator: bytes) -> tuple[bytes, int]:
    """Returns a field and where the next one begins."""
    field, position = b"", start + 1
    while True:
        end = row.find(b'"', position)
        if end < 0:
            raise ValueError("begins with a quote and does not end with one")
        field += row[position:end]
        after = row[end + 1 : end + 2]
        if after in (b"", separator):
            return field, end + 2
        if after != b'"':
            raise ValueError("goes on after its closing quote; quotes inside of quotes must be doubled")
        field, position = field + b'"', end + 2


class _Trial:
    """Finds out which texts TensorFlow takes for values of a type: numbers differ from release to release."""

    def __init__(self) -> None:
        self._graph = tf.Graph()
        cpu = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        self._session = tf.compat.v1.Session(graph=self._graph, config=cpu)
        self._parsers: dict[tf.DType, Any] = {}

    def __enter__(self) -> _Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._session.close()

    def first_refused(self, texts: Sequence[bytes], dtype: tf.DType) -> int | None:
        """Returns the index of the first text that is no value of the type."""
        if self._accepts(texts, dtype):
            return None
        good, bad = 0, len(texts)  # up to good all are accepted, up to bad they are not
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if self._accepts(texts[good:middle], dtype) else (good, middle)
        return good

    def _accepts(self, texts: Sequence[bytes], dtype: tf.DType) -> bool:
        if dtype not in self._parsers:
            with self._graph.as_default():
                text = tf.compat.v1.placeholder(tf.string, [None])
                self._parsers[dtype] = self._session.make_callable(_parsed(text, dtype), [text])
        try:
            self._parsers[dtype](np.array(texts, object))
        except DECODE_ERRORS:
            return False
        return True


def _first_bad(
    rows: Sequence[bytes], fields: Sequence[Field], delim: str, value_delim: str, trial: _Trial
) -> tuple[int, str] | None:
    """Returns the index of the first row that cannot be decoded, and why."""
    split: list[list[bytes]] = []
    bad = None
    for row in rows:
        try:
            split.append(_split_exactly(row, fields, delim))
        except ValueError as error:
            bad = len(split), str(error)
            break
    for place, field in enumerate(fields):
        if field.dtype == tf.string:
            continue
        values = list(_values([row[place] for row in split], field, value_delim))
        refused = trial.first_refused([text for _, text in values], field.dtype)
        if refused is not None:
            index, text = values[refused]
            bad = index, _wrong_value(field, text)
            del split[index:]  # another column can only be to blame for an earlier row
    return bad


def _values(texts: Sequence[bytes], field: Field, value_delim: str) -> Iterator[tuple[int, bytes]]:
    """Yields the row's index and the value for each value of a column."""
    for index, text in enumerate(texts):
        if text:
            yield from ((index, value) for value in (text.split(value_delim.encode()) if field.is_sparse else [text]))


def _split_exactly(row: bytes, fields: Sequence[Field], delim: str) -> list[bytes]:
    """Returns as many fields as there are columns; raises ValueError if the row has others."""
    found = split_row(row, delim)
    if len(found) == len(fields):
        return found
    names = f"there are {len(fields)} columns ({', '.join(field.name for field in fields)})"
    if not found:
        raise ValueError(f"it is empty, and {names}")
    others = [other for other in _USUAL_DELIMS if other != delim and _separates(row, other, len(fields))]
    hint = "".join(f"; {other!r} for the delimiter would give {len(fields)}" for other in others)
    number = "1 field" if len(found) == 1 else f"{len(found)} fields"
    raise ValueError(f"it has {number} separated by {delim!r}, and {names}{hint}")


def _separates(row: bytes, delim: str, count: int) -> bool:
    with contextlib.suppress(ValueError):
        return count > 1 and len(split_row(row, delim)) == count
    return False


def _wrong_value(field: Field, text: bytes) -> str:
    dtype = field.dtype
    what = f"{'a value in ' if field.is_sparse else ''}the field {field.name!r} is {_shown(text)}, which is"
    if dtype == tf.bool:
        return f"{what} none of 0, 1, true and false"
    if dtype == tf.float16 and _is_finite(text):
        return f"{what} beyond the range of float16"
    if dtype.is_floating:
        return f"{what} no number, and the column is {dtype.name}"
    if not _WHOLE.fullmatch(text):
        return f"{what} no whole number, and the column is {dtype.name}"
    if len(text) > _DIGITS or not dtype.min <= int(text) <= dtype.max:
        return f"{what} beyond the range of {dtype.name}"
    return f"{what} not how TensorFlow {tf.__version__} reads whole numbers"  # 2.15 takes no plus


def _is_finite(text: bytes) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _is_header(row: bytes, delim: str) -> bool:
    """Returns whether all fields of a row are names, and different ones."""
    try:
        names = [field.decode() for field in split_row(row, delim)]
    except ValueError:
        return False
    return bool(names) and len(set(names)) == len(names) and all(map(_NAME.fullmatch, names))


def _shown(text: bytes) -> str:
    decoded = text[: 4 * _SHOWN].decode("utf-8", "backslashreplace")
    return repr(decoded[:_SHOWN]) + ("…" if len(decoded) > _SHOWN else "")


def _check_format(fields: Sequence[Field], delim: str, value_delim: str) -> None:
    names = [field.name for field in fields]
    if not names or len(set(names)) != len(names):
        raise InputError(f"the columns are {names}; there must be at least one, and each name only once.")
    if len(delim.encode()) != 1 or delim in '"\r\n':
        raise InputError(f"{delim!r} cannot separate fields; that takes one ASCII character, no quote and no line end.")
    if any(field.is_sparse for field in fields) and value_delim in ("", delim):
        raise InputError(
            f"{value_delim!r} cannot separate the values in a sparse column, where {delim!r} separates the columns."
        )


def _name_of(dtype: Any) -> str:
    """Returns the name of a type that is given by name, as TensorFlow's, NumPy's or Python's."""
    if isinstance(dtype, str):
        return dtype
    if isinstance(dtype, tf.DType):
        return str(dtype.base_dtype.name)
    is_numpys = isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic))
    if is_numpys or dtype in (bool, int, float, str, bytes):
        found = np.dtype(dtype)
        return "string" if found.kind in "SU" else found.name
    return repr(dtype)


def _raw_type(field: Field) -> tf.DType:
    """Returns the type as which decode_csv reads a column."""
    return tf.string if field.is_sparse else _PARSED_AS[field.dtype.name]


def _default(field: Field) -> Any:
    """Returns what decode_csv puts in the place of an empty field."""
    raw = _raw_type(field)
    nothing = "" if field.is_sparse or field.dtype == tf.string else "0" if raw == tf.string else 0
    return np.array([nothing], raw.as_numpy_dtype)


def _parsed(text: Any, dtype: tf.DType) -> Any:
    raw = _PARSED_AS[dtype.name]
    return _narrowed(text if raw == tf.string else tf.strings.to_number(text, raw), dtype)


def _narrowed(values: Any, dtype: tf.DType) -> Any:
    """Returns values as another type, where they have been read as a wider one or as text; what does not fit fails."""
    if values.dtype == dtype:
        return values
    narrow, fits = {tf.bool: _bools, tf.float16: _halves, tf.uint64: _longs}.get(dtype, _integers)(values, dtype)
    check = tf.debugging.Assert(tf.reduce_all(fits), [f"a value in the data is not of the type {dtype.name}"])
    with tf.control_dependencies([check]):
        return tf.identity(narrow)


def _integers(values: Any, dtype: tf.DType) -> tuple[Any, Any]:
    return tf.cast(values, dtype), (values >= int(dtype.min)) & (values <= int(dtype.max))


def _bools(text: Any, _: tf.DType) -> tuple[Any, Any]:
    lower = tf.strings.lower(tf.strings.strip(text))
    true, false = (tf.equal(lower, digit) | tf.equal(lower, word) for digit, word in (("1", "true"), ("0", "false")))
    return true, true | false


def _halves(text: Any, dtype: tf.DType) -> tuple[Any, Any]:
    values = tf.cast(tf.strings.to_number(text, tf.float32), dtype)
    return values, ~tf.math.is_inf(values) | tf.strings.regex_full_match(text, r"(?i)\s*[+-]?inf.*")


def _longs(text: Any, dtype: tf.DType) -> tuple[Any, Any]:
    """Returns numbers of up to 20 digits, of which no op of TensorFlow 2.15 makes more than 19: in two halves."""
    digits = tf.strings.strip(text)
    padded = tf.strings.join(["0" * 20, tf.strings.regex_replace(digits, r"^\+?0*", "")])
    high, low = (tf.strings.to_number(tf.strings.substr(padded, start, 10), tf.int64) for start in (-20, -10))
    top_high, top_low = divmod(int(dtype.max), 10**10)
    fits = (high < top_high) | (tf.equal(high, top_high) & (low <= top_low))
    is_number = tf.strings.regex_full_match(digits, r"\+?0*[0-9]{1,20}")
    return tf.cast(high, dtype) * 10**10 + tf.cast(low, dtype), is_number & fits
