"""Adds the note."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...training.after_publishing import note_published_model
from ...training.callbacks import Context, RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class PublishedNote(RunCallback):
    """Adds the note."""

    order = 10

    def run(self, run: Run) -> Context:
        """Notes the path that the user named; outside of an upload to it."""
        return note_published_model(lambda: run.fn_args.serving_model_dir if run.is_published else "")
