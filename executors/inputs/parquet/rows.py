"""Reads Parquet files as Arrow tables of a whole number of batches, across files and epochs, optionally shuffled.

Scalar columns are converted to list columns only at the end, by `as_lists`: reading, shuffling and slicing scalars
takes a tenth of the time.

Usage:

    for table in batched_rows(["a.parquet", "b.parquet"], options, arrow_schema):
        table     # has k * options.batch_size rows, except for the last table
        as_lists(table.slice(0, options.batch_size), arrow_schema)     # a record batch of the schema
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..message_text import shorten
from .arrow_file import ArrowFile
from .files import opened_parquet, place_of_uncastable, require_columns, row_batches
from .whole_batches import whole_batches

if TYPE_CHECKING:
    from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

_UNIT = 4096  # rows added to the shuffle buffer at a time; the order for a given seed depends on it
_UNITS_AT_ONCE = 8  # units per read if rows are narrow
_NARROW = 1024  # average bytes per row in the file, up to which rows are narrow


def batched_rows(
    paths: Sequence[str], options: RecordBatchesOptions | TensorFlowDatasetOptions, schema: pa.Schema | None
) -> Iterator[pa.Table]:
    """Yields tables with the rows of all files and epochs, each a whole number of batches except for the last one.

    Args:
      paths: The Parquet files.
      options: tfx_bsl options, of which batch_size, drop_final_batch, num_epochs, shuffle, shuffle_buffer_size and
        shuffle_seed are used.
      schema: The columns to read, with list types whose value types the columns are cast to; None for all columns with
        the types of the file.

    Raises:
      ValueError: If a file lacks a column, or a column cannot be cast; the message names file and column.
    """
    random = np.random.default_rng(options.shuffle_seed)
    return whole_batches(lambda: _one_epoch(paths, options, schema, random), options, _joined)


def first_mismatch(paths: Sequence[str], schema: pa.Schema, sizes: Mapping[str, int]) -> str:
    """Finds the first row with a wrong number of values in a column; returns a message, or "" if there is none.

    Args:
      paths: The Parquet files.
      schema: As in `batched_rows`.
      sizes: {column: number of values that each row must have}.
    """
    for path in paths:
        before = 0
        for table in _tables(path, schema):
            for name, size in sizes.items():
                lengths = _lengths(table.column(name).combine_chunks())
                if (odd := np.flatnonzero(lengths != size)).size:
                    row, count = before + int(odd[0]) + 1, int(lengths[odd[0]])
                    has = {0: "no value", 1: "1 value"}.get(count, f"{count} values")
                    return f"{path}, row {row}: column {name!r} has {has}, but the schema requires {size} in each row."
            before += table.num_rows
    return ""


def _lengths(column: pa.Array) -> np.ndarray:
    if not _is_list(column.type):
        lengths: np.ndarray = np.asarray(column.is_valid()).astype(np.int64)
    else:
        lengths = np.asarray(column.value_lengths().fill_null(0))
    return lengths


def as_lists(table: pa.Table, schema: pa.Schema | None) -> pa.RecordBatch:
    """Converts all columns to lists, as tfx_bsl represents features: null if a value is missing.

    Args:
      table: Rows of a table from `batched_rows`.
      schema: The schema that was passed to `batched_rows`.
    """
    columns = [_lists(column.combine_chunks()) for column in table.columns]
    if schema is not None:  # its type may be large_list
        columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, table.column_names)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenates tables; if schemas differ (scalars in one file, lists in another), all columns become lists."""
    if any(table.schema != tables[0].schema for table in tables):
        tables = [pa.table([_large(_lists(c.combine_chunks())) for c in t.columns], t.column_names) for t in tables]
    return pa.concat_tables(tables)


def _one_epoch(
    paths: Sequence[str],
    options: RecordBatchesOptions | TensorFlowDatasetOptions,
    schema: pa.Schema | None,
    random: np.random.Generator,
) -> Iterator[pa.Table]:
    """Yields the rows of all files once, optionally with shuffled files and rows shuffled within a buffer."""
    if not options.shuffle:
        for path in paths:
            yield from _tables(path, schema)
        return
    size = max(options.shuffle_buffer_size, 1)
    buffer: list[pa.Table] = []
    for index in random.permutation(len(paths)):
        for table in _tables(paths[index], schema):
            for start in range(0, table.num_rows, _UNIT):
                buffer.append(table.slice(start, _UNIT))
                if sum(part.num_rows for part in buffer) >= size:
                    yield _take_all(buffer, random)
    if buffer:
        yield _take_all(buffer, random)


def _take_all(buffer: list[pa.Table], random: np.random.Generator) -> pa.Table:
    table = _joined(buffer).combine_chunks()
    buffer.clear()
    return table.take(random.permutation(table.num_rows))


def _tables(path: str, schema: pa.Schema | None) -> Iterator[pa.Table]:
    """Yields the rows of one file in tables of a multiple of `_UNIT` rows, except for the last one."""
    with ArrowFile(path, "rb") as file:
        parquet = opened_parquet(path, file)
        found = parquet.schema_arrow.names
        names = found if schema is None else schema.names
        require_columns(path, names, found, ValueError)
        units = _UNITS_AT_ONCE if file.size() <= _NARROW * parquet.metadata.num_rows else 1
        first = 0
        for batch in row_batches(path, parquet, units * _UNIT, names):
            columns = [_plain(path, name, batch.column(name), schema, first) for name in names]
            yield pa.table(columns, names)
            first += batch.num_rows


def _plain(path: str, name: str, column: pa.Array, schema: pa.Schema | None, first: int) -> pa.Array:
    """Casts a column to scalars or lists of the schema's type; in a file it may be narrower, or have only nulls.

    `first` is the number of the column's first row in the file, for messages.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if schema is None:
        return column
    wanted = schema.field(name).type
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        column = _lists(column)

    def cast(values: pa.Array) -> pa.Array:
        return values.cast(wanted if _is_list(values.type) else wanted.value_type)

    try:
        column = cast(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        where = place_of_uncastable(path, column, first, cast)
        what = f"which cannot be converted to the schema's {wanted.value_type}: {shorten(str(error))}"
        raise ValueError(f"{where}: column {name!r} is {kind}, {what}") from None  # Arrow's message is not cut
    if _is_list(column.type) and not pa.types.is_floating(wanted.value_type) and column.flatten().null_count:
        raise ValueError(
            f"{path}: column {name!r} has lists with missing values, which only floats can represent, as NaN."
        )
    return column


def _lists(column: pa.Array) -> pa.Array:
    """Converts a column to lists, with null for a missing value, as for a feature that a tf.Example lacks."""
    if _is_list(column.type):
        return column
    size, length = 1, len(column)
    is_vector = pa.types.is_fixed_size_list(column.type)
    if is_vector:
        size = column.type.list_size
    if not column.null_count:
        values = column.flatten() if is_vector else column
        return pa.LargeListArray.from_arrays(pa.array(np.arange(length + 1) * size, pa.int64()), values)
    valid = np.asarray(column.is_valid())
    values = column.drop_null()
    offsets = np.concatenate([[0], np.cumsum(valid) * size])
    mask = np.concatenate([~valid, [False]])
    offsets = pa.array(offsets, pa.int64(), mask=mask)
    return pa.LargeListArray.from_arrays(offsets, values.flatten() if is_vector else values)


def _large(column: pa.Array) -> pa.Array:
    return column.cast(pa.large_list(column.type.value_type))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
