"""Converts Arrow tables to plain values and to tf.Examples, with the types of their columns."""

from __future__ import annotations

import pyarrow as pa

from ..csv.columns import BYTES, FLOAT, INT, to_tf_examples
from .rows import lists_of


def plain_values(column: pa.ChunkedArray) -> list[object]:
    """Returns the values; dates, times and decimals as text, as in CSV and JSON."""
    values: list[object] = _with_text(column).to_pylist()
    return values


def serialized_examples(table: pa.Table) -> list[bytes]:
    """Returns the rows as tf.Examples: whole numbers and booleans as int64, other numbers as float, the rest as bytes.

    Columns without any value, and those of structs, are left out.
    """
    columns = {name: _feature(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    return to_tf_examples({name: column for name, column in columns.items() if column is not None}, table.num_rows)


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
