"""Records phases, steps and exports of a training in this process, and stops its loops early.

    watch = Watch(source.files, report)
    with watch.watching():
        run_fn(fn_args)
    watch.steps, watch.step_seconds, watch.saves

Loops of Keras and Estimators are recorded and stopped by callbacks and hooks (`loops.py`).
The steps of custom loops are those that they report with `report_progress`.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import SupportsFloat, TypedDict

from ..compat.tensorflow import exports_reported
from ..monitoring import progress
from ..runtime.observers import observed_by
from ..runtime.rate_limiter import RateLimiter
from .loops import STEPS, Loops
from .places import calling_place
from .verdicts import Place

MODEL, TRAINING, EVALUATION, EXPORT = PHASES = ("model", "training", "evaluation", "export")
_SUFFICIENT_SECONDS = 5.0  # of measured steps, after which two steps are enough
_REPORT_SECONDS = 0.5  # minimum interval of progress reports


class Progress(TypedDict, total=False):
    """Progress of a training, as JSON values; empty before the first report.

    Attributes:
      phase: One of PHASES.
      steps: Completed training steps.
      losses: The last loss; [] if none was recorded.
      model: Name and size of the model.
    """

    phase: str
    steps: int
    losses: list[float]
    model: str


class Watch:
    """Measurements of one training.

    Args:
      files: The module's source files.
      report: Called with the progress, at most every 0.5 s and at each new phase.

    Attributes:
      phase: One of PHASES.
      model: Name and size of the model; "" if unknown.
      steps: Completed training steps.
      first_seconds: Seconds from the start of the loop to the end of the first step.
      step_seconds: Seconds of each later step.
      losses: Losses of the steps whose loss is known.
      evaluations: Completed evaluation steps.
      evaluates_forever: Whether a `fit` has infinite validation data and no `validation_steps`.
      saves: (folder, place in the user's files or None) of each SavedModel.
      planned_steps: Number of steps of the unshortened loop, or None.
      epochs: Number of epochs of the unshortened loop, if it has no number of steps; else None.
      batch_size: Examples in a step; 0 if unknown.
      logged_error: The first error that the module logged; "" for none.
      files: The module's source files.
    """

    def __init__(self, files: Sequence[str], report: Callable[[Progress], None]) -> None:
        self.phase = MODEL
        self.model = self.logged_error = ""
        self.evaluates_forever = False
        self.steps = self.evaluations = 0
        self.first_seconds = 0.0
        self.step_seconds: list[float] = []
        self.losses: list[float] = []
        self.saves: list[tuple[str, Place | None]] = []
        self.planned_steps: int | None = None
        self.epochs: int | None = None
        self.batch_size = 0.0
        self.in_loop = False  # within a loop of Keras or an Estimator, whose callback or hook reports the steps
        self.files = files
        self._report = report
        self._limiter = RateLimiter(_REPORT_SECONDS)
        self._last: float | None = None
        self._reported: int | None = None  # the last step that a custom loop has reported

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Observes exports, reported steps, Keras and Estimators for the duration of the block."""
        self._last = time.perf_counter()
        with (
            exports_reported(self.record_save),
            progress.reported_to(self._record_reported_step),
            observed_by(Loops(self)),
        ):
            yield

    def enter(self, phase: str) -> None:
        """Sets the current phase."""
        if phase != self.phase:
            self.phase = phase
            if phase == TRAINING and self._last is not None:
                self._last = time.perf_counter()  # excludes an evaluation or export between two steps
            self._send_progress()

    @contextlib.contextmanager
    def loop(self) -> Iterator[None]:
        """Marks the block as a training loop that reports its steps with `step`."""
        before, self.in_loop = self.in_loop, True
        self.enter(TRAINING)
        self._last = time.perf_counter()
        try:
            yield
        finally:
            self.in_loop = before

    def step(self, loss: float | None = None, steps: int = 1) -> None:
        """Records a completed training step, or several steps of one call.

        Args:
          loss: The loss, or None if unknown.
          steps: Number of steps, more than 1 with `steps_per_execution`.

        Raises:
          FloatingPointError: If the loss is NaN or infinite.
        """
        now = time.perf_counter()
        seconds = now - (self._last or now)
        if not self.steps:
            self.first_seconds = seconds
        else:
            self.step_seconds += [seconds / steps] * steps
        self.steps += steps
        self._last = now
        if self._limiter.is_due():
            self._send_progress()
        if loss is not None:
            self.losses.append(loss)
            if not math.isfinite(loss):
                raise FloatingPointError(f"The loss is {loss} at step {self.steps}.")

    def has_enough_steps(self) -> bool:
        """Returns whether there are enough steps to estimate the time of a step."""
        return bool(self.step_seconds) and (self.steps >= STEPS or sum(self.step_seconds) > _SUFFICIENT_SECONDS)

    def steady_seconds(self) -> float | None:
        """Returns the mean seconds of a step, without traced ones; None with fewer than two steps."""
        later = self.step_seconds[1:] if len(self.step_seconds) > 2 else self.step_seconds
        # The mean rather than the median: with several steps in one call, the first may account for all of the time.
        return max(statistics.fmean(later), 0.0) if later else None

    def _send_progress(self) -> None:
        self._report({"phase": self.phase, "steps": self.steps, "losses": self.losses[-1:], "model": self.model})

    def _record_reported_step(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        """Records a report of `report_progress` from a custom loop, whose first one may precede its first step."""
        if self.in_loop:
            return
        is_first, last = self._reported is None, self._last
        self.enter(TRAINING)
        if is_first:
            self._last = last  # the time since the block began belongs to the first step
        step = int(step)  # modules may pass a NumPy number or a variable
        steps, self._reported = step - (self._reported or 0), step
        if steps > 0:
            losses = [float(value) for name, value in metrics.items() if "loss" in name]
            self.step(losses[0] if losses else None, steps)
        else:
            self._last = time.perf_counter()

    def record_save(self, folder: str) -> None:
        """Records a SavedModel that is being written, with the user's line that saves it."""
        self.saves.append((folder, calling_place(inspect.currentframe(), self.files)))
        if not self.in_loop:
            self.enter(EXPORT)
