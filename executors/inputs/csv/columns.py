"""Conversion of examples between CSV, JSON, tf.Examples and Arrow list columns.

As in tfx_bsl, each row of a column is a list of values, or null if the feature is missing. The value types are those of
a tf.Example, INT, FLOAT and BYTES, and DOUBLE for models that take named tensors of that type.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from ...errors import InputError
from ..input_format import Batch, ExampleFile
from ..message_text import short_repr, shorten
from . import value_types

INT, FLOAT, DOUBLE, BYTES = pa.int64(), pa.float32(), pa.float64(), pa.binary()

_NARROW_TO_WIDE = (INT, FLOAT, BYTES)
_ROWS_AT_ONCE = 4096


def typed_columns(batch: Batch, wanted: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
    """Converts the requested features of a batch of rows; features that the file lacks are omitted.

    Args:
      batch: Rows of a file with columns, with values as in the file.
      wanted: {feature: INT, FLOAT, DOUBLE or BYTES}.

    Returns:
      {feature: Arrow array with one list per example}.

    Raises:
      InputError: If a value cannot be converted to the type; the message names file, row and feature.
    """
    return {name: _typed(batch, name, values, wanted[name]) for name, values in batch.columns.items() if name in wanted}


def inferred_types(files: Iterable[ExampleFile]) -> dict[str, pa.DataType]:
    """Infers each column's type: the narrowest of INT, FLOAT and BYTES that holds all of its values.

    Reads the files completely, but not those of serialized records. Columns without any value are omitted.
    """
    widths: dict[str, int] = {}
    for file in files:
        for batch in file.batches(_ROWS_AT_ONCE):
            if batch.is_serialized:
                break
            for name, values in batch.columns.items():
                for value in values:
                    if value is not None and widths.get(name, 0) < len(_NARROW_TO_WIDE) - 1:
                        widths[name] = max(widths.get(name, 0), _width(value, is_text=batch.is_text))
    return {name: _NARROW_TO_WIDE[width] for name, width in widths.items()}


def to_tf_examples(columns: Mapping[str, pa.Array], size: int) -> list[bytes]:
    """Serializes columns as tf.Examples; without columns, returns `size` empty ones."""
    from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

    if not columns:
        return [b""] * size
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    serialized: list[bytes] = RecordBatchToExamplesEncoder().encode(batch)
    return serialized


def from_tf_examples(batch: Batch) -> dict[str, pa.Array]:
    """Parses a batch of serialized tf.Examples into {feature: Arrow array of lists}.

    Raises:
      InputError: If a record is not a tf.Example, or a feature has values of different types in different records.
    """
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

    try:
        decoded = ExamplesToRecordBatchDecoder().DecodeBatch(batch.records)
    except RuntimeError as error:
        last = batch.first + batch.size - 1
        raise InputError(
            f"{batch.where(0)} to {last}: these records are not tf.Examples with the same features: "
            f"{shorten(str(error))}"
        ) from error
    return dict(zip(decoded.schema.names, decoded.columns, strict=True))


def _typed(batch: Batch, name: str, values: list[object], kind: pa.DataType) -> pa.Array:
    read = _READERS[kind]

    def column(some: list[object]) -> pa.Array:
        lists = [None if value is None else [read(item) for item in _flat(value)] for value in some]
        return pa.array(lists, pa.list_(kind))

    try:
        return column(values)
    except (ValueError, TypeError, OverflowError):
        for index, value in enumerate(values):
            try:
                column([value])
            except (ValueError, TypeError, OverflowError) as error:
                raise InputError(
                    f"{batch.where(index)}: feature {name!r} is {short_repr(value)}; the model takes {_NAMES[kind]}. "
                    f"({shorten(str(error))})"
                ) from error
        raise


def _flat(value: object) -> list[object]:
    if not isinstance(value, list):
        return [value]
    return [item for part in value for item in _flat(part)] if any(isinstance(v, list) for v in value) else value


def _integer(value: object) -> int:
    try:
        return int(_plain(value)) if not isinstance(value, float) else _whole(value)
    except ValueError:
        return _whole(float(_plain(value)))  # "3.0", as pandas writes integers of a column with missing values


def _whole(value: float) -> int:
    if not value.is_integer():
        raise ValueError("it is not a whole number")
    return int(value)


def _number(value: object) -> float:
    return float(_plain(value))


def _plain(value: object) -> Any:
    if isinstance(value, str) and "_" in value:
        raise ValueError("it is not a number")  # Python would parse 1_000
    return value


def _bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):  # of a table
        return value
    if isinstance(value, dict) and list(value) == ["b64"]:
        return base64.b64decode(value["b64"], validate=True)
    raise TypeError('bytes are written as "text" or {"b64": "…"}')


def _width(value: object, is_text: bool) -> int:
    """Returns the narrowest type that holds the value, as an index into `_NARROW_TO_WIDE`."""
    if isinstance(value, list):
        return max((_width(item, is_text) for item in _flat(value)), default=0)
    if not is_text:
        return 0 if isinstance(value, int) else 1 if isinstance(value, float) else 2
    return value_types.TEXT if "_" in str(value) else value_types.type_of(str(value))  # Python would parse 1_000


_READERS = {INT: _integer, FLOAT: _number, DOUBLE: _number, BYTES: _bytes}
_NAMES = {INT: "whole numbers", FLOAT: "numbers", DOUBLE: "numbers", BYTES: "strings"}
