"""Records phases, steps and exports of a training in this process, and stops its loops early.

    watch = Watch(source.files, tell)
    with watch.watching():
        run_fn(fn_args)
    watch.steps, watch.step_seconds, watch.saves

Loops of Keras and Estimators are recorded and stopped by callbacks and hooks (`keras_watch.py`, `estimator_watch.py`).
In custom loops, a training step is a call of a `tf.function` that opens a GradientTape when traced, or a GradientTape
opened outside any `tf.function`.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypedDict, TypeVar

from ..compat.tensorflow import saved_model_writer
from ..evaluation import evidence
from ..evaluation.evidence import Observer
from ..keras.interception import observed_by, replaced
from . import estimator_watch, keras_watch
from .places import calling_place
from .verdicts import Place

if TYPE_CHECKING:
    import os

    import tensorflow as tf

P = ParamSpec("P")
R = TypeVar("R")

MODEL, TRAINING, EVALUATION, EXPORT = PHASES = ("model", "training", "evaluation", "export")
STEPS = 8  # the first is traced, the second may be retraced; the others measure the time of a step
_ENOUGH_SECONDS = 5.0  # of measured steps, after which two steps are enough
_TELL_SECONDS = 0.5  # minimum interval of progress reports
_LABEL_BATCHES = 4  # read for the labels' values


class Seen(TypedDict, total=False):
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
      tell: Called with the progress, at most every 0.5 s and at each new phase.

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
      batch_size: Examples in a step, or None.
      logged_error: The first error that the module logged; "" for none.
      files: The module's source files.
      fits: Observer of losses and labels in Keras fits; None before `watching`.
      most_steps: Number of training steps after which a loop is stopped.
    """

    most_steps = STEPS

    def __init__(self, files: Sequence[str], tell: Callable[[Seen], None]) -> None:
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
        self.batch_size: int | None = None
        self.in_loop = False  # within a loop of Keras or an Estimator, whose callback or hook reports the steps
        self.files = files
        self.fits: Observer | None = None
        self._tell = tell
        self._told = 0.0
        self._last: float | None = None
        self._calling: list[tf.types.experimental.GenericFunction] = []
        self._trainers: set[int] = set()
        self._tape_began: float | None = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Patches TensorFlow, Keras and Estimators for the duration of the block to record the training."""
        import tensorflow as tf

        with contextlib.ExitStack() as stack:
            stack.enter_context(replaced(type(tf.function(lambda: None)), "__call__", self._called))
            stack.enter_context(replaced(tf.GradientTape, "__enter__", self._taped))
            stack.enter_context(replaced(*saved_model_writer(), self._saved))
            stack.enter_context(observed_by(keras_watch.KerasWatch(self)))
            self.fits = stack.enter_context(evidence.observed(self.files, _LABEL_BATCHES))
            stack.enter_context(estimator_watch.watching(self))
            yield

    def enter(self, phase: str) -> None:
        """Sets the current phase."""
        if phase != self.phase:
            self.phase = phase
            if phase == TRAINING and self._last is not None:
                self._last = time.perf_counter()  # excludes an evaluation or export between two steps
            self._say(now=True)

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
        self._count(seconds, now, steps)
        if loss is not None:
            self.losses.append(loss)
            if not math.isfinite(loss):
                raise FloatingPointError(f"The loss is {loss} at step {self.steps}.")

    def has_enough(self) -> bool:
        """Returns whether there are enough steps to estimate the time of a step."""
        return bool(self.step_seconds) and (self.steps >= STEPS or sum(self.step_seconds) > _ENOUGH_SECONDS)

    def steady_seconds(self) -> float | None:
        """Returns the mean seconds of a step, without traced ones; None with fewer than two steps."""
        later = self.step_seconds[1:] if len(self.step_seconds) > 2 else self.step_seconds
        # The mean rather than the median: with several steps in one call, the first may account for all of the time.
        return max(statistics.fmean(later), 0.0) if later else None

    def seen(self) -> Seen:
        """Returns the progress, for the parent process."""
        return {"phase": self.phase, "steps": self.steps, "losses": self.losses[-1:], "model": self.model}

    def _count(self, seconds: float, now: float, steps: int = 1) -> None:
        if not self.steps:
            self.first_seconds = seconds
        else:
            self.step_seconds += [seconds / steps] * steps
        self.steps += steps
        self._last = now
        self._say()

    def _say(self, now: bool = False) -> None:
        if now or time.monotonic() - self._told > _TELL_SECONDS:
            self._told = time.monotonic()
            self._tell(self.seen())

    def _called(
        self,
        original: Callable[Concatenate[tf.types.experimental.GenericFunction, P], R],
        function: tf.types.experimental.GenericFunction,
        *args: P.args,
        **options: P.kwargs,
    ) -> R:
        """Replaces the call of a `tf.function`: records a step if the function opens a GradientTape."""
        begin = time.perf_counter()
        self._calling.append(function)
        try:
            result = original(function, *args, **options)
        finally:
            self._calling.pop()
        if id(function) in self._trainers and not self._calling and not self.in_loop:
            self.enter(TRAINING)
            self._last = self._last or begin
            self.step(_scalar(result))
        return result

    def _taped(self, original: Callable[[tf.GradientTape], R], tape: tf.GradientTape) -> R:
        """Replaces `GradientTape.__enter__`: marks the running tf.functions as training steps, or records a step."""
        if self.in_loop:
            return original(tape)
        if self._calling:
            self._trainers.update(map(id, self._calling))
        else:
            now = time.perf_counter()
            self.enter(TRAINING)
            if self._tape_began is not None:  # the previous step ends where this one starts
                self._count(now - self._tape_began, now)
            self._tape_began = now
        return original(tape)

    def _saved(
        self,
        original: Callable[Concatenate[object, str | os.PathLike[str], P], R],
        obj: object,
        export_dir: str | os.PathLike[str],
        *args: P.args,
        **options: P.kwargs,
    ) -> R:
        """Replaces TensorFlow's writer of SavedModels: ends a custom loop's last step, and records the folder."""
        if self._tape_began is not None:
            self._count(time.perf_counter() - self._tape_began, time.perf_counter())
            self._tape_began = None
        self.note_save(str(export_dir))
        return original(obj, export_dir, *args, **options)

    def note_save(self, folder: str) -> None:
        """Records a SavedModel that is being written, with the user's line that saves it."""
        self.saves.append((folder, calling_place(sys._getframe(1), self.files)))
        if not self.in_loop:
            self.enter(EXPORT)


def _scalar(result: object) -> float | None:
    """Returns the result of a step as a loss if it is a floating-point scalar, else None."""
    shape, dtype = getattr(result, "shape", None), getattr(result, "dtype", None)
    if shape is None or tuple(shape) != () or not getattr(dtype, "is_floating", False) or not hasattr(result, "numpy"):
        return None
    return float(result.numpy())
