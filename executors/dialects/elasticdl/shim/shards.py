"""ElasticDL's readers for CSV, text lines and RecordIO, as base classes of custom readers.

As in ElasticDL, they read one shard at a time, record by record. Without a custom reader, data is read by the trainer's
inputs, which are faster.
"""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

import tensorflow as tf

from ....inputs.csv.row_reader import csv_rows
from ..readers.csv_records import check_columns
from .data_reader import AbstractDataReader, Metadata, check_required_kwargs

if TYPE_CHECKING:
    from ..readers.custom_reader import Task


def _place(task: Any) -> tuple[str, int, int]:
    """Returns (shard name, first record, record to stop before) of a task, before and since late 2020."""
    shard = getattr(task, "shard", task)
    name = getattr(shard, "shard_name", None) or shard.name
    return name, shard.start, shard.end


class Shards(dict[str, tuple[int, int]]):
    """{name: (first record, number of records)}, which iterates over (name, first, number), as since late 2020."""

    def __iter__(self) -> Iterator[Any]:
        return ((name, *place) for name, place in self.items())


class CSVDataReader(AbstractDataReader):
    """Reads selected columns of a CSV file with a header row; a record is a list of strings."""

    def __init__(self, **kwargs: Any) -> None:
        """Sets the file and its format.

        Args:
          **kwargs: `data_dir` (the path of the file), `columns` (names of the columns to read, in order; None for all)
            and `sep` (the separator). `columns` and `sep` are required.

        Raises:
          InputError: When `columns` or `sep` is missing.
        """
        super().__init__(**kwargs)
        check_required_kwargs(["sep", "columns"], kwargs)
        self.sep = kwargs["sep"]
        self.selected_columns = kwargs["columns"]
        self._path = kwargs.get("data_dir")

    def read_records(self, task: Task) -> Iterator[list[str]]:
        """Yields all rows of the task's file; the task's range is ignored.

        Raises:
          InputError: When a selected column is missing in the header row, or occurs twice, or when a row is not CSV or
            has another number of values than the header row.
        """
        path = _place(task)[0]
        with csv_rows(path, self.sep, is_strict=False) as rows:
            chosen = rows.names if self.selected_columns is None else self.selected_columns
            if self.selected_columns is not None:
                check_columns(path, chosen, rows.names)
            places = [rows.names.index(name) for name in chosen]
            for row in rows:
                yield [row[place] for place in places]

    def create_shards(self) -> dict[str, tuple[int, int]]:
        """Returns one shard for the whole file."""
        check_required_kwargs(["data_dir"], {"data_dir": self._path} if self._path else {})
        with csv_rows(str(self._path), self.sep, is_strict=False) as rows:
            return {str(self._path): (0, sum(1 for _ in rows))}

    @property
    def records_output_types(self) -> tf.DType:
        """The dtype of the fields, string."""
        return tf.string

    @property
    def metadata(self) -> Metadata:
        """The metadata with the names of the selected columns."""
        return Metadata(column_names=self.selected_columns)


class TextDataReader(AbstractDataReader):
    """Reads the lines of a text file, including line endings."""

    def __init__(self, **kwargs: Any) -> None:
        """Sets the file.

        Args:
          **kwargs: `filename` (required) and `records_per_task` (lines per shard; default one shard for all).

        Raises:
          InputError: When `filename` is missing.
        """
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
        """Returns (file name, first line, number of lines) of each shard."""
        size = self.get_size()
        step = self._records_per_task or max(size, 1)
        return [(self._filename, start, min(step, size - start)) for start in range(0, size, step)]

    def get_size(self) -> int:
        """Returns the number of lines."""
        with _open(self._filename) as file:
            return sum(1 for _ in file)

    @property
    def records_output_types(self) -> tf.DType:
        """The dtype of the lines, string."""
        return tf.string


class RecordIODataReader(AbstractDataReader):
    """Reads the records of the RecordIO files in a directory, as bytes."""

    def __init__(self, **kwargs: Any) -> None:
        """Sets the directory.

        Args:
          **kwargs: `data_dir` (required), the directory.

        Raises:
          InputError: When `data_dir` is missing.
        """
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

    def create_shards(self) -> Shards:
        """Returns one shard per file."""
        shards = Shards()
        for name in sorted(os.listdir(self._folder)):
            path = os.path.join(self._folder, name)
            index = _recordio().Index(path)
            shards[path] = (0, index.num_records())
            index.close()
        return shards

    @property
    def records_output_types(self) -> tf.DType:
        """The dtype of the records, string."""
        return tf.string


def _open(path: str) -> TextIO:
    return open(path, encoding="utf-8", newline="")


def _recordio() -> ModuleType:
    return importlib.import_module("recordio")
