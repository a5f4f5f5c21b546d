"""Writes the report, and copies the files of a failed run."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from ...engines import child_process
from ...errors import TrainingProcessError
from ...reporting.writing import keep_failed_run, report_on_exit, write_report
from ...training.callbacks import Context, RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run

_PROCESS = f"{__package__}.process"
_TIMEOUT = 60.0  # seconds; a report takes less than one


class Report(RunCallback):
    """Writes the report when the record is complete."""

    order = 30

    def record(self, run: Run) -> Context:
        """Writes it, in the chief of a cluster only."""
        if not run.place.is_chief:
            return contextlib.nullcontext()
        args, shown = run.fn_args, run.shown
        return report_on_exit(run.record, args.model_run_dir, shown.model_run_dir, functools.partial(_write, run))


def _write(run: Run, folder: str) -> None:
    """Writes it in a subprocess, which the run's fork server starts without imports, or here if that fails."""
    if run.options.isolate and not run.place.is_remote:
        # It ends by a signal to all processes or for lack of memory or time, or no thread can be started for it.
        with contextlib.suppress(TrainingProcessError, MemoryError, RuntimeError):
            child_process.run(
                _PROCESS,
                {"folder": folder},
                environment=run.keras.environment(),
                timeout=_TIMEOUT,
                what="report",
                forked=True,
            )
            return
    write_report(folder)


class FailedRuns(RunCallback):
    """Keeps the files of a failed run, when the others have written them."""

    order = 5

    def record(self, run: Run) -> Context:
        """Keeps them, in a pipeline only."""
        return keep_failed_run(run.fn_args.model_run_dir) if run.checkpoint_root else contextlib.nullcontext()
