"""Writes the report, and copies the files of a failed run."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ...reporting.writing import keep_failed_run, report_on_exit
from ...training.callbacks import Context, RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class Report(RunCallback):
    """Writes the report when the record is complete."""

    order = 30

    def record(self, run: Run) -> Context:
        """Writes it, in the chief of a cluster only."""
        if not run.place.is_chief:
            return contextlib.nullcontext()
        return report_on_exit(run.record, run.fn_args.model_run_dir, run.shown.model_run_dir)


class FailedRuns(RunCallback):
    """Keeps the files of a failed run, when the others have written them."""

    order = 5

    def record(self, run: Run) -> Context:
        """Keeps them, in a pipeline only."""
        return keep_failed_run(run.fn_args.model_run_dir) if run.checkpoint_root else contextlib.nullcontext()
