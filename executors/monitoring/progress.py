"""Reports training progress from a worker process through a memory-mapped file.

    report_progress(step, total=1000)  # before the first step: 0, or the step of the restored checkpoint
    for batch in batches:
        loss = train_step(batch)
        step += 1
        report_progress(step, examples=len(batch), metrics={"loss": loss})

Keras `fit`, Estimators and the loops of the dialects call it automatically. The parent process passes the name of a
small file, and can read it at any time, even after the worker was killed:

    path = create_progress_file(folder)
    child_process.run(…, environment={VARIABLE: path})
    read(path)  # Progress(step=…, …)

The worker maps the file into memory, so a report only stores a few numbers; details are written as JSON at intervals.
Without a progress file, reporting is a no-op. `display.py` displays the progress; engines of clusters aggregate it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import SupportsFloat, TypedDict

from .. import run_context

VARIABLE = "GENERIC_TRAINER_PROGRESS"
_COUNTS = struct.Struct("=6d")
# Sequence number, odd while the JSON text after it is being written; length of the text.
_DETAILS_HEADER = struct.Struct("=2I")
_SIZE = 4096
_LIMITER_SECONDS = 1.0  # default interval of `RateLimiter`
_METRICS_SECONDS = 0.4  # minimum interval between two reports of metrics


@dataclasses.dataclass(frozen=True)
class _Reader:
    """A function of this process that gets the reports."""

    read: Callable[[int, Mapping[str, SupportsFloat]], None]


class _StopOnNaN:
    """Marker in the run context: a loss that is not finite ends the run."""


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


def report_progress(
    step: int,
    examples: float = 0,
    steps: int | None = None,
    *,
    total: int | None = None,
    metrics: Mapping[str, SupportsFloat] | None = None,
) -> None:
    """Reports this worker's training progress: call it once before the loop and after each step.

    Args:
      step: Number of completed steps; the global step if workers share one. Steps lost by restarts are computed from
        it, so use the step number of the checkpoints.
      examples: Number of examples of this worker in this step.
      steps: Number of steps done by this worker since the last report; by default all.
      total: The planned last step, if known; needs to be passed only once.
      metrics: Numbers or scalar tensors to display. They are converted to numbers only when they are displayed, at
        intervals.

    Raises:
      FloatingPointError: When a loss is NaN or infinite, inside `stop_on_nan(True)`.
    """
    reader = run_context.part(_Reader)
    if reader is not None:
        reader.read(step, metrics or {})
    reporter = _reporter(os.environ.get(VARIABLE))
    if reporter is not None:
        reporter.report_step(step, examples, steps)
        if total is not None:
            reporter.report_details(total=total)
        if metrics is not None and reporter.is_due():
            numbers = {name: float(value) for name, value in metrics.items()}
            reporter.report_details(metrics=numbers)
            if run_context.part(_StopOnNaN):
                require_finite_loss(numbers)


def skip_to(step: int) -> None:
    """Sets the last step to one that an earlier attempt completed; the clock starts with the first report."""
    reporter = _reporter(os.environ.get(VARIABLE))
    if reporter is not None:
        reporter.step = step


def reported_step() -> int:
    """Returns the last step that this process has reported or skipped; 0 before the first one."""
    reporter = _reporter(os.environ.get(VARIABLE))
    return int(reporter.step) if reporter is not None else 0


def reported_examples() -> float:
    """Returns the number of examples that this process has reported."""
    reporter = _reporter(os.environ.get(VARIABLE))
    return reporter.examples if reporter is not None else 0.0


def report_details(**details: object) -> None:
    """Reports details by the names of `Progress.details`; None removes one."""
    reporter = _reporter(os.environ.get(VARIABLE))
    if reporter is not None:
        reporter.report_details(**details)


@contextlib.contextmanager
def save_timed() -> Iterator[None]:
    """Reports the duration of the block, in which training waits for a checkpoint."""
    begin = time.monotonic()
    yield
    report_details(save_seconds=round(time.monotonic() - begin, 3))


def report_checkpoint(step: int) -> None:
    """Reports that the checkpoint of a step is completely written."""
    report_details(saved=int(step), saved_at=time.monotonic())


@contextlib.contextmanager
def collect_metrics() -> Iterator[Mapping[str, SupportsFloat]]:
    """Collects the last value of each metric that is passed to `report_progress`, even without a progress file."""
    kept: dict[str, SupportsFloat] = {}
    with reported_to(lambda _, metrics: kept.update(metrics)):
        yield kept


@contextlib.contextmanager
def reported_to(read: Callable[[int, Mapping[str, SupportsFloat]], None]) -> Iterator[None]:
    """Calls a function with the step and the metrics of each `report_progress` in the block."""
    with run_context.extended(_Reader(read)):
        yield


@contextlib.contextmanager
def stop_on_nan(enabled: bool) -> Iterator[None]:
    """Makes `report_progress` raise FloatingPointError for a NaN or infinite loss in the block, if `enabled`."""
    with run_context.extended(_StopOnNaN()) if enabled else run_context.extended(without=_StopOnNaN):
        yield


def require_finite_loss(metrics: Mapping[str, float]) -> None:
    """Checks that no metric with "loss" in its name is NaN or infinite.

    Raises:
      FloatingPointError: When one is.
    """
    for name, value in metrics.items():
        if "loss" in name and not math.isfinite(value):
            raise FloatingPointError(
                f"stop_on_nan: {name} is {value} after step {reported_step()}. Check for a logarithm of or division by "
                "zero and for NaN in the input, or lower the learning rate."
            )


class RateLimiter:
    """Rate limiter: `is_due` returns True at most once per interval."""

    def __init__(self, seconds: float = _LIMITER_SECONDS) -> None:
        self._seconds, self._last = seconds, 0.0

    def is_due(self) -> bool:
        """Returns whether the interval has passed since the last call that returned True."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


