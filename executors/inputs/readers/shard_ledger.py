"""Who reads which rows: a data set as ranges that are handed out, and counted when they have been trained.

What counts is what is in the weights, not what was read: `tf.data` reads ahead of the training, and what it has read
is lost with the process. So a range is taken before it is read, is then in work, and its records are done when the
step that used them has ended. DLRover's master handed out ranges too, but kept its list apart from the model: a range
that a dead worker had partly trained was trained again (at least once), one that had failed three times was dropped,
and a model that went back to its checkpoint lost what had been done since.

The guarantee here: when the ledger's JSON is saved in the very checkpoint that holds the weights, between two steps,
and both are restored together, every record counts exactly `epochs` times in the weights that survive, whatever dies
in between. With several workers "between two steps" is a barrier at which all have reported what they trained.

Usage:

    ledger = ShardLedger(4000, shard_size=1280, epochs=2, data="train.csv")
    shard = ledger.take()                    # Shard(epoch=1, start=0, end=1280); rows [0, 1280) are read
    ledger.trained(64)                       # after each step: as many records as were in its batch
    text = ledger.to_json()                  # saved with the weights
    ledger = ShardLedger.from_json(text)     # goes on at row 64, also with what was read and not trained
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ...errors import InputError

MOST_TRIES = 3  # as DLRover has it

_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Shard:
    """Some consecutive records of one epoch.

    Attributes:
      epoch: Number of the run through the data, from 1.
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
    """The same rows could not be read several times in a row; its cause is what the last try raised.

    Attributes:
      shard: The rows.
      tries: How often they were asked for.
    """

    def __init__(self, shard: Shard, tries: int, data: str = "") -> None:
        super().__init__(f"rows {shard} of {data or 'the data'} failed {tries} times.")
        self.shard = shard
        self.tries = tries


@dataclasses.dataclass
class _InWork:
    """A shard that somebody has; its records up to `position` are in the weights."""

    turn: int
    shard: Shard
    position: int

    @property
    def rest(self) -> Shard:
        return dataclasses.replace(self.shard, start=self.position)


class WorkInHand:
    """The shards that one worker has taken and not trained, in the order in which it took them."""

    def __init__(self) -> None:
        self._items: collections.deque[_InWork] = collections.deque()

    def __iter__(self) -> Iterator[_InWork]:
        return iter(self._items)

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def rests(self) -> list[Shard]:
        """What is not trained of each."""
        return [item.rest for item in self._items]

    def add(self, shard: Shard, turn: int = 0) -> None:
        """Takes a shard; its turn is its place among those of all workers."""
        self._items.append(_InWork(turn, shard, shard.start))

    def trained(self, count: int, worker: str = "") -> list[Shard]:
        """Notes that the next records are in the weights; returns the shards that are through.

        Raises:
          ValueError: When there are not as many; nothing is noted then.
        """
        there = sum(item.rest.count for item in self._items)
        if not 0 <= count <= there:
            raise ValueError(f"worker {worker!r} reports {count} trained records and has taken {there}.")
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
        """Gives some whole shards away.

        Raises:
          ValueError: When one is not there, or some of it is trained.
        """
        untouched = {item.shard for item in self._items if item.position == item.shard.start}
        for shard in shards:
            if shard not in untouched:
                raise ValueError(f"worker {worker!r} does not have the rows {shard} of epoch {shard.epoch} whole.")
            untouched.remove(shard)
        self._items = collections.deque(item for item in self._items if item.shard not in shards)


class Ledger(Protocol):
    """What a worker needs of a ledger; see `ShardLedger`."""

    def take(self, worker: str = "") -> Shard | None:
        """Hands out the next records."""

    def taken(self, worker: str = "") -> list[Shard]:
        """Returns what was taken and not trained."""

    def trained(self, count: int, worker: str = "") -> None:
        """Notes that the next records are in the weights."""

    def put_back(self, shards: Iterable[Shard], worker: str = "") -> None:
        """Takes whole shards back."""

    def failed(self, shard: Shard, error: BaseException | None = None, worker: str = "") -> None:
        """Notes that a shard could not be read."""


