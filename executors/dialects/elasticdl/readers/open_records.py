"""Selects the reader for some data: ElasticDL's reader factory, with more file formats.

Usage:

    records = open_records("iris.csv", parse_reader_params("columns=['sepal.length', 'variety']; sep=','"))
    records = open_records("train/")                       # RecordIO, TFRecord, …: detected from the first bytes
    records = open_records("project.table", {"reader_type": "ODPS"})
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....inputs.bad_records import policy
from ....inputs.readers.reader_errors import ReaderErrors
from ....inputs.readers.record_files import CSV, PARQUET, TEXT, TF_RECORD
from ....inputs.tfrecord.framing import check_tf_records
from .reader_params import ODPS, RECORD_IO, ReaderParams, find_records
from .records import Metadata, Records, Shard

if TYPE_CHECKING:
    import tensorflow as tf

_RECORDS_AT_ONCE = 4096


def open_records(origin: str | Sequence[str], reader_params: Mapping[str, object] | None = None) -> Records:
    """Opens records for reading: finds the files and detects their format, without reading the data.

    `reader_type` selects the reader. Without it, a single name without "/" is a MaxCompute table if MAXCOMPUTE_PROJECT,
    MAXCOMPUTE_AK and MAXCOMPUTE_SK are set, and the format of files is detected. A .csv file is read by columns if
    `columns` or `sep` is given (as in ElasticDL 0.2.0); otherwise, even with reader_type CSV, it is read as text lines
    including the header (as in ElasticDL's last versions). Other files are detected by extension and first bytes.

    Args:
      origin: A file, a folder (all files in it), a glob pattern, a list of these, or the name of a table.
      reader_params: Parameters as returned by `parse_reader_params`.

    Raises:
      InputError: If there is no data, the files are of different or unknown formats, or a column is missing.
    """
    params = ReaderParams.of(reader_params or {})
    origins = [origin] if isinstance(origin, str) else list(origin)
    kind, files = find_records(origins, params)
    if kind == ODPS:
        from . import maxcompute

        return maxcompute.open_table(origins[0], params)
    opened = _OPENERS[kind](", ".join(origins), files, params)
    return dataclasses.replace(opened, files=files, of_file=lambda path: _OPENERS[kind](path, [path], params).dataset())


def _open_csv(origin: str, files: list[str], params: ReaderParams) -> Records:
    import tensorflow as tf

    from . import csv_records

    sep = params.sep or ","
    columns = list(params.columns or csv_records.column_names(files[0], sep))
    for path in files:
        csv_records.check_columns(path, columns, csv_records.column_names(path, sep))
    errors = ReaderErrors()

    def strings(*block: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(csv_records.strings_of_block(*block), [None, len(columns)])

    def dataset(_: Sequence[Shard] | None) -> tf.data.Dataset:
        return errors.dataset(lambda: csv_records.csv_blocks(files, columns, sep), csv_records.BLOCK_SIGNATURE, strings)

    return Records(origin, CSV, Metadata(columns), dataset, errors=errors)


def _open_parquet(origin: str, files: list[str], params: ReaderParams) -> Records:
    from . import parquet_records

    signature = parquet_records.parquet_signature(files[0], params.columns)
    errors = ReaderErrors()

    def dataset(_: Sequence[Shard] | None) -> tf.data.Dataset:
        return errors.dataset(lambda: parquet_records.parquet_blocks(files, signature), signature)

    metadata = Metadata(list(signature), {name: spec.dtype.name for name, spec in signature.items()})
    return Records(origin, PARQUET, metadata, dataset, errors=errors)


def _open_recordio(origin: str, files: list[str], _: ReaderParams) -> Records:
    import tensorflow as tf

    from ..recordio import records as recordio

    errors = ReaderErrors()

    def all_shards() -> list[Shard]:
        return [Shard(path, 0, sum(chunk.records for chunk in recordio.read_index(path))) for path in files]

    def blocks(shards: Sequence[Shard] | None) -> Iterator[np.ndarray]:
        whole: list[tuple[str, int, int | None]] = [(path, 0, None) for path in files]
        for path, start, end in whole if shards is None else [(s.name, s.start, s.end) for s in shards]:
            for records in recordio.read_chunks(path, start, end):
                for first in range(0, len(records), _RECORDS_AT_ONCE):
                    yield np.array(records[first : first + _RECORDS_AT_ONCE], object)

    def dataset(shards: Sequence[Shard] | None) -> tf.data.Dataset:
        return errors.dataset(lambda: blocks(shards), tf.TensorSpec([None], tf.string))

    return Records(origin, RECORD_IO, Metadata(None), dataset, all_shards, errors)


def _open_tf_records(origin: str, files: list[str], _: ReaderParams) -> Records:
    from ....inputs.tfrecord.record_dataset import tf_record_dataset

    errors = ReaderErrors(lambda: check_tf_records(files))

    def dataset(_: Sequence[Shard] | None) -> tf.data.Dataset:
        return tf_record_dataset(files, policy(TF_RECORD))

    return Records(origin, TF_RECORD, Metadata(None), dataset, errors=errors)


def _open_text(origin: str, files: list[str], _: ReaderParams) -> Records:
    from .line_records import line_dataset

    errors = ReaderErrors()
    return Records(origin, TEXT, Metadata(None), lambda _: line_dataset(files, errors), errors=errors)


_OPENERS = {
    CSV: _open_csv,
    PARQUET: _open_parquet,
    RECORD_IO: _open_recordio,
    TF_RECORD: _open_tf_records,
    TEXT: _open_text,
}
