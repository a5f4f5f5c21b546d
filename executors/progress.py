"""How far a training is, told by its loop for whoever watches all workers of a run.

    report_progress(step)  # where the loop begins: 0, or the step of the checkpoint that was restored
    for batch in batches:
        train_step(batch)
        step += 1
        report_progress(step, examples=len(batch))

Who watches a process gives it the name of a small file, and may read it at any time, also when the process was killed:

    path = watched(folder)
    child_process.run(…, environment={VARIABLE: path})
    read(path)  # Progress(step=…, …)

The process maps that file into its memory, so that a report is no more than a few numbers stored. Where nobody watches,
nothing is done. On a Ray cluster each worker is watched; see `engines/pace.py` for what is made of it.
"""

from __future__ import annotations

import dataclasses
import functools
import mmap
import os
import struct
import time

from .waiting import measured

VARIABLE = "GENERIC_TRAINER_PROGRESS"
_FORM = struct.Struct("=7d")
_LOOK_SECONDS = 1.0  # between two looks at how long was waited, each of which reads a variable


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far one worker is.

    Attributes:
      first: The step at which its loop began.
      step: The last step that is done.
      steps: How many it has done itself since it began; with parameter servers others do some of them.
      examples: How many it was trained on since then; 0 where the loop does not say.
      seconds: From when the loop began to when the last step was done.
      waited: Of these, seconds of waiting for other workers in all-reduce; see `waiting.py`. -1 where not measured.
      age: Seconds since the last step was done.
    """

    first: float
    step: float
    steps: float
    examples: float
    seconds: float
    waited: float
    age: float


def report_progress(step: int, examples: float = 0, steps: int | None = None) -> None:
    """Tells how far this worker's training is: where its loop begins, and after each step.

    Args:
      step: Steps that are done, of all workers where these count together. A run on several workers is told which
        steps were lost by it, so it is the one that checkpoints are numbered by.
      examples: How many of this step's were this worker's own.
      steps: How many were this worker's own since the last report; by default all.
    """
    teller = _teller()
    if teller is not None:
        teller.tell(step, examples, steps)


def is_watched() -> bool:
    """Returns whether anybody listens to what is reported in this process."""
    return _teller() is not None


def watched(folder: str) -> str:
    """Returns the name of a new file for a process to report in, by the environment variable `VARIABLE`."""
    path = os.path.join(folder, "progress")
    with open(path, "wb") as file:
        file.write(bytes(_FORM.size))
    return path


def read(path: str) -> Progress | None:
    """Returns what a process of this machine last reported, or None if that was nothing yet."""
    with open(path, "rb") as file:
        # Read while it is written it may be of two steps, one after the other: close enough.
        first, step, steps, examples, began, last, waited = _FORM.unpack(file.read())
    if not last:
        return None
    return Progress(first, step, steps, examples, last - began, waited, max(0.0, time.monotonic() - last))


@functools.cache
def _teller() -> _Teller | None:
    path = os.environ.get(VARIABLE)
    return _Teller(path) if path else None


class _Teller:
    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _FORM.size)
        self._first: float | None = None
        self._step = self._steps = self._examples = self._began = self._looked = 0.0
        self._wait = measured()
        self._waited = -1.0

    def tell(self, step: float, examples: float, steps: float | None) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = self._step = step
            self._began = now
        self._steps += max(0.0, step - self._step) if steps is None else steps
        self._step = step
        self._examples += examples
        if self._wait is not None and now - self._looked >= _LOOK_SECONDS:
            self._waited, self._looked = self._wait(), now
        _FORM.pack_into(self._memory, 0, self._first, step, self._steps, self._examples, self._began, now, self._waited)
