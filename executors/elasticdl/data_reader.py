"""What a model file's `custom_data_reader` returns: `AbstractDataReader`, and the `Metadata` that `feed` is given."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import InputError
from ..inputs.records import Metadata


class AbstractDataReader(abc.ABC):
    """Splits data into shards and reads one."""

    def __init__(self, **kwargs: Any) -> None:
        """Takes the data reader's parameters."""
        super().__init__()

    @abc.abstractmethod
    def read_records(self, task: Any) -> Iterator[Any]:
        """Yields the records of a task.

        Args:
          task: Where they are: `task.shard_name`, `task.start` and `task.end`, since late 2020 below `task.shard`.
        """

    @abc.abstractmethod
    def create_shards(self) -> Any:
        """Returns (first record, number of records) by shard name; since late 2020 a list of (name, first, number)."""

    @property
    def records_output_types(self) -> Any:
        """The types of a record, as `tf.data.Dataset.from_generator` takes them."""
        return None

    @property
    def metadata(self) -> Metadata:
        """What is known of the records."""
        return Metadata(column_names=None)


def check_required_kwargs(required_args: Iterable[str], kwargs: Mapping[str, Any]) -> None:
    """Makes sure that a reader was given the parameters that it needs.

    Raises:
      InputError: When some are missing. It names them and those that were given.
    """
    missing = [name for name in required_args if name not in kwargs]
    if missing:
        given = ", ".join(sorted(kwargs)) or "none"
        raise InputError(f"The data reader lacks {', '.join(missing)} (given: {given}). Add to --data_reader_params.")
