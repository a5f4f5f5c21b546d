"""Records of any origin, as the `feed` or `dataset_fn` of an ElasticDL model file gets them.

Usage:

    records = open_records("iris.csv", {"columns": ["sepal.length", "variety"]})     # of open_records.py
    with records.reraising():
        model.fit(feed(records.dataset(), Mode.TRAINING, records.metadata).batch(64))
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...errors import InputError
from .reader_errors import ReaderErrors

if TYPE_CHECKING:
    import tensorflow as tf

# The names of TensorFlow's types for those of MaxCompute; ElasticDL knew bigint, double and string.
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
    """What is known of the records; ElasticDL's class, which is not frozen because its readers fill it in later.

    Attributes:
      column_names: The columns that a record holds, in this order; None when records are not made of columns.
      column_dtypes: {column: its type in the table}; None when the data has no types, as a CSV file.
    """

    column_names: list[str] | None
    column_dtypes: Mapping[str, object] | None = None

    def get_tf_dtype_from_maxcompute_column(self, column_name: str) -> tf.DType:
        """Returns the TensorFlow type of a column of a MaxCompute table.

        Raises:
          ValueError: When no types are known, or the column's has no counterpart.
        """
        import tensorflow as tf

        if self.column_dtypes is None:
            raise ValueError(f"the type of column {column_name!r} is not known: these records come without types.")
        found = str(self.column_dtypes.get(column_name)).lower()
        if found not in _TENSORFLOW_TYPES:
            raise ValueError(
                f"column {column_name!r} has the type {found}; those with a TensorFlow type are "
                f"{', '.join(_TENSORFLOW_TYPES)}."
            )
        return tf.as_dtype(_TENSORFLOW_TYPES[found])


@dataclasses.dataclass(frozen=True)
class Shard:
    """Some consecutive records that can be read apart from the rest.

    Attributes:
      name: Of a file, or whatever a custom reader calls it.
      start: Number of the first record, counted from 0.
      end: Number of the record to stop before.
    """

    name: str
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Records:
    """Records that can be read, as often as wanted, always in the same order.

    Attributes:
      origin: Where they come from, for messages.
      kind: One of READER_TYPES, or "custom".
      metadata: What is known of them.
      make_dataset: Returns the records of the given shards, or all of them for None.
      make_shards: Returns the shards; None where they cannot be told without reading everything.
      errors: Of the Python code that reads them.
    """

    origin: str
    kind: str
    metadata: Metadata
    make_dataset: Callable[[Sequence[Shard] | None], tf.data.Dataset]
    make_shards: Callable[[], list[Shard]] | None = None
    errors: ReaderErrors = dataclasses.field(default_factory=ReaderErrors)

    def dataset(self, shards: Sequence[Shard] | None = None) -> tf.data.Dataset:
        """Returns the records, unbatched.

        CSV and tables give a vector of strings each, one a column; TFRecords, RecordIO and text lines a string;
        Parquet a dict of tensors by column; custom readers what they yield.

        Args:
          shards: Some of `shards()`, to read these alone; None for all records.

        Raises:
          InputError: When shards are asked for and these records have none.
        """
        if shards is not None and self.make_shards is None:
            raise InputError(f"{self.origin}: records of the kind {self.kind} cannot be read by shards; read all.")
        return self.make_dataset(shards)

    def shards(self) -> list[Shard] | None:
        """Returns the shards that make up all the records, or None for kinds that have none."""
        return None if self.make_shards is None else self.make_shards()

    def reraising(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which errors of the reader keep their type and traceback, also out of tf.data."""
        return self.errors.reraised()
