"""Runs a worker in this process: no start-up cost, but its memory and TensorFlow state are not released.

A worker changes state that all threads share, such as `sys.path` and Keras classes, and has its variables in
`os.environ`. Calls from several threads are therefore serialized.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping
from typing import Any

from absl import logging

from ..runtime.process.run_environment import applied_environment

_training_lock = threading.RLock()  # reentrant: a module may train another one


def run(worker: str, request: Mapping[str, object], *, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Calls `execute(request)` of the module named `worker`; blocks while another thread's worker runs.

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