class ShardLedger:
    """What of a data set is to do, in work and done, over all epochs; any thread may call it.

    A new epoch begins when nothing of the last one is left to hand out, though some of it may still be in work.

    Args:
      size: Number of records in the data set.
      shard_size: Most records that are handed out at once.
      epochs: How often each record counts; None, 0 or less for no end.
      data: A name of the data set, by which whoever resumes can tell whether it is the same.

    Raises:
      InputError: When size or shard_size are less than 1.
    """

    def __init__(self, size: int, shard_size: int, epochs: int | None = None, data: str = "") -> None:
        if size < 1:
            raise InputError(f"{data or 'the data'}: there are {size} records; there is nothing to train on.")
        if shard_size < 1:
            raise InputError(f"shard_size is {shard_size}; at least one record must be handed out at a time.")
        self.size = size
        self.shard_size = shard_size
        self.epochs = epochs if epochs is not None and epochs > 0 else None
        self.data = data
        self._epoch = 0
        self._done = 0
        # Intervals, cut when they are handed out: one an epoch, and the pieces that came back.
        self._todo: list[Shard] = []
        self._in_work: collections.defaultdict[str, WorkInHand] = collections.defaultdict(WorkInHand)
        self._failures: collections.Counter[Shard] = collections.Counter()
        self._turns = itertools.count()
        self._lock = threading.RLock()

    @property
    def epoch(self) -> int:
        """Number of the epoch that is being handed out, from 1."""
        return max(self._epoch, 1)

    @property
    def done(self) -> int:
        """Number of records that are in the weights, over all epochs."""
        return self._done

    @property
    def is_handed_out(self) -> bool:
        """Whether there is nothing left to take, unless something comes back."""
        with self._lock:
            return self._next() is None

    @property
    def is_finished(self) -> bool:
        """Whether every record is in the weights as often as it should be."""
        with self._lock:
            return self._next() is None and not any(self._in_work.values())

    def matches(self, data: str, size: int) -> bool:
        """Returns whether the ledger is of the data set of that name and number of records."""
        return (self.data, self.size) == (data, size)

    def take(self, worker: str = "") -> Shard | None:
        """Hands out the next records.

        Returns:
          At most `shard_size` of them; None when all have been handed out. Records that others have in work may yet
          come back, so that of several workers nobody is through before `is_finished`.
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
        """Returns what a worker has taken and not trained, in the order in which it took it."""
        with self._lock:
            return self._in_work[worker].rests

    def trained(self, count: int, worker: str = "") -> None:
        """Notes that the next records of those that a worker has taken are in the weights.

        Args:
          count: How many, in the order in which the worker took them; they may end in the middle of a shard.
          worker: Who trained them.

        Raises:
          ValueError: When the worker does not have as many; nothing is noted then.
        """
        with self._lock:
            for shard in self._in_work[worker].trained(count, worker):
                self._failures.pop(shard, None)
            self._done += count

    def release(self, worker: str = "") -> None:
        """Takes back what a worker has taken and not trained: in front, in its old order."""
        with self._lock:
            self._todo[:0] = self._in_work.pop(worker, WorkInHand()).rests

    def put_back(self, shards: Iterable[Shard], worker: str = "") -> None:
        """Takes back some whole shards that a worker has taken and not begun: in front, in the order given.

        Raises:
          ValueError: When the worker does not have one of them, or has trained some of it.
        """
        shards = list(shards)
        with self._lock:
            self._in_work[worker].remove(shards, worker)
            self._todo[:0] = shards

    def failed(self, shard: Shard, error: BaseException | None = None, worker: str = "") -> None:
        """Notes that a shard could not be read; it goes back to the front.

        Args:
          shard: What the worker took.
          error: What reading it raised.
          worker: Who took it.

        Raises:
          ShardError: When it was the third time for this shard; never is one dropped. The error is its cause, so that
            the caller can raise that one instead.
          ValueError: As `put_back`.
        """
        with self._lock:
            self.put_back([shard], worker)
            self._failures[shard] += 1
            tries = self._failures[shard]
        if tries >= MOST_TRIES:
            raise ShardError(shard, tries, self.data) from error

    def with_epochs(self, epochs: int | None, shard_size: int | None = None) -> ShardLedger:
        """Returns a ledger that goes on from here, as a restored one does, to another number of epochs in all.

        With fewer than have begun, what is left of those beyond is kept and not handed out.

        Args:
          epochs: As of the class.
          shard_size: Another one than before; None for the same.
        """
        with self._lock:
            other = ShardLedger(self.size, shard_size or self.shard_size, epochs, self.data)
            other._epoch, other._done, other._todo = self._epoch, self._done, self._left()
            return other

    def to_json(self) -> str:
        """Returns all that is needed to go on exactly; what is in work is to do, in front, as far as not trained."""
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
        """Returns the ledger that `to_json` described, with nothing in work.

        Raises:
          InputError: When the text is no such ledger, or its numbers do not add up.
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
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"a saved shard ledger cannot be read ({error!r}): {text[:200]}") from error
        ledger._check_sum()
        return ledger

    def _next(self) -> int | None:
        """Returns the place in todo of what is next, its length for a new epoch, None when there is nothing."""
        for place, shard in enumerate(self._todo):
            if self.epochs is None or shard.epoch <= self.epochs:
                return place
        return len(self._todo) if self.epochs is None or self._epoch < self.epochs else None

    def _left(self) -> list[Shard]:
        in_work: Sequence[_InWork] = sorted(
            itertools.chain.from_iterable(self._in_work.values()), key=lambda item: item.turn
        )
        return [item.rest for item in in_work] + self._todo

    def _check_sum(self) -> None:
        left = sum(shard.count for shard in self._todo)
        sound = all(0 <= s.start < s.end <= self.size and 1 <= s.epoch <= self._epoch for s in self._todo)
        if not sound or self._done + left != self._epoch * self.size:
            raise InputError(
                f"a saved shard ledger does not add up: of {self._epoch} epochs of {self.size} records {self._done} "
                f"are done and {left} left. Its checkpoint is damaged; resume from an earlier one."
            )
