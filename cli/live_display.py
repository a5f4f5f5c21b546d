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
from ..executors.monitoring.display import Display, Recent, parts
from ..executors.monitoring.progress import Progress
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
def shown_live() -> Iterator[None]:
    """Shows the progress of runs in the block on the terminal of standard error."""
    console = Console(stderr=True, highlight=False)
    shown = LiveDisplay(console)
    with Live(
        get_renderable=shown.line,
        console=console,
        refresh_per_second=_PER_SECOND,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    ):
        with display.showing(shown), shown.steps_of_pipelines():
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
        self._doing: list[tuple[str, float]] = []
        self._told: Progress | None = None

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Shows a phase for the duration of the block; phases can be nested."""
        self._doing.append((_PHASES.get(name, name), time.monotonic()))
        try:
            yield
        finally:
            self._doing.pop()

    def begin(self) -> None:
        """Resets the progress for a new training."""
        super().begin()
        self._told = None

    def show(self, told: Progress) -> None:
        """Stores the progress for the next redraw."""
        self._recent.note(told)
        # The details may be empty if they are being rewritten at the moment; keep the previous ones then.
        self._told = told if told.details or self._told is None else _with_details(told, self._told)

    def end(self) -> None:
        """Logs the final progress line, with the speed over the whole training."""
        if self._told is not None and self._told.seconds > 0:
            absl_logging.info("%s", display.line(self._told, _over_all(self._told)))
        self._told = None

    def line(self) -> RenderableType:
        """Returns the progress line: spinner, phase, progress bar, and text with the elapsed time."""
        if not self._doing:
            return Text("")
        name, since = self._doing[-1]
        told = self._told
        cells: list[RenderableType] = [self._spinner, Text(printable(name), style="bold")]
        if told is not None and told.details.get("total"):
            cells.append(ProgressBar(told.details["total"], min(told.step, told.details["total"]), width=_BAR))
        said = parts(told, self._recent) if told is not None else ["starting"] if name == _PHASES["training"] else []
        table = Table.grid(padding=(0, 1), expand=True)
        for _ in cells:
            table.add_column(no_wrap=True)
        # Only this column is truncated if the line is too long.
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_row(*cells, Text(printable(" · ".join([*said, duration_text(round(time.monotonic() - since))]))))
        return table

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
            self._doing.append((name, time.monotonic()))
        elif self._doing:
            _, since = self._doing.pop()
            took = duration_text(round(time.monotonic() - since))
            self._console.print(Text.assemble(("✓ ", "green"), f"{printable(name)} ", (took, "dim")))


class _Steps(logging.Handler):
    def __init__(self, shown: LiveDisplay) -> None:
        super().__init__()
        self._shown = shown

    def emit(self, record: logging.LogRecord) -> None:
        if found := setup.step_in(record):
            self._shown.step(*found)


def _is_no_step(record: logging.LogRecord) -> bool:
    return setup.step_in(record) is None


def _with_details(told: Progress, before: Progress) -> Progress:
    told.details.update(before.details)
    return told


def _over_all(told: Progress) -> Recent:
    """Returns the speed averaged over the whole training."""
    recent = Recent()
    for seconds, steps, examples in ((0.0, 0.0, 0.0), (told.seconds, told.steps, told.examples)):
        recent.note_moment(seconds, steps, examples, {})
    return recent
