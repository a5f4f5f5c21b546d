"""Displays a run's phases, and the progress of training and of the other steps, while it runs.

    with watched_training() as environment:        # environment variables for the training process
        child_process.run(…, environment=environment)
    with watched_work("Transform", Work(total)):   # a step in this process that counts its work
        …

By default a progress line is logged at intervals that grow with the training time. A command with a terminal replaces
the default by its own `Display`:

    with use_display(LiveDisplay()):
        train(…)
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from absl import logging

from .. import run_context
from ..runtime.quantities import duration_text
from ..runtime.work import Work
from . import progress_reports
from .progress_reports import Progress

_POLL_SECONDS = 0.25
_FIRST_SECONDS = 10.0  # minimum interval, and time until the first line
_SHARE = 0.1  # interval as a fraction of the training time so far
_LONGEST_SECONDS = 300.0  # maximum interval
STALLED_SECONDS = 60.0  # without a step, until the line shows their number instead of the speed
_WORK_SECONDS = 3.0  # time until a step's progress is displayed: shorter steps have none, and no estimate is good then

# What a line keeps if it has to be shortened, the most important first.
_TIME_LEFT, _LOSS, PHASE, _STEP, _DOING, ELAPSED, _METRIC, _SPEED, _OTHER = range(9)


class Part(NamedTuple):
    """A part of a progress line; parts of a higher rank are left out first if the line is too long."""

    text: str
    rank: int


@dataclasses.dataclass(frozen=True)
class WorkProgress:
    """The progress of a pipeline step other than training.

    Attributes:
      name: The step.
      share: The part of its work that is done, from 0 to 1.
      seconds: Since its work began.
    """

    name: str
    share: float
    seconds: float

    @property
    def seconds_left(self) -> float:
        """An estimate, as if all work took the same time; rounded as it is uncertain, at least 1."""
        left = self.seconds * (1 - self.share) / self.share
        return round(left, -1) if left >= 60 else max(1, round(left))


Report = Progress | WorkProgress


class Display:
    """Logs progress lines at growing intervals.

    Attributes:
      is_live: Whether progress is displayed continuously, so that no progress lines are needed.
    """

    is_live = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._last_logged = clock()
        self._recent = RecentProgress()
        self._stalled = False  # whether the last line was on a training without steps

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Called with a run's phase, by the names of `RunRecord.phases`; the phase lasts for the block."""
        del name
        yield

    def begin(self) -> None:
        """Called when training or another step begins."""
        self._began = self._last_logged = self._clock()
        self._recent = RecentProgress()

    def show(self, report: Report) -> None:
        """Called with the progress of training or of another step, several times per second."""
        self._recent.add(report)
        now, stalls = self._clock(), is_stalled(report)
        wait = max(_FIRST_SECONDS, min(_LONGEST_SECONDS, _SHARE * (now - self._began)))
        is_due = now - self._last_logged >= wait or (stalls and not self._stalled)
        if is_due and report.seconds >= 0:
            logging.info("%s", line(report, self._recent))
            self._last_logged, self._stalled = now, stalls

    def end(self) -> None:
        """Called when training or the step has ended."""


