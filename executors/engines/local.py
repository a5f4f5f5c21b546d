"""The engine of one machine: runs the worker in a subprocess, or in this process."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from absl import logging

from ..runtime.process.run_environment import applied_environment
from . import child_process, fork_server
from .base import Engine, WorkerStart

_training_lock = threading.RLock()  # reentrant: a module may train another one


class LocalEngine(Engine):
    """Runs the worker on this machine."""

    def prepare(self, variables: Mapping[str, str]) -> None:
        """Imports TensorFlow in the background."""
        if self.options.isolate:
            fork_server.prepare(variables)

    def execute(self, start: WorkerStart) -> Mapping[str, Any]:
        """Runs the worker in a subprocess, or with `isolate=False` in this process."""
        if not self.options.isolate:
            start.on_start(os.getpid())
            return run_in_process(start.worker, start.request, environment=start.variables)
        return child_process.run(
            start.worker,
            start.request,
            environment=start.variables,
            timeout=self.options.timeout,
            quiet=start.is_quiet,
            until=self.until,
            what=start.what or self.place.name,
            forked=True,
            on_start=start.on_start,
        )

    @property
    def until(self) -> Callable[[], bool] | None:
        """See `child_process.run`."""
        return None


def run_in_process(
    worker: str, request: Mapping[str, object], *, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Calls `execute(request)` of a module in this process; its memory and TensorFlow state are not released.

    A worker changes state that all threads share, such as `sys.path`, Keras classes and `os.environ`. Calls from
    several threads are therefore serialized.

    Args:
      worker: Dotted name of a module with `execute(request) -> result`.
      request: The argument of `execute`; JSON values.
      environment: Variables to set in `os.environ` for the duration of the call, in addition to those of the run.

    Returns:
      The worker's result.
    """
    if not _training_lock.acquire(blocking=False):
        logging.info("Waiting for another thread's training to end: a process runs one training at a time.")
        _training_lock.acquire()
    try:
        with applied_environment(environment or {}):
            result: dict[str, object] = importlib.import_module(worker).execute(request)
        return result
    finally:
        _training_lock.release()
