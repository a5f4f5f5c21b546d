"""Runs a worker in this process: no start-up cost, but memory and TensorFlow's state stay behind."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any


def run(worker: str, request: dict[str, Any], *, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Calls `execute(request)` of the module named `worker`.

    Args:
      worker: Dotted name of a module with `execute(request) -> result`.
      request: What to hand over; JSON values.
      environment: Variables to set before the worker is imported. They stay set.

    Returns:
      The worker's result.
    """
    os.environ.update(environment or {})
    result: dict[str, Any] = importlib.import_module(worker).execute(request)
    return result
