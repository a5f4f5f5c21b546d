"""Replaces the paths of a run by those of local copies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...training.callbacks import Context, RunCallback
from .copies import UploadedOutputs, local_copies, needs_copies, require_single_machine

if TYPE_CHECKING:
    from ...training.run_state import Run


class ObjectStores(RunCallback):
    """Replaces the arguments of the run, and uploads its outputs."""

    order = 30
    publishes = True

    def __init__(self) -> None:
        self._outputs: UploadedOutputs | None = None

    @contextlib.contextmanager
    def setup(self, run: Run) -> Iterator[None]:
        """Downloads the inputs."""
        if not needs_copies(run.fn_args):
            yield
            return
        if run.place.in_cluster:
            require_single_machine(run.fn_args)
        with local_copies(run.fn_args) as (run.fn_args, self._outputs):
            yield

    def run(self, run: Run) -> Context:
        """Uploads the model run from time to time, and all outputs at the end."""
        del run
        return self._outputs.uploaded() if self._outputs else contextlib.nullcontext()
