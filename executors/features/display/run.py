"""Passes a progress file to the worker, and displays what is in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl import logging

from ...monitoring import display, progress_reports
from ...runtime.logs.setup import in_notebook, notebook_log_filter
from ...runtime.process.run_environment import inherited_environment
from ...training.callbacks import RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class ProgressDisplay(RunCallback):
    """Passes a progress file to the worker, and displays what is in it."""

    order = 10  # surrounds callbacks that read the file

    @contextlib.contextmanager
    def setup(self, run: Run) -> Iterator[None]:
        """Displays the phases; in a notebook, shows logs as the commands do, and the record as HTML."""
        run.shown_phase = lambda phase: display.current().phase(phase)
        if in_notebook():
            from .notebook import register

            register()
        with notebook_log_filter(run.fn_args.model_run_dir):
            yield

    @contextlib.contextmanager
    def attempt(self, run: Run) -> Iterator[None]:
        """Displays the progress, in the chief of a cluster only."""
        is_shown = not run.place.is_remote or display.current().is_live
        others_watch = progress_reports.VARIABLE in inherited_environment()
        if not run.place.is_chief or not is_shown or others_watch:
            yield
            return
        logs_folder, final = run.folders.model_run_dir, os.path.dirname(run.record.path)
        if logs_folder == final:
            logging.info("TensorBoard logs go to %s.", final)
        else:
            logging.info("TensorBoard logs go to %s, and are moved to %s after the training.", logs_folder, final)
        with display.watched_training() as variables:
            run.variables |= variables
            yield
