r"""Finds the delimited row that cannot be decoded, and why.

This is slow Python code, used only after TensorFlow has failed to decode a batch.

Usage:

    fields = [Field("age", "int32"), Field("tags", "string", is_sparse=True), Field("label", "float32")]
    check_rows([b"31,a,1", b"old,a,1"], fields)             # InputError: row 1: the field 'age' is 'old', …
    looks_like_data(b"age,tags,label", fields)              # False
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import re
from collections.abc import Callable, Sequence

import tensorflow as tf

from ....errors import InputError
from ....inputs.csv.separators import SEPARATORS
from ....inputs.message_text import join_names, short_repr
from ....inputs.tfrecord.scan import Accepts, ParseTrial, refused
from .delimited import FIELD_DELIM, VALUE_DELIM, Field, check_format, decode, parsed_values

_WHOLE = re.compile(rb"\s*[+-]?\d+\s*")
_DIGITS = 40  # more digits than any supported integer type has
_NAME = re.compile(r"[^\W\d][\w .:/#()%-]*")


def check_rows(
    rows: Sequence[bytes],
    fields: Sequence[Field],
    delim: str = FIELD_DELIM,
    value_delim: str = VALUE_DELIM,
    first: int = 0,
    where: Callable[[int], str] = "row {}".format,
    accepts: Accepts | None = None,
) -> None:
    """Raises an error for the first row that `delimited.decode` would reject; returns if there is none.

    Args:
      rows: The rows.
      fields: As in `delimited.decode`.
      delim: As in `delimited.decode`.
      value_delim: As in `delimited.decode`.
      first: Number of the first of these rows in its file, from 0.
      where: Formats a row number as a location for the message, including the file.
      accepts: Decodes rows, for callers that check many blocks; None to build a `ParseTrial` for this call.

    Raises:
      InputError: If a row is rejected, with its location, the reason and its text.
    """
    check_format(fields, delim, value_delim)
    accepts = accepts or ParseTrial(lambda rows: decode(rows, fields, delim, value_delim))
    bad = next(refused(rows, accepts), None)
    if bad is None:
        return
    index, error = bad
    row, number = rows[index], first + index
    hint = " It looks like a header, which must be skipped." if number == 0 and _is_header(row, delim) else ""
    problem = _problem(row, fields, delim, value_delim) or error
    raise InputError(f"{where(number)}: {problem}. The row is {short_repr(row)}.{hint}")


def describe_problem(row: bytes, fields: Sequence[Field], delim: str, value_delim: str) -> str:
    """Returns why a row is rejected, and its text, or "" if it is accepted. The arguments are as in `check_rows`."""
    problem = _problem(row, fields, delim, value_delim)
    return f"{problem}: {short_repr(row)}" if problem else ""


def looks_like_data(
    row: bytes | str, fields: Sequence[Field], delim: str = FIELD_DELIM, value_delim: str = VALUE_DELIM
) -> bool:
    """Returns whether a row is probably data and not a header: it decodes, and a non-string column has a value."""
    row = row.encode("utf-8", "surrogateescape") if isinstance(row, str) else row
    try:
        texts = split_row(row, delim)
    except ValueError:
        return False
    if not any(text for field, text in zip(fields, texts, strict=False) if field.dtype != tf.string):
        return False
    optional = [dataclasses.replace(field, is_required=False) for field in fields]
    return not _problem(row, optional, delim, value_delim)


def split_row(row: bytes, delim: str = FIELD_DELIM) -> list[bytes]:
    """Splits a row into fields as `tf.io.decode_csv` does (decode_csv_op.cc, ExtractFields).

    Raises:
      ValueError: If a field has misplaced quotes or line breaks; the message names the field by its number.
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
    """Returns the field at `start` and the position of the next field."""
    end = row.find(separator, start)
    field = row[start:] if end < 0 else row[start:end]
    if b'"' in field:
        raise ValueError("contains a quote; put the field in quotes, and double the quotes inside")
    if b"\n" in field or b"\r" in field:
        raise ValueError("contains a line end; remove it from the row, or put the field in quotes")
    return field, start + len(field) + 1


