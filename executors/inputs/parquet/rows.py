"""The rows of Parquet files as Arrow tables of whole batches, across files and epochs, shuffled if asked for.

Columns stay as flat as they are in the files until whoever uses them wants lists: scalars are read, shuffled and cut in
a tenth of the time.

Usage:

    for table in batched_rows(["a.parquet", "b.parquet"], options, arrow_schema):
        table     # of k * options.batch_size rows; only the very last one has other numbers
        as_lists(table.slice(0, options.batch_size), arrow_schema)     # a record batch of the schema
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..cache.whole_batches import whole_batches
from ..shown import cut
from .arrow_file import ArrowFile
from .files import opened_parquet, require_columns, row_batches

if TYPE_CHECKING:
    from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

_UNIT = 4096  # rows; a shuffle buffer is filled by as many at a time, and a seed's order depends on it
_UNITS_AT_ONCE = 8  # that are read, of narrow rows
_NARROW = 1024  # bytes of a row in the file


def batched_rows(
    paths: Sequence[str], options: RecordBatchesOptions | TensorFlowDatasetOptions, schema: pa.Schema | None
) -> Iterator[pa.Table]:
    """Returns the rows of all files and epochs, each table a whole number of batches but for the very last one.

    Args:
      paths: The files.
      options: batch_size, drop_final_batch, num_epochs, shuffle, shuffle_buffer_size and shuffle_seed, as tfx_bsl's
        options have them.
      schema: The columns, lists of what they are to become; None for all columns, as they are.

    Raises:
      ValueError: When a file lacks a column, or has one that cannot become the schema's; it names both.
    """
    random = np.random.default_rng(options.shuffle_seed)
    return whole_batches(lambda: _one_epoch(paths, options, schema, random), options, _joined)


def first_misfit(paths: Sequence[str], schema: pa.Schema, sizes: Mapping[str, int]) -> str:
    """Returns where the first row is that has another number of values than it must have, and what is wrong; or "".

    Args:
      paths: The files.
      schema: As of `batched_rows`.
      sizes: {column: how many values each row must have of it}.
    """
    for path in paths:
        before = 0
        for table in _tables(path, schema):
            for name, size in sizes.items():
                lengths = _lengths(table.column(name).combine_chunks())
                if (odd := np.flatnonzero(lengths != size)).size:
                    row, count = before + int(odd[0]) + 1, int(lengths[odd[0]])
                    has = {0: "no value", 1: "1 value"}.get(count, f"{count} values")
                    return f"{path}, row {row}: column {name!r} has {has}, and the schema wants {size} in each row."
            before += table.num_rows
    return ""


def _lengths(column: pa.Array) -> np.ndarray:
    if not _is_list(column.type):
        lengths: np.ndarray = np.asarray(column.is_valid()).astype(np.int64)
    else:
        lengths = np.asarray(column.value_lengths().fill_null(0))
    return lengths


def as_lists(table: pa.Table, schema: pa.Schema | None) -> pa.RecordBatch:
    """Returns rows with every column a list, as tfx_bsl has features: null where a value is missing.

    Args:
      table: Some rows of `batched_rows`.
      schema: The schema that was given there.
    """
    columns = [_lists(column.combine_chunks()) for column in table.columns]
    if schema is not None:  # a list may be a large one there
        columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, table.column_names)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Returns one table; a column that is flat in one file and lists in another becomes lists."""
    if any(table.schema != tables[0].schema for table in tables):
        tables = [pa.table([_large(_lists(c.combine_chunks())) for c in t.columns], t.column_names) for t in tables]
    return pa.concat_tables(tables)


def _one_epoch(
    paths: Sequence[str],
    options: RecordBatchesOptions | TensorFlowDatasetOptions,
    schema: pa.Schema | None,
    random: np.random.Generator,
) -> Iterator[pa.Table]:
    """Yields the rows of all files once, shuffled within a buffer if asked for."""
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
    """Yields the rows of one file, a multiple of `_UNIT` at a time but for the last ones."""
    with ArrowFile(path, "rb") as file:
        parquet = opened_parquet(path, file)
        found = parquet.schema_arrow.names
        names = found if schema is None else schema.names
        require_columns(path, names, found, ValueError)
        units = _UNITS_AT_ONCE if file.size() <= _NARROW * parquet.metadata.num_rows else 1
        for batch in row_batches(path, parquet, units * _UNIT, names):
            columns = [_plain(path, name, batch.column(name), schema) for name in names]
            yield pa.table(columns, names)


def _plain(path: str, name: str, column: pa.Array, schema: pa.Schema | None) -> pa.Array:
    """Returns a column as values or lists of the schema's type; files may differ in width, or have no value at all."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if schema is None:
        return column
    wanted = schema.field(name).type
    try:
        if pa.types.is_fixed_size_list(column.type):
            column = _lists(column)
        column = column.cast(wanted if _is_list(column.type) else wanted.value_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        what = f"which cannot become the schema's {wanted.value_type}: {cut(str(error))}"
        raise ValueError(f"{path}: column {name!r} is {column.type}, {what}") from None  # Arrow quotes all of a value
    if _is_list(column.type) and not pa.types.is_floating(wanted.value_type) and column.flatten().null_count:
        raise ValueError(f"{path}: column {name!r} has lists in which a value is missing, and only floats can be NaN.")
    return column


def _lists(column: pa.Array) -> pa.Array:
    """Returns a column of lists: null where a value is missing, as for a feature that a tf.Example lacks."""
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
