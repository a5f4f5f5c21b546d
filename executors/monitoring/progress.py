"""How far a training is, told by its loop for whoever watches.

    report_progress(step, total=1000)  # where the loop begins: 0, or the step of the checkpoint that was restored
    for batch in batches:
        loss = train_step(batch)
        step += 1
        report_progress(step, examples=len(batch), metrics={"loss": loss})

Keras's `fit`, Estimators and the loops of the dialects do that by themselves. Who watches a process gives it the name
of a small file, and may read it at any time, also when the process was killed:

    path = watched(folder)
    child_process.run(…, environment={VARIABLE: path})
    read(path)  # Progress(step=…, …)

The process maps that file into its memory, so that a report is no more than a few numbers stored; what is said in words
is written now and then. Where nobody watches, nothing is done. `display.py` shows what is read; on a Ray cluster each
worker is watched, see `throughput.py` for what is made of it.
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
from collections.abc import Iterator, Mapping
from typing import SupportsFloat, TypedDict

from .. import run_context

VARIABLE = "GENERIC_TRAINER_PROGRESS"
_FORM = struct.Struct("=6d")
_WORDS = struct.Struct("=2I")  # a number that is odd while the words behind it are written, and their length
_SIZE = 4096
_LOOK_SECONDS = 1.0  # between two looks of `Due`
_TELL_SECONDS = 0.4  # between two reports in words


class _LastMetrics(dict[str, SupportsFloat]):
    """The last value of each metric that was reported."""


class _EndsByNaN:
    """Is in the context of a run that a loss of NaN ends."""


class Details(TypedDict, total=False):
    """What a worker says besides numbers of steps; see `Progress.details`."""

    total: int
    epoch: int
    epochs: int
    metrics: dict[str, float]
    doing: str
    saved: int
    saved_at: float
    workers: int
    restarts: int


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far one worker is.

    Attributes:
      first: The step at which its loop began.
      step: The last step that is done.
      steps: How many it has done itself since it began; with parameter servers others do some of them.
      examples: How many it was trained on since then; 0 where the loop does not say.
      seconds: From when the loop began to when the last step was done; -1 when it has not begun.
      age: Seconds since the last step was done.
      details: What else it says; each may be missing. `total`: the last step, `epoch` and `epochs`, `metrics`: {name:
        value}, `doing`: what it does instead of steps, `saved`: the step of the last checkpoint, and `saved_at`; of a
        whole cluster also `workers` and `restarts`.
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
    """Tells how far this worker's training is: where its loop begins, and after each step.

    Args:
      step: Steps that are done, of all workers where these count together. A run on several workers is told which
        steps were lost by it, so it is the one that checkpoints are numbered by.
      examples: How many of this step's were this worker's own.
      steps: How many were this worker's own since the last report; by default all.
      total: The step that is to be the last, where that is known; once is enough.
      metrics: Numbers to show, or scalar tensors: these are looked at only when they are shown, every now and then.
    """
    kept = run_context.part(_LastMetrics)
    if kept is not None and metrics is not None:
        kept.update(metrics)
    teller = _teller(os.environ.get(VARIABLE))
    if teller is not None:
        teller.tell(step, examples, steps)
        if total is not None:
            teller.say(total=total)
        if metrics is not None and teller.is_due():
            numbers = {name: float(value) for name, value in metrics.items()}
            teller.say(metrics=numbers)
            if run_context.part(_EndsByNaN):
                require_number(numbers)


def report_examples(examples: float) -> None:
    """Tells on how many examples the step was trained that has just been reported."""
    teller = _teller(os.environ.get(VARIABLE))
    if teller is not None:
        teller.tell(teller.step, examples, 0)


def reported_step() -> int:
    """Returns the last step that this process has reported; 0 before the first."""
    teller = _teller(os.environ.get(VARIABLE))
    return int(teller.step) if teller is not None else 0


def reported_examples() -> float:
    """Returns on how many examples the steps were trained that this process has reported."""
    teller = _teller(os.environ.get(VARIABLE))
    return teller.examples if teller is not None else 0.0


def report_details(**details: object) -> None:
    """Tells what a worker does, by the names of `Progress.details`; None takes one back."""
    teller = _teller(os.environ.get(VARIABLE))
    if teller is not None:
        teller.say(**details)


def report_checkpoint(step: int) -> None:
    """Tells that a checkpoint is whole."""
    report_details(saved=int(step), saved_at=time.monotonic())


@contextlib.contextmanager
def metrics_kept() -> Iterator[Mapping[str, SupportsFloat]]:
    """Keeps the last value of each metric given to `report_progress` in a block, whether or not anybody watches."""
    kept = _LastMetrics()
    with run_context.extended(kept):
        yield kept


@contextlib.contextmanager
def ended_by_nan(wanted: bool) -> Iterator[None]:
    """Has `report_progress` raise FloatingPointError in a block when it is told a loss of NaN, if that is wanted."""
    with run_context.extended(_EndsByNaN()) if wanted else run_context.extended(without=_EndsByNaN):
        yield


def require_number(metrics: Mapping[str, float]) -> None:
    """Makes sure that no loss is NaN or infinite.

    Raises:
      FloatingPointError: When one is.
    """
    for name, value in metrics.items():
        if "loss" in name and not math.isfinite(value):
            raise FloatingPointError(
                f"stop_on_nan: {name} is {value} after step {reported_step()}. Look for a logarithm or a division of "
                "zero, for NaN in the input, or lower the learning rate."
            )


class Due:
    """Says when it is time to look again."""

    def __init__(self, seconds: float = _LOOK_SECONDS) -> None:
        self._seconds, self._last = seconds, 0.0

    def is_due(self) -> bool:
        """Returns whether so many seconds have gone by since it last said so."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


