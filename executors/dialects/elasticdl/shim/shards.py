"""The readers of ElasticDL that custom readers subclass: CSV, text lines, RecordIO.

They read one shard at a time, record by record, as ElasticDL's did. Data that needs no reader of its own is read by
the trainer's inputs, which are faster.
"""

from __future__ import annotations

import csv
import importlib
import itertools
import os
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

import tensorflow as tf

from ....errors import InputError
from .data_reader import AbstractDataReader, Metadata, check_required_kwargs

if TYPE_CHECKING:
    from ....inputs.readers.custom_reader import Task


def _place(task: Any) -> tuple[str, int, int]:
    """Returns name, first record and the one after the last of a task, in the old form and the one of late 2020."""
    shard = getattr(task, "shard", task)
    name = getattr(shard, "shard_name", None) or shard.name
    return name, shard.start, shard.end


class CSVDataReader(AbstractDataReader):
    """Yields the chosen columns of a CSV file with a header, each row as a list of strings."""

    def __init__(self, **kwargs: Any) -> None:
        """Takes `data_dir` (the file), `columns` (their names, in the order wanted) and `sep`."""
        super().__init__(**kwargs)
        check_required_kwargs(["sep", "columns"], kwargs)
        self.sep = kwargs["sep"]
        self.selected_columns = kwargs["columns"]
        self._path = kwargs.get("data_dir")

    def read_records(self, task: Task) -> Iterator[list[str]]:
        """Yields the rows of the task's file, all of them.

        Raises:
          InputError: When the header lacks a column that was chosen.
        """
        path = _place(task)[0]
        with _open(path) as file:
            rows = csv.reader(file, delimiter=self.sep)
            header = next(rows, [])
            chosen = header if self.selected_columns is None else self.selected_columns
            missing = [name for name in chosen if name not in header]
            if missing:
                raise InputError(f"{path}: the header has no {', '.join(missing)}; it has {', '.join(header)}.")
            places = [header.index(name) for name in chosen]
            for row in rows:
                yield [row[place] for place in places]

    def create_shards(self) -> dict[str, tuple[int, int]]:
        """Returns the file as one shard."""
        check_required_kwargs(["data_dir"], {"data_dir": self._path} if self._path else {})
        with _open(str(self._path)) as file:
            return {str(self._path): (0, sum(1 for _ in csv.reader(file, delimiter=self.sep)) - 1)}

    @property
    def records_output_types(self) -> tf.DType:
        """Strings."""
        return tf.string

    @property
    def metadata(self) -> Metadata:
        """The chosen columns."""
        return Metadata(column_names=self.selected_columns)


class TextDataReader(AbstractDataReader):
    """Yields the lines of a text file, line ends included."""

    def __init__(self, **kwargs: Any) -> None:
        """Takes `filename` and `records_per_task`."""
        super().__init__(**kwargs)
        check_required_kwargs(["filename"], kwargs)
        self._filename = kwargs["filename"]
        self._records_per_task = kwargs.get("records_per_task")

    def read_records(self, task: Task) -> Iterator[str]:
        """Yields the task's lines."""
        name, start, end = _place(task)
        with _open(name) as file:
            yield from itertools.islice(file, start, end)

    def create_shards(self) -> list[tuple[str, int, int]]:
        """Returns name, first line and number of lines of each shard."""
        size = self.get_size()
        step = self._records_per_task or max(size, 1)
        return [(self._filename, start, min(step, size - start)) for start in range(0, size, step)]

    def get_size(self) -> int:
        """Returns the number of lines."""
        with _open(self._filename) as file:
            return sum(1 for _ in file)

    @property
    def records_output_types(self) -> tf.DType:
        """Strings."""
        return tf.string


class RecordIODataReader(AbstractDataReader):
    """Yields the records of a folder's RecordIO files, as bytes."""

    def __init__(self, **kwargs: Any) -> None:
        """Takes `data_dir`, the folder."""
        super().__init__(**kwargs)
        check_required_kwargs(["data_dir"], kwargs)
        self._folder = kwargs["data_dir"]

    def read_records(self, task: Task) -> Iterator[bytes]:
        """Yields the task's records."""
        name, start, end = _place(task)
        scanner = _recordio().Scanner(name, start, end - start)
        try:
            while record := scanner.record():
                yield record
        finally:
            scanner.close()

    def create_shards(self) -> dict[str, tuple[int, int]]:
        """Returns each file as one shard."""
        shards = {}
        for name in sorted(os.listdir(self._folder)):
            path = os.path.join(self._folder, name)
            index = _recordio().Index(path)
            shards[path] = (0, index.num_records())
            index.close()
        return shards

    @property
    def records_output_types(self) -> tf.DType:
        """Strings."""
        return tf.string


def _open(path: str) -> TextIO:
    return open(path, encoding="utf-8", newline="")


def _recordio() -> ModuleType:
    return importlib.import_module("recordio")
