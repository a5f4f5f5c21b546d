"""A generated project: names of its files, path of its data, and a sample of the data."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import keyword
import os
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import TypeVar

from ...executors.inputs.csv.lines import csv_lines
from ...executors.inputs.input_format import Batch
from .planning import Plan

Row = TypeVar("Row")

_SAMPLE_ROWS = 1000
_SEED = 1


@dataclasses.dataclass(frozen=True)
class Project:
    """A project to write.

    Attributes:
      folder: The project's folder.
      module: The training module's name.
      data: Path of the data relative to the folder, or its URI.
      sample: Path of the sample in the folder.
      sample_rows: Number of examples in the sample.
      test_split: Whether the pipeline splits a test split off.
    """

    folder: str
    module: str
    data: str
    sample: str
    sample_rows: int
    test_split: bool = False

    def names(self) -> dict[str, str | int | bool]:
        """Returns the attributes by name, as template variables."""
        return dataclasses.asdict(self)


def make_project(folder: str, plan: Plan, data: str, *, test_split: bool = False) -> Project:
    """Returns the project for a folder, a plan and the path or URI of the data."""
    if "://" not in data:
        data = os.path.relpath(os.path.abspath(data), os.path.abspath(folder))
    ending = "csv" if plan.raw.is_csv else "tfrecord"
    return Project(folder, module_name(folder), data, f"sample.{ending}", min(plan.raw.size, _SAMPLE_ROWS), test_split)


def module_name(folder: str) -> str:
    """Returns a module name from a folder's name: a valid identifier that shadows no installed module or keyword."""
    name = re.sub(r"\W+", "_", os.path.basename(os.path.abspath(folder)).lower()).strip("_")
    if not name.isascii() or not name.isidentifier():
        name = f"model_{re.sub(r'[^a-z0-9_]+', '', name)}".rstrip("_")
    taken = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), "test", "tests", "sample"}
    if keyword.iskeyword(name) or name in taken or name.startswith("test_") or name == "model":
        name = f"{name}_model"
    return name


def make_sample(plan: Plan) -> bytes:
    """Returns the content of a file with up to 1,000 random examples, with a fixed seed and in the data's order."""
    raw = plan.raw
    chosen = sorted(random.Random(_SEED).sample(range(raw.size), min(raw.size, _SAMPLE_ROWS)))  # noqa: S311
    return _csv_sample(plan, chosen) if raw.is_csv else _record_sample(plan, chosen)


def _csv_sample(plan: Plan, chosen: list[int]) -> bytes:
    """Returns the header row and the chosen rows, with line feeds as line endings."""
    read = (batch.columns.values() for batch in _batches(plan))
    rows = (row for columns in read for row in zip(*columns, strict=True))
    lines = csv_lines([list(plan.raw.columns), *_select(rows, chosen)])
    return "".join(lines).encode("utf-8", "surrogateescape")


def _record_sample(plan: Plan, chosen: list[int]) -> bytes:
    import tensorflow as tf

    records = (record for batch in _batches(plan) for record in batch.records)
    with tempfile.NamedTemporaryFile(suffix=".tfrecord") as file:
        with tf.io.TFRecordWriter(file.name) as writer:
            for record in _select(records, chosen):
                writer.write(record)
        return file.read()


def _batches(plan: Plan) -> Iterator[Batch]:
    return (batch for file in plan.raw.files for batch in file.batches(4096))


def _select(rows: Iterator[Row], chosen: list[int]) -> Iterator[Row]:
    """Yields the rows with the chosen numbers, counted from 0."""
    selected = set(chosen)
    return (row for number, row in zip(range(chosen[-1] + 1), rows, strict=False) if number in selected)
