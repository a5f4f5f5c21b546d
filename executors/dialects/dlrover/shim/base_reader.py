"""`ElasticReader`: what a conf's own reader inherits from. It says how many rows there are and reads any range of them.

Usage, as in a conf:

    class Clicks(ElasticReader):
        def count_data(self):
            self._data_nums = 1000

        def read_data_by_index_range(self, start_index, end_index):
            return [f"{index},{2 * index}" for index in range(start_index, end_index)]

    train_set = {"reader": Clicks("clicks"), …}

Readers of DLRover's first generation have `iterator()` in place of the second method, and ask `data_shard_client` in it
which rows to read. They are read by ranges as well: row by row.
"""

from __future__ import annotations

import abc
import collections
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from ....errors import InputError
from .sharding_client import Shard, ShardingClient

WAYS_TO_READ = ("read_data_by_index_range", "iterator")
# Such a reader's `iterator` finds its rows in the reader's own state, and readers may share a file.
_one_at_a_time = threading.RLock()


class ElasticReader(abc.ABC):
    """Rows that are read by their numbers.

    Attributes:
      path: Where the rows are, for the reader to understand; also names the data set. DLRover calls it `_path`, too.
      enable_dynamic_sharding: Whether ranges are handed out to whoever asks.
      num_minibatches_per_shard: Batches in a range.
      data_shard_client: What hands out ranges when `iterator()` is called; None to read all rows once.
    """

    # In the class, for subclasses that don't call super().__init__().
    _path: Any = None  # of any type that a subclass understands
    _num_epochs = 1
    _batch_size = 64
    _data_nums: int | None = None
    enable_dynamic_sharding = True
    num_minibatches_per_shard = 10
    data_shard_client: ShardingClient | _OneByOne | None = None
    data_shard_service: object = None

    def __new__(cls, *args: object, **kwargs: object) -> ElasticReader:
        """Refuses a class that cannot read anything."""
        if all(getattr(cls, name) is getattr(ElasticReader, name) for name in WAYS_TO_READ):
            raise TypeError(
                f"{cls.__qualname__} reads nothing: define read_data_by_index_range(self, start_index, end_index), "
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
        """Takes what DLRover's readers of any version take. Nothing is read or counted before a job needs it.

        Args:
          path: Where the rows are.
          num_epochs: Passes over the data; the conf's own number replaces it.
          batch_size: Rows in a batch; the conf's own number replaces it.
          enable_dynamic_sharding: Whether ranges are handed out to whoever asks.
          num_minibatches_per_shard: Batches in a range.
        """
        self._path = path
        self._num_epochs = num_epochs
        self._batch_size = batch_size
        self.enable_dynamic_sharding = enable_dynamic_sharding
        self.num_minibatches_per_shard = num_minibatches_per_shard

    @property
    def path(self) -> object:
        """Where the rows are."""
        return self._path

    @path.setter
    def path(self, path: object) -> None:
        self._path = path

    def set_path(self, path: object) -> None:
        """Sets where the rows are."""
        self._path = path

    def set_num_epochs(self, num_epochs: int) -> None:
        """Sets the passes over the data."""
        self._num_epochs = num_epochs

    def set_batch_size(self, batch_size: int) -> None:
        """Sets the rows in a batch."""
        self._batch_size = batch_size

    def set_enable_dynamic_sharding(self, enable_dynamic_sharding: bool) -> None:
        """Sets whether ranges are handed out to whoever asks."""
        self.enable_dynamic_sharding = enable_dynamic_sharding

    def set_num_minibatches_per_shard(self, num_minibatches_per_shard: int) -> None:
        """Sets the batches in a range."""
        self.num_minibatches_per_shard = num_minibatches_per_shard

    @abc.abstractmethod
    def count_data(self) -> None:
        """Sets `_data_nums` to the number of rows."""

    def read_data_by_index_range(self, start_index: int, end_index: int) -> Iterable[str | bytes]:
        """Returns the rows of a range, in order; for a subclass to define, unless it has an `iterator` of its own.

        Args:
          start_index: Number of the first row, counted from 0.
          end_index: Number of the row to stop before.
        """
        return self._iterated(start_index, end_index)

    def read_range(self, start: int, end: int) -> Iterable[str | bytes]:
        """Returns the rows of a range as `iterator` yields them, which a subclass may have defined anew.

        Raises:
          InputError: When the reader's own `iterator` does not ask which rows to read.
        """
        own = type(self).iterator is not ElasticReader.iterator
        return self._iterated(start, end) if own else self.read_data_by_index_range(start, end)

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
        """Counts the rows. Who hands out ranges is up to the trainer, which sets `data_shard_client`."""
        self.counted()

    def iterator(self) -> Iterator[str | bytes]:
        """Yields the rows of the ranges that `data_shard_client` hands out; without one, all rows once."""
        client = self.data_shard_client
        if client is None:
            batches = self.num_minibatches_per_shard
            client = build_sharding_client(self._batch_size, 1, self.counted(), batches, self._path)
        while shard := client.fetch_shard():
            yield from self.read_data_by_index_range(shard.start, shard.end)

    def _iterated(self, start: int, end: int) -> list[str | bytes]:
        rows = _OneByOne(start, end)
        with _one_at_a_time:
            client, self.data_shard_client = self.data_shard_client, rows
            try:
                read = list(self.iterator())
            finally:
                self.data_shard_client = client
        if not rows.asked:
            raise InputError(
                f"{type(self).__qualname__}: its iterator() does not ask self.data_shard_client.fetch_shard() which "
                "rows to read. Define read_data_by_index_range(self, start_index, end_index), or don't inherit from "
                "ElasticReader."
            )
        return read


class _OneByOne:
    """Hands out a range row by row: there are readers that give one row a shard, whatever its size.

    Attributes:
      asked: Whether anybody asked.
    """

    def __init__(self, start: int, end: int) -> None:
        self._rows = collections.deque(range(start, end))
        self.asked = False

    def fetch_shard(self) -> Shard | None:
        self.asked = True
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
    """Returns a client that hands out the ranges of a data set; see `ShardingClient`."""
    return ShardingClient(
        dataset_name, batch_size, num_epochs, dataset_size, num_minibatches_per_shard=num_minibatches_per_shard
    )
