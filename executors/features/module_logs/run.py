"""Moves the logs to the model run."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ...training.callbacks import Context, RunCallback
from .event_files import keep_module_logs

if TYPE_CHECKING:
    from ...training.run_state import Run


class ModuleLogs(RunCallback):
    """Moves the logs to the model run, in the chief of a cluster only."""

    order = 90

    def training(self, run: Run) -> Context:
        """Moves them, unless the cluster's evaluator may still write to the same directory."""
        return contextlib.nullcontext() if run.shared_staging else self.evaluator(run)

    def evaluator(self, run: Run) -> Context:
        """Moves those of the evaluator."""
        if not run.place.is_chief:
            return contextlib.nullcontext()
        return keep_module_logs(run.staging, run.folders.model_run_dir)