class RecentProgress:
    """The last seconds of training: throughput and metric trends."""

    _SECONDS = 10.0
    _FLAT = 0.002  # relative changes up to this size count as no change

    def __init__(self) -> None:
        self._samples: list[tuple[float, float, float, dict[str, float]]] = []  # seconds, steps, examples, metrics

    def add(self, report: Report) -> None:
        """Adds a progress report of training; ignores others."""
        if isinstance(report, Progress) and report.seconds >= 0:
            self.add_counts(report.seconds, report.steps, report.examples, report.details.get("metrics", {}))

    def add_counts(self, seconds: float, steps: float, examples: float, metrics: Mapping[str, float]) -> None:
        """Adds the counts at a time, in seconds since training began."""
        if self._samples and seconds < self._samples[-1][0]:  # training was restarted after a failure
            self._samples.clear()
        if not self._samples or seconds > self._samples[-1][0]:
            self._samples.append((seconds, steps, examples, dict(metrics)))
        while len(self._samples) > 2 and seconds - self._samples[1][0] >= self._SECONDS:
            del self._samples[0]

    @property
    def steps(self) -> float:
        """Steps per second; 0 while unknown."""
        return self._rate(1)

    @property
    def examples(self) -> float:
        """Examples per second; 0 if unknown."""
        return self._rate(2)

    def trend(self, metric: str) -> str:
        """Returns a metric's trend: " ↑", " ↓", " →", or "" while unknown."""
        values = [metrics[metric] for *_, metrics in self._samples if metric in metrics]
        if len(values) < 2 or values[0] == values[-1] == values[len(values) // 2]:
            return ""
        change, size = values[-1] - values[0], max(abs(values[0]), abs(values[-1]))
        return " →" if abs(change) <= self._FLAT * size else " ↑" if change > 0 else " ↓"

    def _rate(self, place: int) -> float:
        if len(self._samples) < 2:
            return 0.0
        (begin, *first), (end, *last) = self._samples[0][:3], self._samples[-1][:3]
        return (last[place - 1] - first[place - 1]) / (end - begin)


class _SelectedDisplay:
    """The display in the run context that replaces the default one."""

    def __init__(self, display: Display) -> None:
        self.display = display


_DEFAULT = Display()


def current() -> Display:
    """Returns the display of the current run."""
    selected = run_context.part(_SelectedDisplay)
    return selected.display if selected else _DEFAULT


@contextlib.contextmanager
def use_display(display: Display) -> Iterator[None]:
    """Replaces the current display during the block."""
    with run_context.extended(_SelectedDisplay(display)):
        yield


@contextlib.contextmanager
def watched_training() -> Iterator[dict[str, str]]:
    """Displays the progress of training during the block.

    Yields:
      The environment variables for the training process, with the path of its progress file.
    """
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as folder:
        path = progress_reports.create_progress_file(folder)
        with _watched(lambda: progress_reports.read(path)):
            yield {progress_reports.VARIABLE: path}


@contextlib.contextmanager
def watched_work(name: str, work: Work) -> Iterator[Work]:
    """Displays the progress of a step that counts its work in this process, during the block; see `runtime.work`.

    Args:
      name: The step's name.
      work: Its work, which is the current one during the block.
    """
    idle = time.monotonic()  # the last time without any work done, which excludes the start

    def read() -> WorkProgress | None:
        nonlocal idle
        now, share = time.monotonic(), work.share
        idle = idle if share else now
        return WorkProgress(name, share, now - idle) if now - idle >= _WORK_SECONDS else None

    with _watched(read), run_context.extended(work):
        yield work


@contextlib.contextmanager
def _watched(read: Callable[[], Report | None]) -> Iterator[None]:
    """Displays what `read` returns, several times per second during the block and once at its end."""
    display = Display() if current() is _DEFAULT else current()  # one default display per training, for threads
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(_POLL_SECONDS):
            if (report := read()) is not None:
                display.show(report)

    thread = threading.Thread(target=poll, name="progress", daemon=True)
    display.begin()
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if (report := read()) is not None:
            display.show(report)
        display.end()


def line(report: Report, recent: RecentProgress) -> str:
    """Returns a progress line.

    Step 1,240 of 5,000, 41 steps/s, 5,120 examples/s, loss 0.3121 ↓, auc 0.94 ↑, 1 min 32 s left, checkpoint 12 s ago
    Transform: 41 %, about 1 min 30 s left
    """
    if isinstance(report, WorkProgress):
        found = [*percentage(report), *parts(report, recent)]
        return f"{report.name}: {', '.join(part.text for part in found)}"
    return ", ".join(part.text for part in parts(report, recent))


def is_stalled(report: Report) -> bool:
    """Whether training has made no step for a minute, neither before nor between steps, nor evaluated meanwhile."""
    if isinstance(report, WorkProgress) or report.seconds < 0 or report.details.get("doing"):
        return False
    return report.age >= STALLED_SECONDS and (share_of(report) or 0) < 1  # saving may take a while when all is done


def share_of(report: Report) -> float | None:
    """Returns the part that is done, from 0 to 1; None if unknown."""
    if isinstance(report, WorkProgress):
        return report.share
    total = report.details.get("total")
    return min(report.step / total, 1.0) if total else None


def percentage(report: Report) -> list[Part]:
    """Returns the part that is done as a percentage; [] if unknown or all is done, as saving may take a while then."""
    share = share_of(report)
    return [] if share is None or share >= 1 else [Part(f"{int(100 * share)} %", _TIME_LEFT)]


def parts(report: Report, recent: RecentProgress) -> list[Part]:
    """Returns the parts of a line other than the percentage; unknown parts are left out."""
    if isinstance(report, WorkProgress):
        text = f"about {duration_text(report.seconds_left)} left" if report.share < 1 else "finishing"
        return [Part(text, _TIME_LEFT)]
    details = report.details
    total, epoch, epochs = details.get("total"), details.get("epoch"), details.get("epochs")
    workers, restarts = details.get("workers"), details.get("restarts")
    step = f"Step {report.step:,.0f}{f' of {total:,}' if total else ''}"
    found = [Part(step, _STEP)] if report.seconds >= 0 else []
    found += [Part(f"epoch {epoch} of {epochs}", _SPEED)] if epoch and epochs and epochs > 1 else []
    found += [Part(str(details["doing"]), _DOING)] if details.get("doing") else []
    speed, examples = (0.0, 0.0) if (stalls := is_stalled(report)) else (recent.steps, recent.examples)
    found += [Part(f"no step for {report.age:,.0f} s", _DOING)] if stalls else []
    found += [Part(f"{speed:.3g} steps/s", _SPEED)] if speed else []
    found += [Part(f"{examples:,.0f} examples/s", _SPEED)] if examples else []
    metrics = details.get("metrics", {})
    loss = "loss" if "loss" in metrics else next((name for name in metrics if "loss" in name), None)
    found += [
        Part(f"{name} {value:.4g}{recent.trend(name)}", _LOSS if name == loss else _METRIC)
        for name, value in metrics.items()
    ]
    if total and speed and report.step < total:
        found.append(Part(f"{duration_text(round((total - report.step) / speed))} left", _TIME_LEFT))
    if saved := details.get("saved_at"):
        found.append(Part(f"checkpoint {duration_text(round(time.monotonic() - saved))} ago", _OTHER))
    found += [Part(f"{workers} worker{'s' * (workers != 1)}", _OTHER)] if workers else []
    found += [Part(f"{restarts} restart{'s' * (restarts != 1)}", _OTHER)] if restarts else []
    if replaced := details.get("replaced"):
        found.append(Part(f"{replaced} worker{'s' * (replaced != 1)} replaced", _OTHER))
    return found


def fitted(found: Sequence[Part], width: int) -> list[Part]:
    """Returns the parts that fit into a line of `width` characters: without the least important, of equals the last."""
    kept = list(found)
    while len(kept) > 1 and len(joined(kept)) > width:
        kept.remove(max(reversed(kept), key=lambda part: part.rank))
    return kept


def joined(found: Sequence[Part]) -> str:
    """Returns the text of parts in a line of a terminal."""
    return " · ".join(part.text for part in found)
