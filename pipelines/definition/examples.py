"""Selects the ExampleGen component for a data folder."""

from __future__ import annotations

import os

from tfx.dsl.components.base.base_node import BaseNode
from tfx.proto import example_gen_pb2

from ...components.csv_example_gen import CsvExampleGen
from ...components.example_gen_driver import ImportExampleGen
from ...executors.errors import InputError
from ...executors.runtime.files import file_io
from ...executors.runtime.files.raw_data_files import no_data_error
from .options import AUTO, CSV, SPLITS, TFRECORD

TRAIN, EVAL, TEST = "train", "eval", "test"
_PATTERNS = {
    CSV: {"single_split": "*.csv"},
    TFRECORD: {"single_split": "*"},
    SPLITS: {TRAIN: "train/*", EVAL: "eval/*"},
}
_BUCKETS = {TRAIN: 3, EVAL: 1, TEST: 1}  # shares of the splits with a test split


def example_gen_for(data: str, data_format: str = AUTO, *, test_split: bool = False) -> BaseNode:
    """Returns the ExampleGen for a data folder or file.

    Args:
      data: The folder or file.
      data_format: "csv" for a folder of CSV files, "tfrecord" for a folder of TFRecord files, "splits" for folders
        `train` and `eval` with TFRecord files; with these the data are not accessed. "auto" (default) detects the
        format from the file names; folders `train`, `eval` and optionally `test` may have CSV files then.
      test_split: Whether to put a fifth of the examples into a split `test`, and another fifth into `eval`.

    Raises:
      InputError: With "auto", when `data` does not exist or holds no files in a known format; with `test_split`, when
        the data are split already, but have no `test`.
    """
    data = file_io.absolute_path(data)
    if data_format != AUTO:
        if test_split and data_format == SPLITS:
            raise InputError(f"--test-split: {data} is split already. Leave it out, or give the unsplit data.")
        kind = CsvExampleGen if data_format == CSV else ImportExampleGen
        return _example_gen(kind, data, _PATTERNS[data_format], test_split)
    if not file_io.exists(data):
        raise InputError(f"--data {data} does not exist.")
    folder, names = (
        (data, file_io.listdir(data)) if file_io.isdir(data) else (file_io.parent(data), [os.path.basename(data)])
    )
    files = [name for name in names if not name.startswith((".", "_"))]
    csv = [name for name in files if name.endswith(".csv")]
    if csv:
        pattern = csv[0] if len(csv) == 1 else "*.csv"
        return _example_gen(CsvExampleGen, folder, {"single_split": pattern}, test_split)
    if {TRAIN, EVAL} <= set(files):
        return _split_already(folder, files, test_split)
    records = [name for name in files if not file_io.isdir(os.path.join(folder, name))]
    if not records:
        raise no_data_error(data)
    pattern = records[0] if len(records) == 1 else "*"
    return _example_gen(ImportExampleGen, folder, {"single_split": pattern}, test_split)


def is_split_with_test(data: str) -> bool:
    """Whether a folder has the splits `train`, `eval` and `test` as folders."""
    return all(file_io.isdir(os.path.join(data, name)) for name in (TRAIN, EVAL, TEST))


def _split_already(folder: str, names: list[str], test_split: bool) -> BaseNode:
    """Returns the ExampleGen for folders `train`, `eval` and perhaps `test`."""
    if test_split and TEST not in names:
        raise InputError(f"--test-split: {folder} is split already, and has no folder {TEST}/. Add one.")
    is_csv = any(name.endswith(".csv") for name in file_io.listdir(os.path.join(folder, TRAIN)))
    patterns = {name: f"{name}/*{'.csv' if is_csv else ''}" for name in (TRAIN, EVAL, TEST) if name in names}
    return _example_gen(CsvExampleGen if is_csv else ImportExampleGen, folder, patterns, test_split=False)


def _example_gen(kind: type[BaseNode], folder: str, patterns: dict[str, str], test_split: bool) -> BaseNode:
    splits = [example_gen_pb2.Input.Split(name=name, pattern=pattern) for name, pattern in patterns.items()]
    config: dict[str, object] = {"input_config": example_gen_pb2.Input(splits=splits)}
    if test_split:
        buckets = [
            example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=number) for name, number in _BUCKETS.items()
        ]
        config["output_config"] = example_gen_pb2.Output(split_config=example_gen_pb2.SplitConfig(splits=buckets))
    return kind(input_base=folder, **config)
