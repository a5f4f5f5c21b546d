"""`AbstractDataReader`, the base class of custom data readers, and `Metadata`, an argument of `feed`."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from ....errors import InputError

if TYPE_CHECKING:
    from ..readers.custom_reader import Task

# The MaxCompute types that ElasticDL supported, by name, so that the MaxCompute client need not be installed.
_MAXCOMPUTE_DTYPES = {"bigint": tf.int64, "double": tf.float64, "string": tf.string}


class Metadata:
    """The metadata of a reader's records.

    Attributes:
      column_names: The column names in order; None if records have no columns.
      column_dtypes: Types by column name: MaxCompute types for tables, NumPy types for CSV files; None if unknown.
    """

    def __init__(self, column_names: Sequence[str] | None, column_dtypes: Mapping[str, object] | None = None) -> None:
        """Sets names and types."""
        self.column_names = column_names
        self.column_dtypes = column_dtypes

    def get_tf_dtype_from_maxcompute_column(self, column_name: str) -> tf.DType:
        """Returns the TensorFlow dtype of a MaxCompute table's column.

        Raises:
          ValueError: When the types are unknown, or the column's type is not bigint, double or string.
        """
        if self.column_dtypes is None:
            raise ValueError(f"The type of column {column_name!r} is unknown: the reader does not set column_dtypes.")
        dtype = str(self.column_dtypes.get(column_name)).lower()
        if dtype not in _MAXCOMPUTE_DTYPES:
            known = ", ".join(_MAXCOMPUTE_DTYPES)
            raise ValueError(f"Column {column_name!r} has the type {dtype}; supported types are {known}.")
        return _MAXCOMPUTE_DTYPES[dtype]


class AbstractDataReader(abc.ABC):
    """Base class of readers that split data into shards and read the records of a shard."""

    def __init__(self, **kwargs: object) -> None:
        """Accepts the data reader's parameters."""
        super().__init__()

    @abc.abstractmethod
    def read_records(self, task: Task) -> Iterator[object]:
        """Yields the records of a task.

        Args:
          task: Has `shard_name`, `start` and `end`; since late 2020, `shard` with these attributes.
        """

    @abc.abstractmethod
    def create_shards(self) -> Mapping[str, tuple[int, int]] | Sequence[tuple[str, int, int]] | None:
        """Returns {shard name: (first record, number of records)}; since late 2020 a list of (name, first, number)."""

    @property
    def records_output_types(self) -> tf.DType | tuple[tf.DType, ...] | Mapping[str, tf.DType] | None:
        """The dtypes of a record, as `output_types` of `tf.data.Dataset.from_generator`."""
        return None

    @property
    def metadata(self) -> Metadata:
        """The metadata of the records."""
        return Metadata(column_names=None)


def check_required_kwargs(required_args: Iterable[str], kwargs: Mapping[str, object]) -> None:
    """Checks that a reader's required parameters are given.

    Raises:
      InputError: When some are missing; lists the missing and the given ones.
    """
    missing = [name for name in required_args if name not in kwargs]
    if missing:
        given = ", ".join(sorted(kwargs)) or "none"
        raise InputError(
            f"The data reader lacks {', '.join(missing)} (set: {given}). Add them to --data_reader_params."
        )
