"""Dynamic data sharding with exactly-once semantics: assigns ranges of rows and tracks which ones were trained.

Progress is counted in trained records, not in records read, because tf.data reads ahead of the training and its buffers
are lost with the process. A shard is assigned before it is read, is then in progress, and its records are done when the
training step that used them has ended. DLRover's master also assigns shards, but keeps its state separate from the
model: a shard that a dead worker had partly trained is trained again (at-least-once), a shard that failed three times
is dropped, and if the model is restored from a checkpoint, records trained since then are lost.

Guarantee: if the ledger's JSON is saved between two steps in the same checkpoint as the weights, and both are restored
together, each record is trained exactly `epochs` times in the resulting weights, regardless of which processes die.
With several workers, "between two steps" requires a barrier at which all workers have reported their trained records.

Usage:

    ledger = ShardLedger(4000, shard_size=1280, epochs=2, data="train.csv")
    shard = ledger.take()                    # Shard(epoch=1, start=0, end=1280); rows [0, 1280) are read
    ledger.trained(64)                       # after each step: the number of records in its batch
    text = ledger.to_json()                  # saved with the weights
    ledger = ShardLedger.from_json(text)     # resumes at row 64; rows that were read but not trained are read again
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ....errors import InputError

MAX_TRIES = 3  # as in DLRover

_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Shard:
    """A range of consecutive records of one epoch.

    Attributes:
      epoch: Number of the epoch, from 1.
      start: Number of the first record, from 0.
      end: Number of the record to stop before.
    """

    epoch: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"

    @property
    def count(self) -> int:
        """Number of records."""
        return self.end - self.start


class ShardError(InputError):
    """Reading a shard has failed repeatedly; `__cause__` is the exception of the last attempt.

    Attributes:
      shard: The shard.
      tries: Number of attempts.
    """

    def __init__(self, shard: Shard, tries: int, data: str = "") -> None:
        super().__init__(f"rows {shard} of {data or 'the data'} failed {tries} times.")
        self.shard = shard
        self.tries = tries


@dataclasses.dataclass
class _ShardInProgress:
    """A shard that is assigned to a worker; its records before `position` are trained."""

    turn: int
    shard: Shard
    position: int

    @property
    def rest(self) -> Shard:
        return dataclasses.replace(self.shard, start=self.position)


class ShardsInProgress:
    """Queue of the shards that one worker has taken and not completely trained, in the order of assignment."""

    def __init__(self) -> None:
        self._items: collections.deque[_ShardInProgress] = collections.deque()

    def __iter__(self) -> Iterator[_ShardInProgress]:
        return iter(self._items)

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def remainders(self) -> list[Shard]:
        """The untrained rest of each shard."""
        return [item.rest for item in self._items]

    def add(self, shard: Shard, turn: int = 0) -> None:
        """Appends a shard; `turn` is its position in the order of assignment over all workers."""
        self._items.append(_ShardInProgress(turn, shard, shard.start))

    def trained(self, count: int, worker: str = "") -> list[Shard]:
        """Marks the next `count` records as trained; returns the shards that are completed.

        Raises:
          ValueError: If `count` is negative or exceeds the number of untrained records; the state is then unchanged.
        """
        there = sum(item.rest.count for item in self._items)
        if not 0 <= count <= there:
            raise ValueError(f"worker {worker!r} reports {count} trained records, but has taken {there}.")
        through = []
        while count:
            item = self._items[0]
            step = min(count, item.rest.count)
            item.position += step
            count -= step
            if not item.rest.count:
                through.append(self._items.popleft().shard)
        return through

    def remove(self, shards: Sequence[Shard], worker: str = "") -> None:
        """Removes some untouched shards.

        Raises:
          ValueError: If a shard is not in the queue, or is partly trained.
        """
        untouched = {item.shard for item in self._items if item.position == item.shard.start}
        for shard in shards:
            if shard not in untouched:
                raise ValueError(f"worker {worker!r} does not have all of the rows {shard} of epoch {shard.epoch}.")
            untouched.remove(shard)
        self._items = collections.deque(item for item in self._items if item.shard not in shards)


class Ledger(Protocol):
    """The operations that one worker uses of a ledger; see `ShardLedger`."""

    def take(self) -> Shard | None:
        """Assigns the next shard."""

    def taken(self) -> list[Shard]:
        """Returns the untrained remainders of the assigned shards."""

    def trained(self, count: int) -> None:
        """Marks the next `count` records as trained."""

    def put_back(self, shards: Iterable[Shard]) -> None:
        """Returns untouched shards to the ledger."""

    def failed(self, shard: Shard, error: BaseException | None = None) -> None:
        """Reports that a shard could not be read."""


class ShardLedger:
    """Tracks the to-do, in-progress and done records of a dataset over all epochs. Thread-safe.

    A new epoch begins when all records of the previous one are assigned, though some of them may still be in progress.

    Args:
      size: Number of records in the dataset.
      shard_size: Maximum number of records in a shard.
      epochs: Number of times to train each record; None, 0 or less to repeat forever.
      data: Name of the dataset, to check on resuming whether it is the same.

    Raises:
      InputError: If `size` or `shard_size` is less than 1.
    """

    def __init__(self, size: int, shard_size: int, epochs: int | None = None, data: str = "") -> None:
        if size < 1:
            raise InputError(f"{data or 'the data'}: there are {size} records; there is nothing to train on.")
        if shard_size < 1:
            raise InputError(f"shard_size is {shard_size}; it must be at least 1.")
        self.size = size
        self.shard_size = shard_size
        self.epochs = epochs if epochs is not None and epochs > 0 else None
        self.data = data
        self._epoch = 0
        self._done = 0
        # Intervals that are split on assignment: the rest of the current epoch, and returned shards.
        self._todo: list[Shard] = []
        self._in_work: collections.defaultdict[str, ShardsInProgress] = collections.defaultdict(ShardsInProgress)
        self._failures: collections.Counter[Shard] = collections.Counter()
        self._turns = itertools.count()
        self._lock = threading.RLock()

    @property
    def epoch(self) -> int:
        """Number of the latest epoch of which shards were assigned, from 1."""
        return max(self._epoch, 1)

    @property
    def done(self) -> int:
        """Number of trained records, over all epochs."""
        return self._done

    @property
    def is_handed_out(self) -> bool:
        """Whether all records are assigned, so that `take` returns None unless a shard is returned."""
        with self._lock:
            return self._next() is None

    @property
    def is_finished(self) -> bool:
        """Whether every record has been trained `epochs` times."""
        with self._lock:
            return self._next() is None and not any(self._in_work.values())

    def matches(self, data: str, size: int) -> bool:
        """Returns whether the ledger belongs to a dataset with this name and number of records."""
        return (self.data, self.size) == (data, size)

    def take(self, worker: str = "") -> Shard | None:
        """Assigns the next shard to a worker.

        Returns:
          A shard of at most `shard_size` records, or None if all records are assigned. Shards that other workers have
          in progress may still be returned, so with several workers None is final only if `is_finished`.
        """
        with self._lock:
            place = self._next()
            if place is None:
                return None
            if place == len(self._todo):
                self._epoch += 1
                self._todo.append(Shard(self._epoch, 0, self.size))
            whole = self._todo[place]
            shard = dataclasses.replace(whole, end=min(whole.end, whole.start + self.shard_size))
            rest = dataclasses.replace(whole, start=shard.end)
            self._todo[place : place + 1] = [rest] if rest.count else []
            self._in_work[worker].add(shard, next(self._turns))
            return shard

    def taken(self, worker: str = "") -> list[Shard]:
        """Returns the untrained remainders of a worker's shards, in the order of assignment."""
        with self._lock:
            return self._in_work[worker].remainders

    def trained(self, count: int, worker: str = "") -> None:
        """Marks the next records of a worker's shards as trained.

        Args:
          count: Number of records, in the order of assignment; it may end in the middle of a shard.
          worker: Name of the worker that trained them.

        Raises:
          ValueError: If `count` exceeds the worker's untrained records; the state is then unchanged.
        """
        with self._lock:
            for shard in self._in_work[worker].trained(count, worker):
                self._failures.pop(shard, None)
            self._done += count

    def release(self, worker: str = "") -> None:
        """Returns all untrained records of a worker to the front of the to-do list, in their order."""
        with self._lock:
            self._todo[:0] = self._in_work.pop(worker, ShardsInProgress()).remainders

    def put_back(self, shards: Iterable[Shard], worker: str = "") -> None:
        """Returns untouched shards of a worker to the front of the to-do list, in the given order.

        Raises:
          ValueError: If a shard is not assigned to the worker, or is partly trained.
        """
        shards = list(shards)
        with self._lock:
            self._in_work[worker].remove(shards, worker)
            self._todo[:0] = shards

    def failed(self, shard: Shard, error: BaseException | None = None, worker: str = "") -> None:
        """Reports that a shard could not be read, and returns it to the front of the to-do list for a retry.

        Args:
          shard: The shard, as assigned.
          error: The exception that reading it raised.
          worker: Name of the worker that took it.

        Raises:
          ShardError: At the third failure of this shard, with `error` as its cause. A shard is never dropped.
          ValueError: See `put_back`.
        """
        with self._lock:
            self.put_back([shard], worker)
            self._failures[shard] += 1
            tries = self._failures[shard]
        if tries >= MAX_TRIES:
            raise ShardError(shard, tries, self.data) from error

    def with_epochs(self, epochs: int | None, shard_size: int | None = None) -> ShardLedger:
        """Returns a copy with a different total number of epochs that resumes at the current state.

        As in a restored ledger, nothing is in progress. If `epochs` is less than the number of epochs begun, the rest
        of the excess epochs is kept but not assigned.

        Args:
          epochs: Total number of epochs; None, 0 or less to repeat forever.
          shard_size: New maximum number of records in a shard; None to keep it.
        """
        with self._lock:
            other = ShardLedger(self.size, shard_size or self.shard_size, epochs, self.data)
            other._epoch, other._done, other._todo = self._epoch, self._done, self._left()
            return other

    def to_json(self) -> str:
        """Serializes the state; untrained records in progress are saved at the front of the to-do list."""
        with self._lock:
            return json.dumps(
                {
                    "format": _FORMAT,
                    "data": self.data,
                    "size": self.size,
                    "shard_size": self.shard_size,
                    "epochs": self.epochs,
                    "epoch": self._epoch,
                    "done": self._done,
                    "todo": [dataclasses.astuple(shard) for shard in self._left()],
                }
            )

    @classmethod
    def from_json(cls, text: str) -> ShardLedger:
        """Restores a ledger from the result of `to_json`, with nothing in progress.

        Raises:
          InputError: If the text is not a saved ledger, has another format version, or is inconsistent.
        """
        try:
            saved = json.loads(text)
            if saved["format"] != _FORMAT:
                raise InputError(
                    f"a saved shard ledger has the format {saved['format']}; this version reads {_FORMAT}."
                )
            ledger = cls(saved["size"], saved["shard_size"], saved["epochs"], saved["data"])
            ledger._epoch, ledger._done = int(saved["epoch"]), int(saved["done"])
            ledger._todo = [Shard(*map(int, shard)) for shard in saved["todo"]]
        except InputError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"a saved shard ledger cannot be read ({error!r}): {text[:200]}") from error
        ledger._check_consistency()
        return ledger

    def _next(self) -> int | None:
        """Returns the index of the next interval in `_todo`, `len(_todo)` for a new epoch, or None if there is none."""
        for place, shard in enumerate(self._todo):
            if self.epochs is None or shard.epoch <= self.epochs:
                return place
        return len(self._todo) if self.epochs is None or self._epoch < self.epochs else None

    def _left(self) -> list[Shard]:
        in_work: Sequence[_ShardInProgress] = sorted(
            itertools.chain.from_iterable(self._in_work.values()), key=lambda item: item.turn
        )
        return [item.rest for item in in_work] + self._todo

    def _check_consistency(self) -> None:
        left = sum(shard.count for shard in self._todo)
        sound = all(0 <= s.start < s.end <= self.size and 1 <= s.epoch <= self._epoch for s in self._todo)
        if not sound or self._done + left != self._epoch * self.size:
            raise InputError(
                f"a saved shard ledger is inconsistent: of {self._epoch} epochs of {self.size} records, {self._done} "
                f"are done and {left} left. Its checkpoint is damaged; resume from an earlier one."
            )
