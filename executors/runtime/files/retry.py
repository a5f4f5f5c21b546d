"""Calls of a file system that fail for a moment are made again, and those that take long are told of.

Network and FUSE mounts, and object stores, fail now and then, and a moment later they don't. Errors that cannot get
better, such as a disk that is full, end at once; see `storage_errors.PASSING`.

    text = retried(lambda: read(path), "Reading", path)
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

from absl import logging

from . import storage_errors

Result = TypeVar("Result")

TRIES = 6  # with the pauses below: about 13 s, in which a mount's server restarts, and no person gives up
_FIRST_PAUSE, _GROWTH = 0.2, 2.5  # seconds, and how much longer each pause is than the one before it
_LONG = 5.0  # seconds; each time that is told of is three times as long as the one before it


def retried(
    call: Callable[[], Result],
    doing: str,
    path: str,
    *,
    done: Callable[[], bool] | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> Result:
    """Calls until it goes well, at most `TRIES` times.

    Args:
      call: What to do. It may be done a second time, though the first one said that it had failed.
      doing: What that is, for people: "Writing".
      path: On what.
      done: For calls that return nothing: asked when something is missing at a later try, whether that is because an
        earlier one did it, after all.
      sleep: Takes the seconds to wait.

    Returns:
      What `call` returns.

    Raises:
      StorageError: When it still fails, or cannot get better.
      Exception: What else `call` raises.
    """
    pause = _FIRST_PAUSE
    for number in range(1, TRIES + 1):
        try:
            with watched(doing, path):
                return call()
        except Exception as error:
            if number > 1 and done is not None and _is_missing(error) and done():
                return cast(Result, None)
            if number == TRIES or not storage_errors.is_passing(error):
                explained = storage_errors.explained(error, doing, path, number)
                explained = explained or storage_errors.of_remote(error, doing, path)
                if explained is None or explained is error:
                    raise
                raise explained from error
            reason = os.strerror(storage_errors.number_of(error) or 0)
            logging.warning("%s %s failed: %s. Trying again (%d of %d).", doing, path, reason, number + 1, TRIES)
        sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 (workers that fail together do not try together)
        pause *= _GROWTH
    raise AssertionError("the last try returns or raises")


def _is_missing(error: Exception) -> bool:
    # TFX's NotFoundError carries no number.
    return isinstance(error, FileNotFoundError) or type(error).__name__ == "NotFoundError"


class _Call:
    """A call that is under way."""

    def __init__(self, doing: str, path: str) -> None:
        self.doing, self.path = doing, path
        self.begun = time.monotonic()
        self.told_at = _LONG  # seconds after that
        self.was_told = False


class _Watcher:
    """Logs calls that take long. Its thread lives only while there are calls, so that nothing wakes up for none."""

    def __init__(self) -> None:
        self._calls: set[_Call] = set()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def add(self, call: _Call) -> None:
        with self._lock:
            self._calls.add(call)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="file watch", daemon=True)
                self._thread.start()

    def discard(self, call: _Call) -> None:
        with self._lock:
            self._calls.discard(call)

    def _watch(self) -> None:
        while True:
            time.sleep(1)
            with self._lock:
                if not self._calls:
                    self._thread = None
                    return
                calls = list(self._calls)
            for call in calls:
                took = time.monotonic() - call.begun
                if took >= call.told_at:
                    call.told_at, call.was_told = 3 * took, True
                    logging.warning("%s %s has taken %.0f s so far; waiting for it.", call.doing, call.path, took)

    def _forget(self) -> None:
        """A fork of this process has none of its threads, of which one may hold the lock."""
        self._thread, self._lock = None, threading.Lock()
        self._calls.clear()


_WATCHER = _Watcher()


@contextlib.contextmanager
def watched(doing: str, path: str) -> Iterator[None]:
    """Logs that a block takes long, and what it waits for.

    Args:
      doing: For people: "Writing".
      path: What.
    """
    call = _Call(doing, path)
    _WATCHER.add(call)
    try:
        yield
    finally:
        _WATCHER.discard(call)
        if call.was_told:
            logging.info("%s %s took %.0f s.", doing, path, time.monotonic() - call.begun)
