"""Reports the progress of a training, from the process that trains.

    report_progress(step, total=1000)  # before the first step: 0, or the step of the restored checkpoint
    for batch in batches:
        loss = train_step(batch)
        step += 1
        report_progress(step, examples=len(batch), metrics={"loss": loss})

Keras `fit`, Estimators and the loops of the dialects call it automatically. The reports go to a file that the calling
process reads, see `progress_reports.py`; without one, reporting is a no-op.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import SupportsFloat

from .. import run_context
from .progress_reports import VARIABLE, ReportWriter


@dataclasses.dataclass(frozen=True)
class _Reader:
    """A function of this process that gets the reports."""

    read: Callable[[int, Mapping[str, SupportsFloat]], None]


class _StopOnNaN:
    """Marker in the run context: a loss that is not finite ends the run."""


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
    if (reporter := _reporter()) is not None:
        reporter.report_step(step, examples, steps)
        if total is not None:
            reporter.report_details(total=total)
        if metrics is not None and reporter.metrics_due.is_due():
            numbers = {name: float(value) for name, value in metrics.items()}
            reporter.report_details(metrics=numbers)
            if run_context.part(_StopOnNaN):
                require_finite_loss(numbers)


def skip_to(step: int) -> None:
    """Sets the last step to one that an earlier attempt completed; the clock starts with the first report."""
    if (reporter := _reporter()) is not None:
        reporter.step = step


def reported_step() -> int:
    """Returns the last step that this process has reported or skipped; 0 before the first one."""
    reporter = _reporter()
    return int(reporter.step) if reporter is not None else 0


def reported_examples() -> float:
    """Returns the number of examples that this process has reported."""
    reporter = _reporter()
    return reporter.examples if reporter is not None else 0.0


def report_details(**details: object) -> None:
    """Reports details by the names of `Progress.details`; None removes one."""
    if (reporter := _reporter()) is not None:
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


def is_watched() -> bool:
    """Whether this process has a progress file, so that reports are read."""
    return _reporter() is not None


def is_due() -> bool:
    """Whether progress is reported, and metrics should be reported now: at most once per interval."""
    reporter = _reporter()
    return reporter is not None and reporter.metrics_due.is_due()


def _reporter() -> ReportWriter | None:
    return _reporter_of(os.environ.get(VARIABLE))


@functools.cache
def _reporter_of(path: str | None) -> ReportWriter | None:
    return ReportWriter(path) if path and os.path.exists(path) else None
