"""Parquet examples as `tf.data` datasets and Arrow record batches.

TFX's ExampleGen writes Parquet, but tfx_bsl reads it only inside Beam. Here the same files give what the
other formats give: one list-valued Arrow column a feature, and tensors as the schema represents them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.tfxio import parquet_tfxio

from .arrow_file import ArrowFile

_ROWS_READ_AT_ONCE = 4096


def tf_dataset(file_pattern: list[str], options: Any, schema: schema_pb2.Schema | None) -> tf.data.Dataset:
    """Reads Parquet files as batches of tensors.

    Args:
      file_pattern: Glob patterns.
      options: A tfx_bsl `TensorFlowDatasetOptions`; batch_size, drop_final_batch, num_epochs, shuffle,
        shuffle_buffer_size, shuffle_seed, prefetch_buffer_size and label_key are honoured.
      schema: The examples' schema; it says which columns there are and how they become tensors.

    Returns:
      A dataset of dicts of tensors, or of (dict, label) pairs when `options.label_key` is given.

    Raises:
      ValueError: When there is no schema, no file, or no column called `options.label_key`.
    """
    if schema is None:
        raise ValueError(f"{file_pattern}: Parquet needs a schema to become tensors.")
    _matching(file_pattern)  # now, since an error inside the dataset loses its type
    adapter = parquet_tfxio.ParquetTFXIO(file_pattern, schema=schema).TensorAdapter()
    specs = adapter.TypeSpecs()
    if options.label_key is not None and options.label_key not in specs:
        raise ValueError(f"label_key {options.label_key!r} is not in the schema; it has {', '.join(specs)}.")

    def batches() -> Iterator[dict[str, Any]]:
        for batch in record_batches(file_pattern, options, schema):
            yield adapter.ToBatchTensors(batch, produce_eager_tensors=True)

    dataset = tf.data.Dataset.from_generator(batches, output_signature=specs)
    if options.label_key is not None:
        dataset = dataset.map(lambda features: (features, features.pop(options.label_key)))
    return dataset.prefetch(options.prefetch_buffer_size)


def record_batches(file_pattern: list[str], options: Any, schema: schema_pb2.Schema | None) -> Iterator[pa.RecordBatch]:
    """Yields record batches of `options.batch_size` rows; see `tf_dataset` for the options.

    A batch may hold rows of two files or epochs. Only the very last one may be smaller, unless
    `drop_final_batch` is set.
    """
    arrow_schema = None
    if schema is not None:
        arrow_schema = parquet_tfxio.ParquetTFXIO(file_pattern, schema=schema).ArrowSchema()
    files = _matching(file_pattern)
    random = np.random.default_rng(options.shuffle_seed)
    epochs = itertools.count() if options.num_epochs is None else range(options.num_epochs)
    rows = itertools.chain.from_iterable(_one_epoch(files, options, arrow_schema, random) for _ in epochs)
    waiting = pa.table({})
    for table in rows:
        waiting = table if waiting.num_rows == 0 else pa.concat_tables([waiting, table])
        while waiting.num_rows >= options.batch_size:
            yield _record_batch(waiting.slice(0, options.batch_size))
            waiting = waiting.slice(options.batch_size)
    if waiting.num_rows and not options.drop_final_batch:
        yield _record_batch(waiting)


def _matching(file_pattern: str | list[str]) -> list[str]:
    patterns = [file_pattern] if isinstance(file_pattern, str) else file_pattern  # tfx_bsl takes both
    files = sorted(itertools.chain.from_iterable(tf.io.gfile.glob(pattern) for pattern in patterns))
    if not files:
        raise ValueError(f"no Parquet file matches {', '.join(patterns)}.")
    return files


def _one_epoch(
    files: list[str], options: Any, arrow_schema: pa.Schema | None, random: np.random.Generator
) -> Iterator[pa.Table]:
    """Yields the rows of all files once, shuffled within a buffer if asked for."""
    size = max(options.shuffle_buffer_size, 1) if options.shuffle else _ROWS_READ_AT_ONCE
    buffer: list[pa.Table] = []
    order = random.permutation(len(files)) if options.shuffle else range(len(files))
    for index in order:
        for table in _tables(files[index], arrow_schema):
            buffer.append(table)
            if sum(table.num_rows for table in buffer) >= size:
                yield _take_all(buffer, options.shuffle, random)
    if buffer:
        yield _take_all(buffer, options.shuffle, random)


def _tables(path: str, arrow_schema: pa.Schema | None) -> Iterator[pa.Table]:
    """Yields the rows of one file as tables of the given schema, or of the file's own with every column a list."""
    with ArrowFile(path, "rb") as file:
        parquet = pq.ParquetFile(file)
        found = parquet.schema_arrow.names
        names = found if arrow_schema is None else arrow_schema.names
        if missing := [name for name in names if name not in found]:
            raise ValueError(f"{path} has no column {', '.join(map(repr, missing))}; it has {', '.join(found)}.")
        for batch in parquet.iter_batches(_ROWS_READ_AT_ONCE, columns=names):
            columns = [_lists(batch.column(name)) for name in names]
            if arrow_schema is not None:  # files may differ in width, or have no value at all in a column
                columns = [column.cast(field.type) for column, field in zip(columns, arrow_schema, strict=True)]
            yield pa.table(columns, names)


def _lists(column: pa.Array) -> pa.Array:
    """Returns a column of lists: null where a value is missing, as for a feature that a tf.Example lacks."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    valid = np.asarray(column.is_valid())
    values, size = column.drop_null(), 1
    if pa.types.is_fixed_size_list(column.type):
        values, size = values.flatten(), column.type.list_size
    offsets = np.concatenate([[0], np.cumsum(valid) * size])
    mask = np.concatenate([~valid, [False]])
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64(), mask=mask), values)


def _take_all(buffer: list[pa.Table], shuffle: bool, random: np.random.Generator) -> pa.Table:
    table = pa.concat_tables(buffer)
    buffer.clear()
    return table.take(random.permutation(table.num_rows)) if shuffle else table


def _record_batch(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in table.columns], table.column_names)
