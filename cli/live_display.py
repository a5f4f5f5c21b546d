"""The progress line at the bottom of a terminal; see `terminal.py`."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Iterator

from absl import logging as absl_logging
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ..executors.monitoring import display
from ..executors.monitoring.display import ELAPSED, PHASE, Display, Part, RecentProgress, Report, fitted, joined, parts
from ..executors.monitoring.progress_reports import Progress
from ..executors.runtime.logs import setup
from ..executors.runtime.logs.sanitize import printable
from ..executors.runtime.quantities import duration_text

_PHASES = {
    "inputs": "Inspecting the inputs",
    "training": "Training",
    "evaluator": "Evaluating",
    "check": "Checking the model",
    "publish": "Publishing",
}
_BAR = 24  # characters
_PER_SECOND = 4


@contextlib.contextmanager
def show_progress() -> Iterator[None]:
    """Shows the progress of runs in the block on the terminal of standard error."""
    console = Console(stderr=True, highlight=False)
    live = LiveDisplay(console)
    with Live(
        get_renderable=live.line,
        console=console,
        refresh_per_second=_PER_SECOND,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    ):
        with display.use_display(live), live.steps_of_pipelines():
            yield


class LiveDisplay(Display):
    """A progress line that is redrawn 4 times per second.

    Args:
      console: The console for finished pipeline steps.
    """

    is_live = True

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._spinner = Spinner("dots")
        self._phases: list[tuple[str, float]] = []
        self._progress: Report | None = None

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Shows a phase for the duration of the block; phases can be nested."""
        self._phases.append((_PHASES.get(name, name), time.monotonic()))
        try:
            yield
        finally:
            self._phases.pop()

    def begin(self) -> None:
        """Resets the progress for a new training."""
        super().begin()
        self._progress = None

    def show(self, progress: Report) -> None:
        """Stores the progress for the next redraw."""
        self._recent.add(progress)
        self._progress = _with_details(progress, self._progress)

    def end(self) -> None:
        """Logs the final progress line of a training, with the speed over the whole training."""
        if isinstance(self._progress, Progress) and self._progress.seconds > 0:
            absl_logging.info("%s", display.line(self._progress, _overall_speed(self._progress)))
        self._progress = None

    def line(self) -> RenderableType:
        """Returns the progress line: spinner, phase, progress bar, percentage, and text with the elapsed time.

        In a narrow terminal it leaves out the bar and parts of the text; see `display.fitted`.
        """
        if not self._phases:
            return Text("")
        name, since = self._phases[-1]
        found = [Part(name, PHASE), *self._parts(name), Part(duration_text(round(time.monotonic() - since)), ELAPSED)]
        width = self._console.width - 2  # after the spinner
        kept = fitted([part._replace(text=printable(part.text)) for part in found], width)
        cells: list[RenderableType] = [self._spinner]
        if kept[0].rank == PHASE:
            cells.append(Text(kept.pop(0).text, style="bold"))
        share = None if self._progress is None else display.share_of(self._progress)
        if share is not None and len(joined(kept)) + len(name) + 2 + _BAR <= width:
            cells.append(ProgressBar(1.0, share, width=_BAR))
        cells.append(Text(joined(kept)))
        table = Table.grid(padding=(0, 1))
        for _ in cells:
            table.add_column(no_wrap=True)
        table.add_row(*cells)
        return table

    def _parts(self, name: str) -> list[Part]:
        if self._progress is not None:
            return [*display.percentage(self._progress), *parts(self._progress, self._recent)]
        return [Part("starting", ELAPSED)] if name == _PHASES["training"] else []

    @contextlib.contextmanager
    def steps_of_pipelines(self) -> Iterator[None]:
        """Shows each step that TFX's runner logs as a phase, and hides these log lines, during the block."""
        handler, printed = _Steps(self), absl_logging.get_absl_handler()
        logging.getLogger().addHandler(handler)
        printed.addFilter(_is_no_step)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)
            printed.removeFilter(_is_no_step)

    def step(self, name: str, begins: bool) -> None:
        """Starts or ends the phase of a pipeline step; an ended step is printed with its duration."""
        if begins:
            self._phases.append((name, time.monotonic()))
        elif self._phases:
            _, since = self._phases.pop()
            took = duration_text(round(time.monotonic() - since))
            self._console.print(Text.assemble(("✓ ", "green"), f"{printable(name)} ", (took, "dim")))


class _Steps(logging.Handler):
    def __init__(self, live: LiveDisplay) -> None:
        super().__init__()
        self._display = live

    def emit(self, record: logging.LogRecord) -> None:
        if found := setup.parse_step(record):
            self._display.step(*found)


def _is_no_step(record: logging.LogRecord) -> bool:
    return setup.parse_step(record) is None


def _with_details(progress: Report, before: Report | None) -> Report:
    """Adds the previous details to a progress without any: they are empty while they are being rewritten."""
    if isinstance(progress, Progress) and isinstance(before, Progress) and not progress.details:
        progress.details.update(before.details)
    return progress


def _overall_speed(progress: Progress) -> RecentProgress:
    """Returns the speed averaged over the whole training."""
    recent = RecentProgress()
    for seconds, steps, examples in ((0.0, 0.0, 0.0), (progress.seconds, progress.steps, progress.examples)):
        recent.add_counts(seconds, steps, examples, {})
    return recent
