"""Displays a run's phases and training progress while it runs.

    with watched_training() as environment:        # environment variables for the training process
        child_process.run(…, environment=environment)

By default a progress line is logged at intervals that grow with the training time. A command with a terminal replaces
the default by its own `Display`:

    with use_display(LiveDisplay()):
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

_POLL_SECONDS = 0.25
_FIRST_SECONDS = 10.0  # minimum interval, and time until the first line
_SHARE = 0.1  # interval as a fraction of the training time so far
_LONGEST_SECONDS = 300.0  # maximum interval


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

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Called with a run's phase, by the names of `RunRecord.phases`; the phase lasts for the block."""
        del name
        yield

    def begin(self) -> None:
        """Called when training begins."""
        self._began = self._last_logged = self._clock()
        self._recent = RecentProgress()

    def show(self, report: Progress) -> None:
        """Called with the progress of training, several times per second."""
        self._recent.add(report)
        now = self._clock()
        wait = max(_FIRST_SECONDS, min(_LONGEST_SECONDS, _SHARE * (now - self._began)))
        if now - self._last_logged >= wait and report.seconds >= 0:
            logging.info("%s", line(report, self._recent))
            self._last_logged = now

    def end(self) -> None:
        """Called when training has ended."""


class RecentProgress:
    """The last seconds of training: throughput and metric trends."""

    _SECONDS = 10.0
    _FLAT = 0.002  # relative changes up to this size count as no change

    def __init__(self) -> None:
        self._samples: list[tuple[float, float, float, dict[str, float]]] = []  # seconds, steps, examples, metrics

    def add(self, report: Progress) -> None:
        """Adds a progress report."""
        if report.seconds >= 0:
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
    display = Display() if current() is _DEFAULT else current()  # one default display per training, for threads
    ended = threading.Event()
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as folder:
        path = progress.create_progress_file(folder)

        def poll() -> None:
            while not ended.wait(_POLL_SECONDS):
                if (report := progress.read(path)) is not None:
                    display.show(report)

        thread = threading.Thread(target=poll, name="progress", daemon=True)
        display.begin()
        thread.start()
        try:
            yield {progress.VARIABLE: path}
        finally:
            ended.set()
            thread.join()
            if (report := progress.read(path)) is not None:
                display.show(report)
            display.end()


def line(report: Progress, recent: RecentProgress) -> str:
    """Returns a progress line.

    Step 1,240 of 5,000, 41 steps/s, 5,120 examples/s, loss 0.3121 ↓, auc 0.94 ↑, 1 min 32 s left, checkpoint 12 s ago
    """
    return ", ".join(parts(report, recent))


def parts(report: Progress, recent: RecentProgress) -> list[str]:
    """Returns the parts of `line`; unknown parts are left out."""
    details = report.details
    total, epoch, epochs = details.get("total"), details.get("epoch"), details.get("epochs")
    workers, restarts = details.get("workers"), details.get("restarts")
    found = [f"Step {report.step:,.0f}{f' of {total:,}' if total else ''}"] if report.seconds >= 0 else []
    found += [f"epoch {epoch} of {epochs}"] if epoch and epochs and epochs > 1 else []
    found += [str(details["doing"])] if details.get("doing") else []
    found += [f"{recent.steps:.3g} steps/s"] if recent.steps else []
    found += [f"{recent.examples:,.0f} examples/s"] if recent.examples else []
    found += [f"{name} {value:.4g}{recent.trend(name)}" for name, value in details.get("metrics", {}).items()]
    if total and recent.steps and report.step < total:
        found.append(f"{duration_text(round((total - report.step) / recent.steps))} left")
    if saved := details.get("saved_at"):
        found.append(f"checkpoint {duration_text(round(time.monotonic() - saved))} ago")
    found += [f"{workers} worker{'s' * (workers != 1)}"] if workers else []
    found += [f"{restarts} restart{'s' * (restarts != 1)}"] if restarts else []
    found += [f"{replaced} worker{'s' * (replaced != 1)} replaced"] if (replaced := details.get("replaced")) else []
    return found
