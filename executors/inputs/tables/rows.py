"""Reads files as Arrow tables of a whole number of batches, across files and epochs, optionally shuffled.

Scalar columns are converted to list columns only at the end, by `as_lists`: reading, shuffling and slicing scalars
takes a tenth of the time.

Usage:

    for table in batched_rows(TableFiles(Parquet(), ["a.parquet", "b.parquet"], arrow_schema), options):
        table     # has k * options.batch_size rows, except for the last table
        as_lists(table.slice(0, options.batch_size), arrow_schema)     # a record batch of the schema
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import InputError
from ..bad_records import BadRecords, policy
from ..message_text import shorten
from ..tfrecord.scan import refused
from .columns import place_of_row, require_columns, row_place
from .whole_batches import whole_batches

if TYPE_CHECKING:
    from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

    from ..table_format import TableFormat

_UNIT = 4096  # rows added to the shuffle buffer at a time; the order for a given seed depends on it
_ROWS = 8 * _UNIT  # maximum number of rows in a table


@dataclasses.dataclass(frozen=True)
class TableFiles:
    """The files of a dataset.

    Attributes:
      form: Their format.
      paths: The files.
      schema: The columns to read, with list types whose value types the columns are cast to; None for all columns with
        the types of the file.
      sizes: {column: number of values that each row must have}.
    """

    form: TableFormat
    paths: Sequence[str]
    schema: pa.Schema | None
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)


def batched_rows(files: TableFiles, options: RecordBatchesOptions | TensorFlowDatasetOptions) -> Iterator[pa.Table]:
    """Yields tables with the rows of all files and epochs, each a whole number of batches except for the last one.

    Args:
      files: The files.
      options: tfx_bsl options, of which batch_size, drop_final_batch, num_epochs, shuffle, shuffle_buffer_size and
        shuffle_seed are used.

    Raises:
      InputError: If a file lacks a column, a value cannot be cast, or a row has another number of values than `sizes`;
        the message names file, row and column. Such rows are skipped if `on_bad_records` allows it.
    """
    random = np.random.default_rng(options.shuffle_seed)
    return whole_batches(lambda: _one_epoch(files, options, random), options, joined)


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
      schema: The schema of its `TableFiles`.
    """
    columns = [lists_of(column.combine_chunks()) for column in table.columns]
    if schema is not None:  # its type may be large_list
        columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, table.column_names)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenates tables, of which some may have columns without any value, or scalars where others have lists.

    Raises:
      ArrowException: If columns have other types than in the other tables.
    """
    if _differ(tables):
        types = {field.name: field.type for table in tables for field in table.schema if field.type != pa.null()}
        tables = [_without_null_types(table, types) for table in tables]
    if _differ(tables):
        tables = [pa.table([_large(lists_of(c.combine_chunks())) for c in t.columns], t.column_names) for t in tables]
    return pa.concat_tables(tables)


def _without_null_types(table: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    def typed(field: pa.Field) -> pa.Field:
        return field.with_type(types.get(field.name, field.type)) if field.type == pa.null() else field

    return table.cast(pa.schema([typed(field) for field in table.schema]))


def _differ(tables: Sequence[pa.Table]) -> bool:
    return any(table.schema != tables[0].schema for table in tables)


def _one_epoch(
    files: TableFiles, options: RecordBatchesOptions | TensorFlowDatasetOptions, random: np.random.Generator
) -> Iterator[pa.Table]:
    """Yields the rows of all files once, optionally with shuffled files and rows shuffled within a buffer."""
    if not options.shuffle:
        for path in files.paths:
            yield from _tables(files, path)
        return
    size = max(options.shuffle_buffer_size, 1)
    buffer: list[pa.Table] = []
    for index in random.permutation(len(files.paths)):
        for table in _tables(files, files.paths[index]):
            for start in range(0, table.num_rows, _UNIT):
                buffer.append(table.slice(start, _UNIT))
                if sum(part.num_rows for part in buffer) >= size:
                    yield _take_all(buffer, random)
    if buffer:
        yield _take_all(buffer, random)


def _take_all(buffer: list[pa.Table], random: np.random.Generator) -> pa.Table:
    table = joined(buffer).combine_chunks()
    buffer.clear()
    return table.take(random.permutation(table.num_rows))


def _tables(files: TableFiles, path: str) -> Iterator[pa.Table]:
    """Yields the rows of one file that fit the schema, cast to its types."""
    bad = policy(files.form.name)
    first = 0
    for table in filter(len, files.form.tables(path, None if files.schema is None else files.schema.names, _ROWS)):
        yield _fitting(files, path, table, first, bad)
        first += table.num_rows


def _fitting(files: TableFiles, path: str, table: pa.Table, first: int, bad: BadRecords | None) -> pa.Table:
    """Returns the rows that fit the schema, cast to its types; `first` is the number of the first one in the file."""
    names = table.column_names if files.schema is None else files.schema.names
    require_columns(path, names, table.column_names)

    def cast(rows: pa.Table) -> pa.Table:
        converted = pa.table([_cast(name, rows.column(name), files.schema) for name in names], names)
        _require_sizes(converted, files.sizes)
        return converted

    try:
        return cast(table)
    except InputError:
        _require_types(path, table, cast)
        unfit = []
        for index, problem in refused(table, cast):
            if bad is None:
                raise InputError(_message(path, first + index, problem)) from None
            bad.skip(path, row_place(first + index), problem)
            unfit.append(index)
        return cast(table.take(np.delete(np.arange(table.num_rows), unfit)))


def _require_types(path: str, table: pa.Table, cast: Callable[[pa.Table], object]) -> None:
    """Checks that the types of the columns can be cast, which does not depend on the rows."""
    try:
        cast(table.slice(0, 0))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _message(path: str, row: int, problem: str) -> str:
    hint = "Correct the row, or pass --on-bad-records=skip:N to skip up to N such rows."
    return f"{place_of_row(path, row)}: {problem.rstrip('.')}. {hint}"


def _require_sizes(table: pa.Table, sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        lengths = _lengths(table.column(name).combine_chunks())
        if (odd := np.flatnonzero(lengths != size)).size:
            count = int(lengths[odd[0]])
            has = {0: "no value", 1: "1 value"}.get(count, f"{count} values")
            raise InputError(f"column {name!r} has {has}, but the schema requires {size} in each row.")


def _cast(name: str, chunks: pa.ChunkedArray, schema: pa.Schema | None) -> pa.Array:
    """Casts a column to scalars or lists of the schema's type; in a file it may be narrower, or have only nulls."""
    column = chunks.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if schema is None:
        return column
    wanted = schema.field(name).type
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        column = lists_of(column)
    try:
        column = column.cast(wanted if _is_list(column.type) else wanted.value_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        what = f"which cannot be converted to the schema's {wanted.value_type}: {shorten(str(error))}"
        raise InputError(f"column {name!r} is {kind}, {what}") from error
    if _is_list(column.type) and not pa.types.is_floating(wanted.value_type) and column.flatten().null_count:
        raise InputError(f"column {name!r} has lists with missing values, which only floats can represent, as NaN.")
    return column


def lists_of(column: pa.Array) -> pa.Array:
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