def is_watched() -> bool:
    """Returns whether anybody listens to what is reported in this process."""
    return _teller(os.environ.get(VARIABLE)) is not None


def is_due() -> bool:
    """Returns whether somebody listens, and some time has gone by since metrics were told last."""
    teller = _teller(os.environ.get(VARIABLE))
    return teller is not None and teller.is_due()


def watched(folder: str) -> str:
    """Returns the name of a new file for a process to report in, by the environment variable `VARIABLE`."""
    path = os.path.join(folder, "progress")
    with open(path, "wb") as file:
        file.write(bytes(_SIZE))
    return path


def read(path: str) -> Progress | None:
    """Returns what a process of this machine last reported, or None if that was nothing yet."""
    with open(path, "rb") as file:
        content = file.read()
    # Read while it is written it may be of two steps, one after the other: close enough.
    first, step, steps, examples, began, last = _FORM.unpack_from(content)
    details = _words(content)
    if not last:
        return Progress(0, 0, 0, 0, -1, 0, details) if details else None
    return Progress(first, step, steps, examples, last - began, max(0.0, time.monotonic() - last), details)


def _words(content: bytes) -> Details:
    number, length = _WORDS.unpack_from(content, _FORM.size)
    start = _FORM.size + _WORDS.size
    if not number or number % 2:
        return {}
    try:
        details: Details = json.loads(content[start : start + length])
    except ValueError:  # it was just being written
        return {}
    return details


@functools.cache
def _teller(path: str | None) -> _Teller | None:
    return _Teller(path) if path and os.path.exists(path) else None


class _Teller:
    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SIZE)
        self._first: float | None = None
        self.step = self._steps = self.examples = self._began = self._said = 0.0
        self._details: dict[str, object] = {}
        self._number = 0
        self._lock = threading.Lock()  # checkpoints are written by a thread

    def tell(self, step: float, examples: float, steps: float | None) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = self.step = step
            self._began = now
        self._steps += max(0.0, step - self.step) if steps is None else steps
        self.step = step
        self.examples += examples
        _FORM.pack_into(self._memory, 0, self._first, step, self._steps, self.examples, self._began, now)

    def is_due(self) -> bool:
        return time.monotonic() - self._said >= _TELL_SECONDS

    def say(self, **details: object) -> None:
        with self._lock:
            known = {**self._details, **details}
            known = {name: value for name, value in known.items() if value is not None}
            if known == self._details:
                return
            self._details = known
            if "metrics" in details:
                self._said = time.monotonic()
            words = json.dumps(known).encode()
            start = _FORM.size + _WORDS.size
            if len(words) > _SIZE - start:
                words = json.dumps({**known, "metrics": {}}).encode()
            _WORDS.pack_into(self._memory, _FORM.size, self._number + 1, len(words))
            self._memory[start : start + len(words)] = words
            self._number += 2
            _WORDS.pack_into(self._memory, _FORM.size, self._number, len(words))
