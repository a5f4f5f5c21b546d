"""Runs a worker in this process: no start-up cost, but memory and TensorFlow's state stay behind.

A worker changes what all threads of the process share, such as `os.environ`, `sys.path` and Keras' classes. Calls from
several threads therefore run one after the other.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Mapping
from typing import Any

from absl import logging

_one_at_a_time = threading.RLock()  # a module may train another one; threads share sys.path, os.environ and Keras


def run(worker: str, request: Mapping[str, object], *, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Calls `execute(request)` of the module named `worker`; waits while another thread's worker runs.

    Args:
      worker: Dotted name of a module with `execute(request) -> result`.
      request: What to hand over; JSON values.
      environment: Variables to set before the worker is imported. They stay set.

    Returns:
      The worker's result.
    """
    if not _one_at_a_time.acquire(blocking=False):
        logging.info("Waiting for another thread's training to end: in one process they run one after the other.")
        _one_at_a_time.acquire()
    try:
        os.environ.update(environment or {})
        result: dict[str, object] = importlib.import_module(worker).execute(request)
        return result
    finally:
        _one_at_a_time.release()
