"""`ElasticReader`: the base class of custom readers in confs, which count rows and read ranges of rows by index.

Usage, as in a conf:

    class Clicks(ElasticReader):
        def count_data(self):
            self._data_nums = 1000

        def read_data_by_index_range(self, start_index, end_index):
            return [f"{index},{2 * index}" for index in range(start_index, end_index)]

    train_set = {"reader": Clicks("clicks"), …}

Readers for DLRover's first releases define `iterator()` instead of the second method, which gets the ranges to read
from `data_shard_client`. They also support reading by range, row by row.
"""

from __future__ import annotations

import abc
import collections
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from ....errors import InputError
from .sharding_client import Shard, ShardingClient

READ_METHODS = ("read_data_by_index_range", "iterator")
# Serializes calls of `iterator`, which read the range from the reader's attributes; readers may share a file.
_iterator_lock = threading.RLock()


class ElasticReader(abc.ABC):
    """A reader of rows by index.

    Attributes:
      path: The location of the rows, in a format defined by the reader; also names the data set. As in DLRover, it is
        also available as `_path`.
      enable_dynamic_sharding: Whether workers request ranges dynamically.
      num_minibatches_per_shard: Batches per range.
      data_shard_client: The client that assigns ranges to `iterator()`; None to read all rows once.
    """

    # Class attributes, for subclasses that don't call super().__init__().
    _path: Any = None  # the type is defined by the subclass
    _num_epochs = 1
    _batch_size = 64
    _data_nums: int | None = None
    enable_dynamic_sharding = True
    num_minibatches_per_shard = 10
    data_shard_client: ShardingClient | _SingleRowClient | None = None
    data_shard_service: object = None

    def __new__(cls, *args: object, **kwargs: object) -> ElasticReader:
        """Raises a TypeError for subclasses that define neither `read_data_by_index_range` nor `iterator`."""
        if all(getattr(cls, name) is getattr(ElasticReader, name) for name in READ_METHODS):
            raise TypeError(
                f"{cls.__qualname__} does not define read_data_by_index_range(self, start_index, end_index), "
                "which returns the rows of a range."
            )
        return super().__new__(cls)

    def __init__(
        self,
        path: object = None,
        num_epochs: int = 1,
        batch_size: int = 64,
        enable_dynamic_sharding: bool = True,
        num_minibatches_per_shard: int = 10,
    ) -> None:
        """Accepts the arguments of the readers in all DLRover releases. No data is read or counted yet.

        Args:
          path: The location of the rows.
          num_epochs: Number of passes over the data; overridden by the conf.
          batch_size: Rows per batch; overridden by the conf.
          enable_dynamic_sharding: Whether workers request ranges dynamically.
          num_minibatches_per_shard: Batches per range.
        """
        self._path = path
        self._num_epochs = num_epochs
        self._batch_size = batch_size
        self.enable_dynamic_sharding = enable_dynamic_sharding
        self.num_minibatches_per_shard = num_minibatches_per_shard

    @property
    def path(self) -> object:
        """The location of the rows."""
        return self._path

    @path.setter
    def path(self, path: object) -> None:
        self._path = path

    def set_path(self, path: object) -> None:
        """Sets the location of the rows."""
        self._path = path

    def set_num_epochs(self, num_epochs: int) -> None:
        """Sets the number of passes over the data."""
        self._num_epochs = num_epochs

    def set_batch_size(self, batch_size: int) -> None:
        """Sets the number of rows per batch."""
        self._batch_size = batch_size

    def set_enable_dynamic_sharding(self, enable_dynamic_sharding: bool) -> None:
        """Sets whether workers request ranges dynamically."""
        self.enable_dynamic_sharding = enable_dynamic_sharding

    def set_num_minibatches_per_shard(self, num_minibatches_per_shard: int) -> None:
        """Sets the number of batches per range."""
        self.num_minibatches_per_shard = num_minibatches_per_shard

    @abc.abstractmethod
    def count_data(self) -> None:
        """Sets `_data_nums` to the number of rows."""

    def read_data_by_index_range(self, start_index: int, end_index: int) -> Iterable[str | bytes]:
        """Returns the rows of a range, in order. Subclasses override this method or `iterator`.

        Args:
          start_index: The 0-based index of the first row.
          end_index: The index after the last row.
        """
        return self._read_with_iterator(start_index, end_index)

    def read_range(self, start: int, end: int) -> Iterable[str | bytes]:
        """Returns the rows of a range, with the subclass's `iterator` if it overrides that method.

        Raises:
          InputError: When an overridden `iterator` does not call `data_shard_client.fetch_shard()`.
        """
        own = type(self).iterator is not ElasticReader.iterator
        return self._read_with_iterator(start, end) if own else self.read_data_by_index_range(start, end)

    def counted(self) -> int:
        """Returns the number of rows.

        Raises:
          InputError: When `count_data` does not set it.
        """
        self.count_data()
        if self._data_nums is None:
            raise InputError(
                f"{type(self).__qualname__}: count_data() did not set self._data_nums to the number of rows."
            )
        return self._data_nums

    def build_sharding_client(self) -> None:
        """Counts the rows. It creates no client; the trainer sets `data_shard_client`."""
        self.counted()

    def iterator(self) -> Iterator[str | bytes]:
        """Yields the rows of the ranges from `data_shard_client`; without a client, yields all rows once."""
        client = self.data_shard_client
        if client is None:
            batches = self.num_minibatches_per_shard
            client = build_sharding_client(self._batch_size, 1, self.counted(), batches, self._path)
        while shard := client.fetch_shard():
            yield from self.read_data_by_index_range(shard.start, shard.end)

    def _read_with_iterator(self, start: int, end: int) -> list[str | bytes]:
        rows = _SingleRowClient(start, end)
        with _iterator_lock:
            client, self.data_shard_client = self.data_shard_client, rows
            try:
                read = list(self.iterator())
            finally:
                self.data_shard_client = client
        if not rows.was_called:
            raise InputError(
                f"{type(self).__qualname__}: its iterator() does not call self.data_shard_client.fetch_shard() for the "
                "rows to read. Define read_data_by_index_range(self, start_index, end_index), or do not inherit from "
                "ElasticReader."
            )
        return read


class _SingleRowClient:
    """A sharding client that splits a range into shards of one row, since some readers yield only one row per shard.

    Attributes:
      was_called: Whether `fetch_shard` has been called.
    """

    def __init__(self, start: int, end: int) -> None:
        self._rows = collections.deque(range(start, end))
        self.was_called = False

    def fetch_shard(self) -> Shard | None:
        self.was_called = True
        if not self._rows:
            return None
        row = self._rows.popleft()
        return Shard(None, row, row + 1)

    def report_batch_done(self, *unused: object, **unused_options: object) -> bool:
        return False


def build_sharding_client(
    batch_size: int = 1,
    num_epochs: int = 1,
    dataset_size: int = 1,
    num_minibatches_per_shard: int = 1,
    dataset_name: str | None = "training_data",
) -> ShardingClient:
    """Returns a client that assigns the ranges of a data set; see `ShardingClient`."""
    return ShardingClient(
        dataset_name, batch_size, num_epochs, dataset_size, num_minibatches_per_shard=num_minibatches_per_shard
    )
