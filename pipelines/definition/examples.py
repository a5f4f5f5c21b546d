"""Selects the ExampleGen component for a data folder."""

from __future__ import annotations

import os

from tfx.components import ImportExampleGen
from tfx.dsl.components.base.base_node import BaseNode
from tfx.proto import example_gen_pb2

from ...components.csv_example_gen import CsvExampleGen
from ...executors.errors import InputError
from ...executors.runtime.files import file_io
from .options import AUTO, CSV, SPLITS, TFRECORD

_PATTERNS = {
    CSV: {"single_split": "*.csv"},
    TFRECORD: {"single_split": "*"},
    SPLITS: {"train": "train/*", "eval": "eval/*"},
}


def example_gen_for(data: str, data_format: str = AUTO) -> BaseNode:
    """Returns the ExampleGen for a data folder or file.

    Args:
      data: The folder or file.
      data_format: "csv" for a folder of CSV files, "tfrecord" for a folder of TFRecord files, "splits" for folders
        `train` and `eval` with TFRecord files; with these the data are not accessed. "auto" (default) detects the
        format from the file names.

    Raises:
      InputError: With "auto", when `data` does not exist or holds no files in a known format.
    """
    data = file_io.absolute_path(data)
    if data_format != AUTO:
        kind = CsvExampleGen if data_format == CSV else ImportExampleGen
        return kind(input_base=data, input_config=_splits(_PATTERNS[data_format]))
    if not file_io.exists(data):
        raise InputError(f"--data {data} does not exist.")
    folder, names = (
        (data, file_io.listdir(data)) if file_io.isdir(data) else (file_io.parent(data), [os.path.basename(data)])
    )
    files = [name for name in names if not name.startswith((".", "_"))]
    csv = [name for name in files if name.endswith(".csv")]
    if csv:
        pattern = csv[0] if len(csv) == 1 else "*.csv"
        return CsvExampleGen(input_base=folder, input_config=_splits({"single_split": pattern}))
    if {"train", "eval"} <= set(files):
        return ImportExampleGen(input_base=folder, input_config=_splits(_PATTERNS[SPLITS]))
    records = [name for name in files if not file_io.isdir(os.path.join(folder, name))]
    if not records:
        raise InputError(f"--data {data} contains no CSV file, no TFRecord file, and no folders train/ and eval/.")
    pattern = records[0] if len(records) == 1 else "*"
    return ImportExampleGen(input_base=folder, input_config=_splits({"single_split": pattern}))


def _splits(patterns: dict[str, str]) -> example_gen_pb2.Input:
    splits = [example_gen_pb2.Input.Split(name=name, pattern=pattern) for name, pattern in patterns.items()]
    return example_gen_pb2.Input(splits=splits)
