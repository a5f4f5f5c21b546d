"""Which features raw examples have, looked up before a pipeline starts."""

from __future__ import annotations

import csv
import os

from ..executors import file_io

_RECORDS = 1000  # a feature that is missing from so many examples in a row is not the label
_GZIP_MAGIC = b"\x1f\x8b"


def raw_feature_names(data: str) -> set[str]:
    """Returns the names of the features in the first file of a folder that ExampleGen can read (or in one file).

    Args:
      data: As for `example_gen_for`. CSV files have the names in their first line; of TFRecord files the first
        1,000 records are read.
    """
    names = [os.path.join(data, name) for name in file_io.files_below(data)] if file_io.isdir(data) else [data]
    files = [name for name in names if not os.path.basename(name).startswith((".", "_"))]
    first = next((name for name in files if name.endswith(".csv")), files[0])
    return _columns(first) if first.endswith(".csv") else _features(first)


def _columns(path: str) -> set[str]:
    with file_io.file_system(path).open(path, mode="r") as file:
        return set(next(csv.reader([file.readline()]), ()))


def _features(path: str) -> set[str]:
    import tensorflow as tf

    with file_io.file_system(path).open(path, mode="rb") as file:
        compression = "GZIP" if file.read(2) == _GZIP_MAGIC else ""
    names: set[str] = set()
    for record in tf.data.TFRecordDataset(path, compression).take(_RECORDS):
        names.update(tf.train.Example.FromString(record.numpy()).features.feature)
    return names
