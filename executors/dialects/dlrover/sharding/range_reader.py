"""Reads rows of a Python reader in blocks: index ranges assigned by a ledger, or sequentially from an iterator.

A range reader has `count_data()`, which sets `_data_nums`, and `read_data_by_index_range(start, end)`, which returns or
yields `end - start` rows, each a delimited str or bytes. A plain reader has `iterator()`. These are the interfaces of
DLRover's ElasticReader and Reader; readers need not inherit from them.

Usage:

    ledger = ShardLedger(count_rows(reader), shard_size=1024, epochs=2)
    errors = ReaderErrors()
    dataset = batches(lambda: read_ranges(reader, ledger), errors, batch_size=64)     # string vectors
    with errors.reraised():
        ...                                 # ledger.trained(n) after each step
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import contextvars
import functools
import itertools
import operator
import queue
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, Generic, TypeVar, overload

import numpy as np
import tensorflow as tf

from ....errors import InputError
from ....inputs.bad_records import TooManyBadRecordsError
from ....inputs.readers.reader_errors import ReaderErrors
from ....runtime.logs.exceptions import add_note
from .shard_ledger import Ledger, Shard, ShardError

Rows = TypeVar("Rows")

THREADS = 8  # for I/O-bound readers; more threads would mainly hold more shards in memory
_PATIENCE = 0.001  # seconds to wait for the next shard before more threads are started
_MAX_BLOCK_ROWS = 1024

_reader_locks: dict[int, threading.Lock] = {}


class RowsError(InputError):
    """A reader returned a wrong number of rows, or rows that are neither str nor bytes."""


def count_rows(reader: object) -> int:
    """Returns the number of rows of a reader, which its `count_data()` assigns to `_data_nums`.

    Raises:
      InputError: If the method is missing, `_data_nums` is not a non-negative integer, or there are no rows.
    """
    name = type(reader).__name__
    returned = _method(reader, "count_data")()
    count = row_count_of(reader)
    if count is None:
        also = "" if returned is None else f" It returned {returned!r}; assign that instead."
        raise InputError(f"{name}.count_data() did not set self._data_nums, the number of rows.{also}")
    try:
        number = -1 if isinstance(count, bool) else operator.index(count)
    except TypeError:
        number = -1
    if number < 0:
        raise InputError(
            f"{name}.count_data() set self._data_nums to {count!r}, which is {_describe_type(count)}; it must be the "
            "number of rows, a whole number."
        )
    if number == 0:
        raise InputError(f"{name} has no rows: its count_data() set self._data_nums to 0.")
    return number


def row_count_of(reader: object) -> Any:
    """Returns the number of rows that a reader's `count_data()` has set, or None."""
    return getattr(reader, "_data_nums", None)


def read_range(reader: object, start: int, end: int, is_stopped: Callable[[], bool] = lambda: False) -> np.ndarray:
    """Returns the rows [start, end) as a vector of bytes.

    Args:
      reader: Object with `read_data_by_index_range(start, end)`, or with `read_range`, which then takes precedence.
      start: Number of the first row, from 0.
      end: Number of the row to stop before.
      is_stopped: Called between rows if the reader yields them; True stops reading early.

    Raises:
      RowsError: If there are more or fewer rows, or a row is neither str nor bytes. Exceptions of the reader itself are
        not wrapped.
    """
    call = f"{type(reader).__name__}.read_data_by_index_range({start}, {end})"
    # The shim of DLRover's ElasticReader defines `read_range`: it uses `iterator` instead if a subclass overrides that.
    method = getattr(reader, "read_range", None) or _method(reader, "read_data_by_index_range")
    returned = method(start, end)
    rows = _take_rows(_iterable(returned, call), end - start + 1, is_stopped)
    if len(rows) != end - start:
        more = "more than " if len(rows) > end - start and not isinstance(returned, Sized) else ""
        said = f"{more}{end - start}" if more else str(len(rows))
        raise RowsError(
            f"{call} returned {said} rows; it must return {end - start}, one for each number from {start} to "
            f"{end - 1}. Either count_data() counts other rows, or some rows are skipped."
        )
    return _block(rows, start, call)


@overload
def read_ranges(reader: object, ledger: Ledger, threads: int = THREADS) -> Iterator[np.ndarray]: ...