def _quoted(row: bytes, start: int, separator: bytes) -> tuple[bytes, int]:
    """Returns the field at `start` and the position of the next field."""
    parts, position = [], start + 1
    while True:
        end = row.find(b'"', position)
        if end < 0:
            raise ValueError("starts with a quote but does not end with one")
        parts.append(row[position:end])
        after = row[end + 1 : end + 2]
        if after in (b"", separator):
            return b'"'.join(parts), end + 2
        if after != b'"':
            raise ValueError("continues after its closing quote; quotes inside of quotes must be doubled")
        position = end + 2


def _value_trial(dtype: tf.DType) -> ParseTrial:
    """Tests whether TensorFlow parses strings as a type, since number syntax differs between releases."""
    return ParseTrial(lambda text: parsed_values(text, dtype))


def _problem(row: bytes, fields: Sequence[Field], delim: str, value_delim: str) -> str:
    """Returns why a row cannot be decoded; "" if it can."""
    try:
        texts = _split_exactly(row, fields, delim)
    except ValueError as error:
        return str(error)
    trial_of = functools.cache(_value_trial)  # for this row: a trial holds a session
    for field, text in zip(fields, texts, strict=True):
        if field.is_required and not text:
            return f"the field {field.name!r} is empty, but a value is required"
        if field.dtype == tf.string or not text:
            continue
        values = text.split(value_delim.encode()) if field.is_sparse else [text]
        for index, _ in refused(values, trial_of(field.dtype)):
            return _describe_wrong_value(field, values[index])
    return ""


def _split_exactly(row: bytes, fields: Sequence[Field], delim: str) -> list[bytes]:
    """Splits a row into fields; raises ValueError if their number differs from that of the columns."""
    texts = split_row(row, delim)
    if len(texts) == len(fields):
        return texts
    names = f"{len(fields)} columns are expected ({join_names([field.name for field in fields])})"
    if not texts:
        raise ValueError(f"it is empty, but {names}")
    others = [other for other in SEPARATORS if other != delim and _separates(row, other, len(fields))]
    hint = "".join(f"; with the delimiter {other!r} there would be {len(fields)}" for other in others)
    number = "1 field" if len(texts) == 1 else f"{len(texts)} fields"
    raise ValueError(f"it has {number} separated by {delim!r}, but {names}{hint}")


def _separates(row: bytes, delim: str, count: int) -> bool:
    with contextlib.suppress(ValueError):
        return count > 1 and len(split_row(row, delim)) == count
    return False


def _describe_wrong_value(field: Field, text: bytes) -> str:
    dtype = field.dtype
    what = f"{'a value in ' if field.is_sparse else ''}the field {field.name!r} is {short_repr(text)}, which is"
    if dtype == tf.bool:
        return f"{what} not one of 0, 1, true and false"
    if dtype == tf.float16 and _is_finite(text):
        return f"{what} outside the range of float16"
    if dtype.is_floating:
        return f"{what} not a number; the column is {dtype.name}"
    if not _WHOLE.fullmatch(text):
        return f"{what} not a whole number; the column is {dtype.name}"
    if len(text) > _DIGITS or not dtype.min <= int(text) <= dtype.max:
        return f"{what} outside the range of {dtype.name}"
    # TensorFlow 2.15 rejects a plus sign.
    return f"{what} not a whole number in the notation that TensorFlow {tf.__version__} reads"


def _is_finite(text: bytes) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _is_header(row: bytes, delim: str) -> bool:
    """Returns whether all fields of a row look like column names, without duplicates."""
    try:
        names = [field.decode() for field in split_row(row, delim)]
    except ValueError:
        return False
    return bool(names) and len(set(names)) == len(names) and all(map(_NAME.fullmatch, names))
