"""The file through which a worker process reports its progress: a few numbers, and a line of JSON.

The calling process passes the file's path to the worker, and can read it at any time, even after the worker was killed:

    path = create_progress_file(folder)
    child_process.run(…, environment={VARIABLE: path})
    read(path)  # Progress(step=…, …)

The numbers are memory-mapped, so that a step takes no longer, and the last step of a killed worker is known; to replace
a JSON file took 0.2 to 2 ms. `progress.py` makes the reports, `display.py` displays them, and engines of clusters
aggregate them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import mmap
import os
import struct
import threading
import time
from typing import TypedDict

VARIABLE = "GENERIC_TRAINER_PROGRESS"
_COUNTS = struct.Struct("=6d")
_METRICS_SECONDS = 0.4  # minimum interval between two reports of metrics


class Details(TypedDict, total=False):
    """Details of a worker's progress; see `Progress.details`."""

    total: int
    epoch: int
    epochs: int
    metrics: dict[str, float]
    doing: str
    saved: int
    saved_at: float
    save_seconds: float
    writing: int
    workers: int
    restarts: int
    replaced: int
    replaces_workers: bool


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of one worker.

    Attributes:
      first: The step at which its loop began.
      step: The last completed step.
      steps: Steps that this worker has done since its loop began; with parameter servers, other workers do some steps.
      examples: Examples that this worker has trained on since its loop began; 0 if the loop does not report them.
      seconds: From the beginning of the loop to the last completed step; -1 before the loop has begun.
      age: Seconds since the last completed step.
      details: Further details, each optional. `total`: the planned last step; `epoch` and `epochs`; `metrics`: {name:
        value}; `doing`: the current activity other than training steps; `saved`: the step of the last checkpoint, and
        `saved_at`, its `time.monotonic()`; `save_seconds`: how long the last checkpoint blocked training; `writing`:
        the step of the checkpoint that is being written in the background; `replaces_workers`: whether the other
        workers can continue while one of them is started again; for a whole cluster also `workers`, `restarts` and
        `replaced`, the number of workers that were started again.
    """

    first: float
    step: float
    steps: float
    examples: float
    seconds: float
    age: float
    details: Details = dataclasses.field(default_factory=Details)


def create_progress_file(folder: str) -> str:
    """Creates a progress file in a folder; returns its path for the environment variable `VARIABLE`."""
    path = os.path.join(folder, "progress")
    with open(path, "wb") as file:
        file.write(bytes(_COUNTS.size))
    return path


def read(path: str) -> Progress | None:
    """Returns the last progress that a process of this machine reported, or None without any report."""
    with open(path, "rb", buffering=0) as file:
        content = file.read()  # at once; a concurrent write may mix the numbers of two steps, which is close enough
    first, step, steps, examples, began, last = _COUNTS.unpack_from(content)
    line = content[_COUNTS.size :].partition(b"\n")[0]
    details: Details = {}
    with contextlib.suppress(ValueError):  # none, or a concurrent write
        details = json.loads(line)
    if not last:
        return Progress(0, 0, 0, 0, -1, 0, details) if details else None
    return Progress(first, step, steps, examples, last - began, max(0.0, time.monotonic() - last), details)


class ReportWriter:
    """Writes the reports of this process.

    Args:
      path: The file.

    Attributes:
      step: The last reported step.
      examples: The number of reported examples.
      metrics_due: Limits how often metrics are reported.
    """

    def __init__(self, path: str) -> None:
        from ..runtime.rate_limiter import RateLimiter  # the process that only reads does not load it

        self._file = os.open(path, os.O_RDWR)
        self._counts = mmap.mmap(self._file, _COUNTS.size)
        self._first: float | None = None
        self.step = self._steps = self.examples = self._began = 0.0
        self.metrics_due = RateLimiter(_METRICS_SECONDS)
        self._details: dict[str, object] = {}
        self._lock = threading.Lock()  # checkpoints are reported by a background thread

    def report_step(self, step: float, examples: float, steps: float | None) -> None:
        """Writes a step; see `progress.report_progress`."""
        now = time.monotonic()
        if self._first is None:
            self._first = self.step = step
            self._began = now
        self._steps += max(0.0, step - self.step) if steps is None else steps
        self.step = step
        self.examples += examples
        _COUNTS.pack_into(self._counts, 0, self._first, step, self._steps, self.examples, self._began, now)

    def report_details(self, **details: object) -> None:
        """Writes details by the names of `Progress.details`; None removes one."""
        with self._lock:
            known = {name: value for name, value in {**self._details, **details}.items() if value is not None}
            if known == self._details:
                return
            self._details = known
            with contextlib.suppress(OSError):  # a full disk must not end the training
                os.pwrite(self._file, json.dumps(known).encode() + b"\n", _COUNTS.size)
