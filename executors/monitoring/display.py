"""What a person sees of a run while it runs: its phases, and how far the training is.

    with watched_training() as environment:        # variables for the process that trains
        child_process.run(…, environment=environment)

By default a line is logged now and then, more seldom the longer the training takes. A command that has a terminal puts
a `Display` of its own in its place:

    with showing(LiveDisplay()):
        train(…)
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from absl import logging

from .. import run_context
from ..runtime.quantities import duration_text
from . import progress
from .progress import Progress

_LOOK_SECONDS = 0.25
_FIRST_SECONDS = 10.0  # until the first line
_SHARE = 0.1  # of the time so far, until the next one
_LONGEST_SECONDS = 300.0


class Display:
    """Logs a line on the training now and then.

    Attributes:
      is_live: Whether it is shown at every moment how far the training is, so that no line has to tell it.
    """

    is_live = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = self._said = clock()
        self._recent = Recent()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Is told what a run does, by the names of `RunRecord.phases`."""
        del name
        yield

    def begin(self) -> None:
        """Is told that a training begins."""
        self._begun = self._said = self._clock()
        self._recent = Recent()

    def show(self, told: Progress) -> None:
        """Is told how far the training is, some times a second."""
        self._recent.note(told)
        now = self._clock()
        wait = max(_FIRST_SECONDS, min(_LONGEST_SECONDS, _SHARE * (now - self._begun)))
        if now - self._said >= wait and told.seconds >= 0:
            logging.info("%s", line(told, self._recent))
            self._said = now

    def end(self) -> None:
        """Is told that the training is over."""


class Recent:
    """What a training has done in the last seconds: how fast it is, and where its metrics go."""

    _SECONDS = 10.0
    _FLAT = 0.002  # a change of this part of a metric is none

    def __init__(self) -> None:
        self._seen: list[tuple[float, float, float, dict[str, float]]] = []  # seconds, steps, examples, metrics

    def note(self, told: Progress) -> None:
        """Takes note of how far it is."""
        if told.seconds >= 0:
            self.note_moment(told.seconds, told.steps, told.examples, told.details.get("metrics", {}))

    def note_moment(self, seconds: float, steps: float, examples: float, metrics: Mapping[str, float]) -> None:
        """Takes note of what was done in so many seconds since it began."""
        if self._seen and seconds < self._seen[-1][0]:  # it began anew, after a failure
            self._seen.clear()
        if not self._seen or seconds > self._seen[-1][0]:
            self._seen.append((seconds, steps, examples, dict(metrics)))
        while len(self._seen) > 2 and seconds - self._seen[1][0] >= self._SECONDS:
            del self._seen[0]

    @property
    def steps(self) -> float:
        """Steps a second; 0 when that is not known yet."""
        return self._rate(1)

    @property
    def examples(self) -> float:
        """Examples a second; 0 when that is not known."""
        return self._rate(2)

    def trend(self, metric: str) -> str:
        """Returns where a metric goes: " ↑", " ↓", " →", or "" when that is not known yet."""
        values = [metrics[metric] for *_, metrics in self._seen if metric in metrics]
        if len(values) < 2 or values[0] == values[-1] == values[len(values) // 2]:
            return ""
        change, size = values[-1] - values[0], max(abs(values[0]), abs(values[-1]))
        return " →" if abs(change) <= self._FLAT * size else " ↑" if change > 0 else " ↓"

    def _rate(self, place: int) -> float:
        if len(self._seen) < 2:
            return 0.0
        (begin, *first), (end, *last) = self._seen[0][:3], self._seen[-1][:3]
        return (last[place - 1] - first[place - 1]) / (end - begin)


class _Shown:
    """The display in the place of the default one."""

    def __init__(self, display: Display) -> None:
        self.display = display


_DEFAULT = Display()


def current() -> Display:
    """Returns what is told of this process's runs."""
    shown = run_context.part(_Shown)
    return shown.display if shown else _DEFAULT


@contextlib.contextmanager
def showing(display: Display) -> Iterator[None]:
    """Puts a display in the place of the one that there is, while a block runs."""
    with run_context.extended(_Shown(display)):
        yield


@contextlib.contextmanager
def watched_training() -> Iterator[dict[str, str]]:
    """Watches a training that is done in a block.

    Yields:
      The variables by which it knows that it is watched.
    """
    display = Display() if current() is _DEFAULT else current()  # trainings in other threads have their own
    over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as folder:
        path = progress.watched(folder)

        def look() -> None:
            while not over.wait(_LOOK_SECONDS):
                if (told := progress.read(path)) is not None:
                    display.show(told)

        thread = threading.Thread(target=look, name="progress", daemon=True)
        display.begin()
        thread.start()
        try:
            yield {progress.VARIABLE: path}
        finally:
            over.set()
            thread.join()
            if (told := progress.read(path)) is not None:
                display.show(told)
            display.end()


def line(told: Progress, recent: Recent) -> str:
    """Returns how far a training is, in a line.

    Step 1,240 of 5,000, 41 steps/s, 5,120 examples/s, loss 0.3121 ↓, auc 0.94 ↑, 1 min 32 s left, checkpoint 12 s ago
    """
    return ", ".join(parts(told, recent))


def parts(told: Progress, recent: Recent) -> list[str]:
    """Returns the parts of `line`; those that are not known are left out."""
    details = told.details
    total, epoch, epochs = details.get("total"), details.get("epoch"), details.get("epochs")
    workers, restarts = details.get("workers"), details.get("restarts")
    found = [f"Step {told.step:,.0f}{f' of {total:,}' if total else ''}"] if told.seconds >= 0 else []
    found += [f"epoch {epoch} of {epochs}"] if epoch and epochs and epochs > 1 else []
    found += [str(details["doing"])] if details.get("doing") else []
    found += [f"{recent.steps:.3g} steps/s"] if recent.steps else []
    found += [f"{recent.examples:,.0f} examples/s"] if recent.examples else []
    found += [f"{name} {value:.4g}{recent.trend(name)}" for name, value in details.get("metrics", {}).items()]
    if total and recent.steps and told.step < total:
        found.append(f"{duration_text(round((total - told.step) / recent.steps))} left")
    if saved := details.get("saved_at"):
        found.append(f"checkpoint {duration_text(round(time.monotonic() - saved))} ago")
    found += [f"{workers} worker{'s' * (workers != 1)}"] if workers else []
    found += [f"{restarts} restart{'s' * (restarts != 1)}"] if restarts else []
    return found
