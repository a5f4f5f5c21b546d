"""Retries file system calls after transient failures, and logs slow calls.

Network and FUSE mounts and object stores fail transiently. Permanent errors, such as a full disk, are raised at once;
see `storage_errors.TRANSIENT`.

    text = retry_call(lambda: read(path), "Reading", path)
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

from absl import logging

from . import storage_errors

Result = TypeVar("Result")

TRIES = 6  # about 13 s with the pauses below: enough for a mount's server to restart, and short enough for users
# TensorFlow tries each request on gs:// ten times itself, with pauses of 1, 2, 4 … 32 seconds, and without a word.
_TRIES_BY_TENSORFLOW = 2
_TENSORFLOWS_OUTLOOK = "TensorFlow repeats a failed request for up to 200 s before it gives up"
_FIRST_PAUSE, _GROWTH = 0.2, 2.5  # seconds, and factor from one pause to the next
_SLOW_SECONDS = 5.0  # seconds until a call is logged as slow; it is logged again after three times that, and so on


def retry_call(
    call: Callable[[], Result],
    operation: str,
    path: str,
    *,
    done: Callable[[], bool] | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> Result:
    """Calls a function until it succeeds, at most `TRIES` times, with exponential backoff and jitter; on gs:// twice.

    Args:
      call: The function. It may be called again although an earlier attempt had an effect before it failed.
      operation: Name of the operation in messages: "Writing".
      path: The path in messages.
      done: For calls that return nothing: called when a retry fails because something is missing; returns whether an
        earlier attempt had succeeded.
      sleep: Waits for a number of seconds.

    Returns:
      The result of `call`.

    Raises:
      StorageError: When the last attempt fails, or the error is permanent.
      Exception: Any other exception of `call`.
    """
    pause, tries = _FIRST_PAUSE, _TRIES_BY_TENSORFLOW if _is_tried_by_tensorflow(path) else TRIES
    for number in range(1, tries + 1):
        try:
            with log_if_slow(operation, path):
                return call()
        except Exception as error:
            if number > 1 and done is not None and _is_missing(error) and done():
                return cast(Result, None)
            if number == tries or not storage_errors.is_transient(error):
                explained = storage_errors.explain(error, operation, path, number)
                explained = explained or storage_errors.explain_remote(error, operation, path)
                if explained is None or explained is error:
                    raise
                raise explained from error
            reason = os.strerror(storage_errors.errno_of(error) or 0)
            logging.warning("%s %s failed: %s. Retrying (%d of %d).", operation, path, reason, number + 1, tries)
        sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 (jitter: workers that fail together do not retry together)
        pause *= _GROWTH
    raise AssertionError("the last try returns or raises")


def _is_tried_by_tensorflow(path: str) -> bool:
    return path.startswith("gs://")


def _is_missing(error: Exception) -> bool:
    # TFX's NotFoundError has no errno.
    return isinstance(error, FileNotFoundError) or type(error).__name__ == "NotFoundError"


@dataclasses.dataclass(eq=False)
class _Call:
    """A call in progress, and after how many seconds it is logged next."""

    operation: str
    path: str
    begun: float = dataclasses.field(default_factory=time.monotonic)
    logged_at: float = _SLOW_SECONDS


class _Watcher:
    """Logs slow calls. Its thread only runs while there are calls, so that idle processes have no wake-ups."""

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
                if (took := time.monotonic() - call.begun) >= call.logged_at:
                    call.logged_at = 3 * took
                    outlook = _TENSORFLOWS_OUTLOOK if _is_tried_by_tensorflow(call.path) else "still waiting"
                    logging.warning("%s %s has taken %.0f s so far; %s.", call.operation, call.path, took, outlook)

    def _forget(self) -> None:
        """Resets the state in a fork, which has no threads of this process; one may have held the lock."""
        self._thread, self._lock = None, threading.Lock()
        self._calls.clear()


_WATCHER = _Watcher()


@contextlib.contextmanager
def log_if_slow(operation: str, path: str) -> Iterator[None]:
    """Logs if the block takes long.

    Args:
      operation: Name of the operation in messages: "Writing".
      path: The path in messages.
    """
    call = _Call(operation, path)
    _WATCHER.add(call)
    try:
        yield
    finally:
        _WATCHER.discard(call)
        if call.logged_at > _SLOW_SECONDS:
            logging.info("%s %s took %.0f s.", operation, path, time.monotonic() - call.begun)
