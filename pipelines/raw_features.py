"""Which features raw examples have, looked up before a pipeline starts."""

from __future__ import annotations

import csv
import os

from google.protobuf.message import DecodeError

from ..executors import file_io

_RECORDS = 1000  # a feature that is missing from so many examples in a row is not the label
_GZIP_MAGIC = b"\x1f\x8b"


def raw_feature_names(data: str) -> set[str]:
    """Returns the names of the features in the first file that `example_gen_for` would have read.

    Args:
      data: As for `example_gen_for`. CSV files have the names in their first line; of TFRecord files the first
        1,000 records are read.

    Returns:
      The names; none when the file is not of tf.Examples.
    """
    first = _first_file(data) if file_io.isdir(data) else data
    return _columns(first) if first.endswith(".csv") else _features(first)


def _first_file(folder: str) -> str:
    names = [name for name in file_io.listdir(folder) if not name.startswith((".", "_"))]
    csv_files = [name for name in names if name.endswith(".csv")]
    if not csv_files and {"train", "eval"} <= set(names):
        return _first_file(os.path.join(folder, "train"))
    files = csv_files or [name for name in names if not file_io.isdir(os.path.join(folder, name))]
    return os.path.join(folder, files[0])


def _columns(path: str) -> set[str]:
    with file_io.file_system(path).open(path, mode="r") as file:
        return set(next(csv.reader([file.readline()]), ()))


def _features(path: str) -> set[str]:
    import tensorflow as tf

    with file_io.file_system(path).open(path, mode="rb") as file:
        compression = "GZIP" if file.read(2) == _GZIP_MAGIC else ""
    names: set[str] = set()
    try:
        for record in tf.data.TFRecordDataset(path, compression).take(_RECORDS):
            names.update(tf.train.Example.FromString(record.numpy()).features.feature)
    except (tf.errors.DataLossError, DecodeError):
        pass  # ExampleGen's to complain about
    return names
