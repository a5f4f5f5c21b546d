"""Lets one run at a time write to a model run folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...runtime.files import file_io
from ...training.callbacks import RunCallback
from ...training.run_lock import hold_run_lock

if TYPE_CHECKING:
    from ...training.run_state import Run


class RunLock(RunCallback):
    """Holds the lock of the model run folder, in the chief of a cluster only."""

    order = 0

    def __init__(self) -> None:
        self._first = contextlib.ExitStack()

    @contextlib.contextmanager
    def run(self, run: Run) -> Iterator[None]:
        """Locks the folder that the user named."""
        with self._first:
            if run.place.is_chief:
                self._first.enter_context(hold_run_lock(run.shown.model_run_dir))
            yield

    @contextlib.contextmanager
    def record(self, run: Run) -> Iterator[None]:
        """Locks the folder that is written to: that of an earlier run may have been moved away meanwhile."""
        self._first.close()
        if not run.place.is_chief:
            yield
            return
        file_io.makedirs(run.fn_args.model_run_dir)
        with hold_run_lock(run.fn_args.model_run_dir):
            yield