@overload
def read_ranges(
    reader: object, ledger: Ledger, threads: int = THREADS, *, read: Callable[..., Rows]
) -> Iterator[Rows]: ...


def read_ranges(
    reader: object, ledger: Ledger, threads: int = THREADS, *, read: Callable[..., object] = read_range
) -> Iterator[object]:
    """Yields the rows of the ledger's shards as vectors of bytes, one per shard, in the order of assignment.

    A background thread reads ahead of the consumer. If the reader's attribute `thread_safe` is True, more threads are
    started when the consumer has to wait. The order of the rows stays the same.

    When the iterator is closed, untrained shards stay assigned.

    Args:
      reader: Object with `read_data_by_index_range(start, end)`.
      ledger: Assigns the shards; the caller reports trained records to it.
      threads: Maximum number of threads, and of shards in memory besides the last one yielded.
      read: Function that reads a shard, with the arguments of `read_range`; its results are yielded.

    Raises:
      RowsError: See `read_range`; not retried.
      Exception: The reader's exception at the third failure of the same shard, with a note that names the rows.
    """
    reading = _Reading(reader, ledger, threads, read)
    try:
        yield from reading.blocks()
    finally:
        reading.stop()


def iterate_rows(reader: Any, skip: int = 0, most: int = _MAX_BLOCK_ROWS) -> Iterator[np.ndarray]:
    """Yields the rows of a plain reader as vectors of 1, 2, 4, … rows: low latency first, then low overhead per row.

    Args:
      reader: Object with `iterator()`, or a function that returns an iterator; it may be infinite or empty.
      skip: Number of rows to skip at the start, to resume after them.
      most: Maximum number of rows in a vector.

    Raises:
      InputError: If a row is neither str nor bytes, or the reader has no `iterator()`. Exceptions of the reader itself
        are not wrapped.
    """
    is_reader = hasattr(reader, "iterator") or not callable(reader)
    call = f"{type(reader).__name__}.iterator()" if is_reader else f"{getattr(reader, '__qualname__', reader)}()"
    source = iter(_iterable((_method(reader, "iterator") if is_reader else reader)(), call))
    rows = itertools.islice(source, skip, None)
    first, size = skip, 1
    try:
        while some := list(itertools.islice(rows, size)):
            yield _block(some, first, call)
            first, size = first + len(some), min(2 * size, most)
    finally:
        _close(source)


def batches(make_blocks: Callable[[], Iterator[np.ndarray]], errors: ReaderErrors, batch_size: int) -> tf.data.Dataset:
    """Returns a dataset of string vectors of `batch_size` rows; the last one may be shorter.

    Larger blocks are faster, as each block is one step in Python. With a batch size of 20 on two cores, shards of 40
    rows give 85,000 rows per second, shards of 1024 rows give 160,000, and batching single rows gives 5,000.

    Args:
      make_blocks: Called for each iteration over the dataset; returns an iterator such as that of `read_ranges`.
      errors: Keeps the exception that the iterator raises, to re-raise it.
      batch_size: Number of rows in a batch.
    """
    return errors.blocks(make_blocks, tf.TensorSpec([None], tf.string)).rebatch(batch_size)


