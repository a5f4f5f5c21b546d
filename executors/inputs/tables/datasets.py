"""Reads files of Arrow tables as tf.data datasets and Arrow record batches.

TFX's ExampleGen writes Parquet, but tfx_bsl reads it only inside Beam. This module returns the same as for TFRecords:
one list-valued Arrow column per feature, and tensors according to the schema's representations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2

from ..message_text import closest_names
from .columns import require_columns
from .rows import TableFiles, as_lists, batched_rows
from .tensors import BatchTensors, arrow_schema

if TYPE_CHECKING:
    from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

    from ..table_format import TableFormat

_FILES_CHECKED = 256  # files whose columns are checked before reading


def tf_dataset(
    form: TableFormat,
    file_pattern: list[str],
    options: TensorFlowDatasetOptions,
    schema: schema_pb2.Schema | None = None,
) -> tf.data.Dataset:
    """Reads files as batches of tensors.

    Args:
      form: The files' format.
      file_pattern: Glob patterns.
      options: A tfx_bsl `TensorFlowDatasetOptions`. The supported options are batch_size, drop_final_batch, num_epochs,
        shuffle, shuffle_buffer_size, shuffle_seed, prefetch_buffer_size and label_key; others are ignored.
      schema: The examples' schema, which defines the columns and their tensor representations.

    Returns:
      A dataset of dicts of tensors, or of (dict, label) pairs if `options.label_key` is set.

    Raises:
      ValueError: If there is no schema, no file matches, or no tensor is named `options.label_key`.
      InputError: If a file is not of the format, lacks a column of the schema, or has it several times.
    """
    if schema is None:
        raise ValueError(f"{file_pattern}: reading {form.name} as tensors requires a schema.")
    paths = _matching(form, file_pattern)
    tensors = BatchTensors(schema)
    if options.label_key is not None and options.label_key not in tensors.specs:
        raise ValueError(
            f"label_key {options.label_key!r} is not in the schema; "
            f"it has {closest_names(list(tensors.specs), near=options.label_key)}."
        )
    for path in paths[:_FILES_CHECKED]:
        require_columns(path, tensors.arrow_schema.names, form.shape(path)[0])
    files = TableFiles(form, paths, tensors.arrow_schema, tensors.sizes)
    dataset = tensors.dataset(lambda: batched_rows(files, options), options.batch_size, options.label_key)
    return dataset.prefetch(options.prefetch_buffer_size)


def record_batches(
    form: TableFormat, file_pattern: list[str], options: RecordBatchesOptions, schema: schema_pb2.Schema | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields record batches of `options.batch_size` rows; see `tf_dataset` for the options.

    A batch may span files and epochs. Only the last batch may be smaller; `drop_final_batch` drops it.
    """
    columns = None if schema is None else arrow_schema(schema)
    for table in batched_rows(TableFiles(form, _matching(form, file_pattern), columns), options):
        for start in range(0, table.num_rows, options.batch_size):
            yield as_lists(table.slice(start, options.batch_size), columns)


def _matching(form: TableFormat, file_pattern: str | list[str]) -> list[str]:
    patterns = [file_pattern] if isinstance(file_pattern, str) else file_pattern  # tfx_bsl accepts both
    files = sorted(itertools.chain.from_iterable(tf.io.gfile.glob(pattern) for pattern in patterns))
    if not files:
        raise ValueError(f"no {form.name} file matches {', '.join(patterns)}.")
    return files
