"""Checks that this process has a working and a temporary folder, and that TensorFlow can run on this machine."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ...runtime.files.temporary_folder import require_temporary_folder
from ...runtime.process.surroundings import require_tensorflow_can_run, require_working_folder
from ...training.callbacks import Context, RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class Surroundings(RunCallback):
    """Raises an InputError before anything else is done; without it, the failure has a less helpful message."""

    order = 0

    def setup(self, run: Run) -> Context:
        """Checks the folders and TensorFlow."""
        require_working_folder()
        require_tensorflow_can_run()
        require_temporary_folder()
        return contextlib.nullcontext()