class _Reading(Generic[Rows]):
    """Pool of threads that reads shards of a ledger ahead; see `read_ranges`."""

    def __init__(self, reader: object, ledger: Ledger, threads: int, read_rows: Callable[..., Rows]) -> None:
        self._reader, self._ledger, self._most_threads = reader, ledger, threads
        self._read_rows = read_rows
        self._waiting: collections.deque[tuple[Shard, concurrent.futures.Future[Rows]]] = collections.deque()
        self._jobs: queue.SimpleQueue[tuple[Shard, concurrent.futures.Future[Rows]] | None] = queue.SimpleQueue()
        self._threads = 0
        self._is_stopped = False
        self._is_parallel = getattr(reader, "thread_safe", None) is True
        self._alone = _lock_of(reader)

    def blocks(self) -> Iterator[Rows]:
        """Yields the rows, shard by shard."""
        self._start(1)
        self._take(1)
        while self._waiting:
            future = self._waiting[0][1]
            if self._is_parallel and not concurrent.futures.wait([future], _PATIENCE).done:
                # The consumer is waiting. If it were not, more threads would only compete for the cores.
                self._start(self._most_threads)
            try:
                block = future.result()
            except (RowsError, TooManyBadRecordsError):
                raise
            except Exception as error:
                if not self._can_retry(error):
                    raise
                continue
            del self._waiting[0], future
            self._take(self._most_threads)
            yield block
            del block

    def stop(self) -> None:
        """Stops the threads, each at the next row that it reads."""
        self._is_stopped = True
        for _ in range(self._threads):
            self._jobs.put(None)

    def _start(self, threads: int) -> None:
        for _ in range(threads - self._threads):
            run = functools.partial(contextvars.copy_context().run, self._run)
            threading.Thread(target=run, name="range reader", daemon=True).start()
        self._threads = max(threads, self._threads)

    def _take(self, most: int, read_already: Mapping[Shard, concurrent.futures.Future[Rows]] | None = None) -> None:
        """Takes shards until `most` are waiting; queues those for reading that are not in `read_already`."""
        while len(self._waiting) < most and (shard := self._ledger.take()) is not None:
            future = (read_already or {}).get(shard)
            if future is None:
                future = concurrent.futures.Future()
                self._jobs.put((shard, future))
            self._waiting.append((shard, future))

    def _can_retry(self, error: Exception) -> bool:
        """Retries the first waiting shard: returns all waiting shards to the ledger and takes them again, in order.

        Returns:
          Whether to retry; False if the shard has failed too often.
        """
        (shard, _), *later = self._waiting
        self._ledger.put_back([other for other, _ in later])
        try:
            self._ledger.failed(shard, error)
        except ShardError as final:
            add_note(error, f"rows {shard} of {type(self._reader).__name__} failed {final.tries} times")
            return False
        self._waiting.clear()
        self._take(len(later) + 1, dict(later))
        return True

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None and not self._is_stopped:
            shard, future = job
            try:
                future.set_result(self._read(shard))
            except BaseException as error:
                future.set_exception(error)
            del job, future  # else the rows would stay referenced while this thread waits for the next job

    def _read(self, shard: Shard) -> Rows:
        def rows() -> Rows:
            return self._read_rows(self._reader, shard.start, shard.end, lambda: self._is_stopped)

        if self._is_parallel:
            return rows()
        with self._alone:
            return rows()


def _lock_of(reader: object) -> threading.Lock:
    """Returns the reader's lock: the thread of an earlier iterator may still be reading when another one starts."""
    key = id(reader)
    if key not in _reader_locks:
        with contextlib.suppress(TypeError):  # raised for readers that do not support weak references
            weakref.finalize(reader, _reader_locks.pop, key, None).atexit = False
    return _reader_locks.setdefault(key, threading.Lock())


def _method(reader: object, name: str) -> Callable[..., object]:
    method = getattr(reader, name, None)
    if not callable(method):
        raise InputError(
            f"the reader {type(reader).__name__} has no {name}(). A reader by ranges has count_data() and "
            "read_data_by_index_range(start, end); a sequential reader has iterator()."
        )
    callable_method: Callable[..., object] = method
    return callable_method


def _iterable(rows: object, call: str) -> Iterable[object]:
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        raise RowsError(f"{call} returned {_describe_type(rows)}; return a list of rows, or yield them.")
    return rows


def _take_rows(rows: Iterable[object], most: int, is_stopped: Callable[[], bool]) -> list[object]:
    """Returns all rows of a sized container, or the first `most` rows of an iterator."""
    if isinstance(rows, Sized):
        return list(rows)
    listed: list[object] = []
    for row in rows:
        listed.append(row)
        if len(listed) == most or is_stopped():
            _close(rows)
            break
    return listed


def _close(rows: object) -> None:
    if callable(close := getattr(rows, "close", None)):
        close()


def _block(rows: Iterable[object], first: int, call: str) -> np.ndarray:
    """Encodes the rows as a vector of bytes; `first` is the number of the first row, for messages."""
    encoded = [row.encode("utf-8", "surrogateescape") if isinstance(row, str) else row for row in rows]
    for number, row in enumerate(encoded, first):
        if not isinstance(row, bytes):
            raise RowsError(
                f"{call}: row {number} is {_describe_type(row)}: {repr(row)[:200]}. Each row must be one str or bytes, "
                "with its fields separated by the delimiter."
            )
    block: np.ndarray = np.array(encoded, object)
    return block


def _describe_type(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
