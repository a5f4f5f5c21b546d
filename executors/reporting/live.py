"""The page of a running training: progress, curves, resources, and the end of the log.

html_of(live_report("out/model_run"))
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import InputError
from ..monitoring import live_state, run_record
from ..runtime.files import file_io
from ..runtime.logs.redaction import masked_text
from ..runtime.logs.setup import LOG_NAME
from ..runtime.quantities import duration_text
from .build import report_of
from .document import WARN, Block, Chart, Code, Facts, Note, Report, Section
from .model_sections import arguments_section
from .quantities import share
from .training_sections import resources_section
from .values import module_name

if TYPE_CHECKING:
    from ..monitoring.run_record import RunRecord

RUNNING = "running"
_LOG_BYTES = 16_000  # of the end of the log
_SILENT_SECONDS = 15.0  # without a new state: the process that writes it is stopped or dead


def live_report(folder: str) -> Report:
    """Returns the page of a model run: the state of its training while it runs, else its report."""
    record = run_record.read(folder)
    if record.status != RUNNING:
        return report_of(folder, record)
    sections = (*_sections(record, folder), Section("log", "Log", (Code("Last lines", _log_of(folder), folded=False),)))
    return Report(
        f"Training of {module_name(record)}",
        RUNNING,
        [("Updated", time.strftime("%H:%M:%S"))],
        [one for one in (*sections, arguments_section(record)) if one],
    )


def _sections(record: RunRecord, folder: str) -> Iterator[Section]:
    try:
        state = live_state.read_state(folder)
    except (InputError, OSError) as error:
        yield Section("progress", "Progress", (Note(str(error), WARN),))
        return
    if state is None:
        phases = ", ".join(record.phases) or "none"
        yield Section("progress", "Progress", (Note(f"No training process is running. Finished phases: {phases}."),))
        return
    blocks: list[Block] = [Note(state["line"] or "The training process has not reported any progress yet.")]
    if state["share"] is not None:
        blocks.insert(0, Facts([("Done", share(state["share"]))], tiles=True))
    silent = time.time() - state["time"]
    if silent > _SILENT_SECONDS:
        ago = duration_text(round(silent))
        blocks.append(Note(f"The last sign of life was {ago} ago: the command was stopped or killed.", WARN))
    steps = state["steps"]
    charts = [
        Chart(name, "step", steps, {"train": values})
        for name, values in state["curves"].items()
        if len(values) == len(steps) > 1
    ]
    yield Section("progress", "Progress", blocks)
    yield Section("curves", "Curves", charts)
    yield resources_section(state["resources"])


def _log_of(folder: str) -> str:
    path = os.path.join(folder, LOG_NAME)
    if not file_io.exists(path) or file_io.is_remote(path):
        return ""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - _LOG_BYTES))
        text = file.read().decode("utf-8", "replace")
    _, _, whole_lines = text.partition("\n") if len(text) >= _LOG_BYTES else ("", "", text)
    return masked_text(whole_lines)