def is_watched() -> bool:
    """Whether this process has a progress file, so that reports are read."""
    return _reporter(os.environ.get(VARIABLE)) is not None


def is_due() -> bool:
    """Whether progress is reported and the minimum interval since the last reported metrics has passed."""
    reporter = _reporter(os.environ.get(VARIABLE))
    return reporter is not None and reporter.is_due()


def create_progress_file(folder: str) -> str:
    """Creates a progress file in a folder; returns its path for the environment variable `VARIABLE`."""
    path = os.path.join(folder, "progress")
    with open(path, "wb") as file:
        file.write(bytes(_SIZE))
    return path


def read(path: str) -> Progress | None:
    """Returns the last progress that a process of this machine reported, or None without any report."""
    with open(path, "rb") as file:
        content = file.read()
    # A concurrent write may mix the numbers of two consecutive steps, which is close enough.
    first, step, steps, examples, began, last = _COUNTS.unpack_from(content)
    details = _details_of(content)
    if not last:
        return Progress(0, 0, 0, 0, -1, 0, details) if details else None
    return Progress(first, step, steps, examples, last - began, max(0.0, time.monotonic() - last), details)


def _details_of(content: bytes) -> Details:
    number, length = _DETAILS_HEADER.unpack_from(content, _COUNTS.size)
    start = _COUNTS.size + _DETAILS_HEADER.size
    if not number or number % 2:
        return {}
    try:
        details: Details = json.loads(content[start : start + length])
    except ValueError:  # a concurrent write
        return {}
    return details


@functools.cache
def _reporter(path: str | None) -> _Reporter | None:
    return _Reporter(path) if path and os.path.exists(path) else None


class _Reporter:
    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SIZE)
        self._first: float | None = None
        self.step = self._steps = self.examples = self._began = self._metrics_reported = 0.0
        self._details: dict[str, object] = {}
        self._number = 0
        self._lock = threading.Lock()  # checkpoints are reported by a background thread

    def report_step(self, step: float, examples: float, steps: float | None) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = self.step = step
            self._began = now
        self._steps += max(0.0, step - self.step) if steps is None else steps
        self.step = step
        self.examples += examples
        _COUNTS.pack_into(self._memory, 0, self._first, step, self._steps, self.examples, self._began, now)

    def is_due(self) -> bool:
        return time.monotonic() - self._metrics_reported >= _METRICS_SECONDS

    def report_details(self, **details: object) -> None:
        with self._lock:
            known = {**self._details, **details}
            known = {name: value for name, value in known.items() if value is not None}
            if known == self._details:
                return
            self._details = known
            if "metrics" in details:
                self._metrics_reported = time.monotonic()
            text = json.dumps(known).encode()
            start = _COUNTS.size + _DETAILS_HEADER.size
            if len(text) > _SIZE - start:
                text = json.dumps({**known, "metrics": {}}).encode()
            _DETAILS_HEADER.pack_into(self._memory, _COUNTS.size, self._number + 1, len(text))
            self._memory[start : start + len(text)] = text
            self._number += 2
            _DETAILS_HEADER.pack_into(self._memory, _COUNTS.size, self._number, len(text))
