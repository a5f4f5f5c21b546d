"""Sees a training from inside of its process: which phase it is in, each step, each export.

    watch = Watch(source.files, tell)
    with watch.watching():
        run_fn(fn_args)
    watch.steps, watch.step_seconds, watch.saves

Loops of Keras and of Estimators are seen by their own callbacks and hooks, and cut short there (`keras_watch.py`,
`estimator_watch.py`). Of any other loop, a training step is a call of the `tf.function` in which a GradientTape was
opened, or a tape outside of any.
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
STEPS = 8  # the first is traced, the second may be; the others tell how long one takes
_ENOUGH_SECONDS = 5.0  # after which two steps do
_TELL_SECONDS = 0.5
_LABEL_BATCHES = 4  # that are read for the labels' values


class Seen(TypedDict, total=False):
    """The state of a training in a few words, as JSON values; empty while nothing was seen.

    Attributes:
      phase: One of PHASES.
      steps: Training steps done.
      losses: The last one; [] when none was seen.
      model: What was built, in words.
    """

    phase: str
    steps: int
    losses: list[float]
    model: str


class Watch:
    """What is seen of one training.

    Attributes:
      phase: One of PHASES.
      model: What was built, in words; "" when nobody saw it.
      steps: Training steps done.
      first_seconds: From the loop's begin to the end of the first one.
      step_seconds: Of each of the others.
      losses: Of the steps whose loss was seen.
      evaluations: Evaluation steps done.
      evaluates_forever: Whether a `fit` was given validation data without an end, and no number of steps.
      saves: Folders of SavedModels that were written, and where in the user's files.
      planned_steps: Steps that the loop would have done, or None.
      epochs: Passes over the data that it would have done, where there is no number of steps.
      batch_size: Examples in a step, or None.
      logged_error: The first error that the module logged; "" for none.
      files: The user's.
      fits: What Keras's fits show of the task; None before `watching`.
      most_steps: Training steps after which a loop is ended.
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
        self.in_loop = False  # of Keras or an Estimator, which report their steps themselves
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
        """Watches what happens in the block, in this process."""
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
        """Takes note of a phase."""
        if phase != self.phase:
            self.phase = phase
            if phase == TRAINING and self._last is not None:
                self._last = time.perf_counter()  # what came between two steps is no part of them
            self._say(now=True)

    @contextlib.contextmanager
    def loop(self) -> Iterator[None]:
        """Takes note that a loop begins which reports its steps by `step`."""
        before, self.in_loop = self.in_loop, True
        self.enter(TRAINING)
        self._last = time.perf_counter()
        try:
            yield
        finally:
            self.in_loop = before

    def step(self, loss: float | None = None, steps: int = 1) -> None:
        """Takes note of a training step that is done, or of several that were done in one call.

        Raises:
          FloatingPointError: When its loss is NaN or infinite.
        """
        now = time.perf_counter()
        seconds = now - (self._last or now)
        self._count(seconds, now, steps)
        if loss is not None:
            self.losses.append(loss)
            if not math.isfinite(loss):
                raise FloatingPointError(f"The loss is {loss} at step {self.steps}.")

    def has_enough(self) -> bool:
        """Returns whether there were steps enough to tell how long one takes."""
        return bool(self.step_seconds) and (self.steps >= STEPS or sum(self.step_seconds) > _ENOUGH_SECONDS)

    def steady_seconds(self) -> float | None:
        """Returns what a step takes, the traced ones left out; None where there were too few."""
        later = self.step_seconds[1:] if len(self.step_seconds) > 2 else self.step_seconds
        # The mean, since several steps may run in one call, whose time is that of the first of them.
        return max(statistics.fmean(later), 0.0) if later else None

    def seen(self) -> Seen:
        """Returns the state in a few words, for who watches from outside."""
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
        """Is called in place of a tf.function."""
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
        """Is called when a GradientTape is opened."""
        if self.in_loop:
            return original(tape)
        if self._calling:
            self._trainers.update(map(id, self._calling))
        else:
            now = time.perf_counter()
            self.enter(TRAINING)
            if self._tape_began is not None:  # a step has ended where the next one begins
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
        """Is called in place of what writes a SavedModel."""
        if self._tape_began is not None:
            self._count(time.perf_counter() - self._tape_began, time.perf_counter())
            self._tape_began = None
        self.note_save(str(export_dir))
        return original(obj, export_dir, *args, **options)

    def note_save(self, folder: str) -> None:
        """Takes note of a SavedModel that is being written."""
        self.saves.append((folder, calling_place(sys._getframe(1), self.files)))
        if not self.in_loop:
            self.enter(EXPORT)


def _scalar(result: object) -> float | None:
    """Returns what a step gives if it is one number, as a loss is."""
    shape, dtype = getattr(result, "shape", None), getattr(result, "dtype", None)
    if shape is None or tuple(shape) != () or not getattr(dtype, "is_floating", False) or not hasattr(result, "numpy"):
        return None
    return float(result.numpy())
