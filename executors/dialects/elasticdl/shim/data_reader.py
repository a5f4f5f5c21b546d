"""What a model file's `custom_data_reader` returns: `AbstractDataReader`, and the `Metadata` that `feed` is given."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from ....errors import InputError

if TYPE_CHECKING:
    from ....inputs.readers.custom_reader import Task

# MaxCompute's types that ElasticDL knew, by name: its client need not be installed.
_MAXCOMPUTE_DTYPES = {"bigint": tf.int64, "double": tf.float64, "string": tf.string}


class Metadata:
    """What a reader knows of its records.

    Attributes:
      column_names: The columns' names in order, or None where records have no columns.
      column_dtypes: A type by column name: MaxCompute's for its tables, NumPy's for CSV files. None where unknown.
    """

    def __init__(self, column_names: Sequence[str] | None, column_dtypes: Mapping[str, object] | None = None) -> None:
        """Takes names and types."""
        self.column_names = column_names
        self.column_dtypes = column_dtypes

    def get_tf_dtype_from_maxcompute_column(self, column_name: str) -> tf.DType:
        """Returns the TensorFlow type of a MaxCompute table's column.

        Raises:
          ValueError: When the types are unknown, or it is one that has no counterpart.
        """
        if self.column_dtypes is None:
            raise ValueError(f"The type of column {column_name!r} is not known: the reader has set no column_dtypes.")
        dtype = str(self.column_dtypes.get(column_name)).lower()
        if dtype not in _MAXCOMPUTE_DTYPES:
            known = ", ".join(_MAXCOMPUTE_DTYPES)
            raise ValueError(f"Column {column_name!r} has the type {dtype}; those that can be read are {known}.")
        return _MAXCOMPUTE_DTYPES[dtype]


class AbstractDataReader(abc.ABC):
    """Splits data into shards and reads one."""

    def __init__(self, **kwargs: object) -> None:
        """Takes the data reader's parameters."""
        super().__init__()

    @abc.abstractmethod
    def read_records(self, task: Task) -> Iterator[object]:
        """Yields the records of a task.

        Args:
          task: Where they are: `task.shard_name`, `task.start` and `task.end`, since late 2020 below `task.shard`.
        """

    @abc.abstractmethod
    def create_shards(self) -> Mapping[str, tuple[int, int]] | Sequence[tuple[str, int, int]] | None:
        """Returns (first record, number of records) by shard name; since late 2020 a list of (name, first, number)."""

    @property
    def records_output_types(self) -> tf.DType | tuple[tf.DType, ...] | Mapping[str, tf.DType] | None:
        """The types of a record, as `tf.data.Dataset.from_generator` takes them."""
        return None

    @property
    def metadata(self) -> Metadata:
        """What is known of the records."""
        return Metadata(column_names=None)


def check_required_kwargs(required_args: Iterable[str], kwargs: Mapping[str, object]) -> None:
    """Makes sure that a reader was given the parameters that it needs.

    Raises:
      InputError: When some are missing. It names them and those that were given.
    """
    missing = [name for name in required_args if name not in kwargs]
    if missing:
        given = ", ".join(sorted(kwargs)) or "none"
        raise InputError(f"The data reader lacks {', '.join(missing)} (given: {given}). Add to --data_reader_params.")
