"""Reads Parquet examples as tf.data datasets and Arrow record batches.

TFX's ExampleGen writes Parquet, but tfx_bsl reads it only inside Beam. This module returns the same as for the other
payload formats: one list-valued Arrow column per feature, and tensors according to the schema's representations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2

from ..message_text import closest_names
from .arrow_file import ArrowFile
from .files import opened_parquet, require_columns
from .rows import as_lists, batched_rows, first_mismatch
from .tensors import BatchTensors, arrow_schema

if TYPE_CHECKING:
    from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

_FILES_CHECKED = 256  # files whose metadata is checked before reading


def tf_dataset(
    file_pattern: list[str], options: TensorFlowDatasetOptions, schema: schema_pb2.Schema | None
) -> tf.data.Dataset:
    """Reads Parquet files as batches of tensors.

    Args:
      file_pattern: Glob patterns.
      options: A tfx_bsl `TensorFlowDatasetOptions`. The supported options are batch_size, drop_final_batch, num_epochs,
        shuffle, shuffle_buffer_size, shuffle_seed, prefetch_buffer_size and label_key; others are ignored.
      schema: The examples' schema, which defines the columns and their tensor representations.

    Returns:
      A dataset of dicts of tensors, or of (dict, label) pairs if `options.label_key` is set.

    Raises:
      ValueError: If there is no schema, no file matches, or no tensor is named `options.label_key`.
      InputError: See `check_parquet`.
    """
    if schema is None:
        raise ValueError(f"{file_pattern}: reading Parquet as tensors requires a schema.")
    paths = _matching(file_pattern)  # eagerly, since an exception inside the dataset loses its type
    tensors = BatchTensors(schema)
    if options.label_key is not None and options.label_key not in tensors.specs:
        raise ValueError(
            f"label_key {options.label_key!r} is not in the schema; "
            f"it has {closest_names(list(tensors.specs), near=options.label_key)}."
        )
    for path in paths[:_FILES_CHECKED]:
        check_parquet(path, tensors.arrow_schema)
    dataset = tensors.dataset(
        lambda: batched_rows(paths, options, tensors.arrow_schema),
        options.batch_size,
        options.label_key,
        lambda: first_mismatch(paths, tensors.arrow_schema, tensors.sizes),
    )
    return dataset.prefetch(options.prefetch_buffer_size)


def record_batches(
    file_pattern: list[str], options: RecordBatchesOptions, schema: schema_pb2.Schema | None
) -> Iterator[pa.RecordBatch]:
    """Yields record batches of `options.batch_size` rows; see `tf_dataset` for the options.

    A batch may span files and epochs. Only the last batch may be smaller; `drop_final_batch` drops it.
    """
    columns = None if schema is None else arrow_schema(schema)
    for table in batched_rows(_matching(file_pattern), options, columns):
        for start in range(0, table.num_rows, options.batch_size):
            yield as_lists(table.slice(start, options.batch_size), columns)


def check_parquet(path: str, schema: pa.Schema) -> None:
    """Checks the columns in a file's metadata, without reading data.

    Raises:
      InputError: If it is not a Parquet file, lacks a column of the schema, or has it several times.
    """
    with ArrowFile(path, "rb") as file:
        found = opened_parquet(path, file).schema_arrow.names
    require_columns(path, schema.names, found)


def _matching(file_pattern: str | list[str]) -> list[str]:
    patterns = [file_pattern] if isinstance(file_pattern, str) else file_pattern  # tfx_bsl accepts both
    files = sorted(itertools.chain.from_iterable(tf.io.gfile.glob(pattern) for pattern in patterns))
    if not files:
        raise ValueError(f"no Parquet file matches {', '.join(patterns)}.")
    return files
