"""Converts Arrow tables to plain values and to tf.Examples, with the types of their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from ...errors import InputError
from ..csv.columns import BYTES, FLOAT, INT, to_tf_examples
from ..message_text import shorten
from .rows import lists_of


def plain_values(path: str, table: pa.Table) -> dict[str, list[object]]:
    """Returns the values of each column; dates, times and decimals as text, as in CSV and JSON.

    Raises:
      InputError: If a column cannot be converted.
    """
    return {name: column.to_pylist() for name, column in _converted(path, table, _with_text)}


def serialized_examples(path: str, table: pa.Table) -> list[bytes]:
    """Returns the rows as tf.Examples: whole numbers and booleans as int64, other numbers as float, the rest as bytes.

    Columns without any value, and those of structs, are left out.

    Raises:
      InputError: If a column cannot be converted, such as one of lists of times.
    """
    columns = {name: column for name, column in _converted(path, table, _feature) if column is not None}
    return to_tf_examples(columns, table.num_rows)


def _converted(
    path: str, table: pa.Table, convert: Callable[[pa.ChunkedArray], pa.Array | None]
) -> Iterator[tuple[str, pa.Array]]:
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            yield name, convert(column)
        except pa.ArrowException as error:
            what = f"which examples cannot have: {shorten(str(error))}"
            raise InputError(f"{path}: column {name!r} is {column.type}, {what}. Convert it, or remove it.") from error


def _feature(column: pa.ChunkedArray) -> pa.Array | None:
    values = _with_text(column).combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    lists = lists_of(values)
    kind = lists.type.value_type
    if pa.types.is_null(kind) or pa.types.is_nested(kind):
        return None
    is_whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    wanted = INT if is_whole else FLOAT if pa.types.is_floating(kind) else BYTES
    return lists.cast(pa.large_list(wanted))


def _with_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_text = pa.types.is_temporal(column.type) or pa.types.is_decimal(column.type)
    return column.cast(pa.string()) if is_text else column
