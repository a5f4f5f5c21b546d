"""Notes on an interrupt of a run that its model had already been published."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ...training.callbacks import Context, RunCallback
from ...training.published_model import note_published_model

if TYPE_CHECKING:
    from ...training.run_state import Run


class PublishedNote(RunCallback):
    """Notes on an interrupt where the model had already been published."""

    order = 10

    def run(self, run: Run) -> Context:
        """Adds nothing if the model is published to a local copy, which is uploaded when the run has succeeded."""
        if run.fn_args is not run.shown:
            return contextlib.nullcontext()
        return note_published_model(lambda: run.shown.serving_model_dir if run.is_published else "")
