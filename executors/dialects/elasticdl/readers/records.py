"""The common interface of record sources, which provide the input of an ElasticDL model file's `feed` or `dataset_fn`.

Usage:

    records = open_records("iris.csv", {"columns": ["sepal.length", "variety"]})     # see open_records.py
    with records.reraising():
        model.fit(feed(records.dataset(), Mode.TRAINING, records.metadata).batch(64))
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ....errors import InputError
from ....inputs.readers.reader_errors import ReaderErrors

if TYPE_CHECKING:
    import tensorflow as tf

# {MaxCompute type: TensorFlow type}; ElasticDL supported bigint, double and string only.
_TENSORFLOW_TYPES = {
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "bool",
    "string": "string",
    "binary": "string",
}


@dataclasses.dataclass
class Metadata:
    """Metadata of records, compatible with ElasticDL's class; mutable because custom readers fill it in later.

    Attributes:
      column_names: Names of a record's columns, in order; None if records do not consist of columns.
      column_dtypes: {column: its type in the table}; None if the data has no types, as in a CSV file.
    """

    column_names: list[str] | None
    column_dtypes: Mapping[str, object] | None = None

    def get_tf_dtype_from_maxcompute_column(self, column_name: str) -> tf.DType:
        """Returns the TensorFlow type of a column of a MaxCompute table.

        Raises:
          ValueError: If there are no column types, or the column's type has no TensorFlow counterpart.
        """
        import tensorflow as tf

        if self.column_dtypes is None:
            raise ValueError(f"the type of column {column_name!r} is unknown: these records have no column types.")
        found = str(self.column_dtypes.get(column_name)).lower()
        if found not in _TENSORFLOW_TYPES:
            raise ValueError(
                f"column {column_name!r} has the type {found}; types with a TensorFlow equivalent are "
                f"{', '.join(_TENSORFLOW_TYPES)}."
            )
        return tf.as_dtype(_TENSORFLOW_TYPES[found])


@dataclasses.dataclass(frozen=True)
class Shard:
    """A range of consecutive records that can be read independently.

    Attributes:
      name: Path of a file, name of a table, or a custom reader's name for the shard.
      start: Number of the first record, counted from 0.
      end: Number of the record to stop before.
    """

    name: str
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Records:
    """A source of records that can be read repeatedly, always in the same order.

    Attributes:
      origin: Paths, patterns or table name, for messages.
      kind: One of READER_TYPES, or "custom".
      metadata: Names and types of the columns.
      make_dataset: Returns a dataset of the records of the given shards, or of all records for None.
      make_shards: Returns the shards; None if shards are not supported.
      errors: Keeps exceptions of the Python code that reads the records.
      files: The files, in the order of the records; () if they are unknown.
      of_file: Returns the records of one of the files.
    """

    origin: str
    kind: str
    metadata: Metadata
    make_dataset: Callable[[Sequence[Shard] | None], tf.data.Dataset]
    make_shards: Callable[[], list[Shard]] | None = None
    errors: ReaderErrors = dataclasses.field(default_factory=ReaderErrors)
    files: Sequence[str] = ()
    of_file: Callable[[str], tf.data.Dataset] | None = None

    def dataset(self, shards: Sequence[Shard] | None = None) -> tf.data.Dataset:
        """Returns an unbatched dataset of the records.

        The elements are string vectors with one string per column for CSV and tables, scalar strings for TFRecord,
        RecordIO and text lines, dicts of tensors by column for Parquet, and the records of a custom reader.

        Args:
          shards: Shards to read, from `shards()`; None for all records.

        Raises:
          InputError: If shards are given and this kind of records does not support them.
        """
        if shards is not None and self.make_shards is None:
            raise InputError(f"{self.origin}: {self.kind} records cannot be read by shards; read all of them.")
        return self.make_dataset(shards)

    def shards(self) -> list[Shard] | None:
        """Returns shards that together contain all records, or None if shards are not supported."""
        return None if self.make_shards is None else self.make_shards()

    def reraising(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context manager that re-raises the reader's own exceptions instead of tf.data's op errors."""
        return self.errors.reraised()
