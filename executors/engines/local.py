"""The engine of one machine: runs the worker in a subprocess, or in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from . import child_process, fork_server
from .base import Engine, WorkerStart


class LocalEngine(Engine):
    """Runs the worker on this machine."""

    def prepare(self, variables: Mapping[str, str]) -> None:
        """Imports TensorFlow in the background."""
        if self.options.isolate:
            fork_server.prepare(variables)

    def execute(self, start: WorkerStart) -> Mapping[str, Any]:
        """Runs the worker in a subprocess, or with `isolate=False` in this process."""
        if not self.options.isolate:
            from . import in_process

            start.on_start(os.getpid())
            return in_process.run(start.worker, start.request, environment=start.variables)
        return child_process.run(
            start.worker,
            start.request,
            environment=start.variables,
            timeout=self.options.timeout,
            quiet=start.is_quiet,
            until=self.until,
            what=start.what or self.place.name,
            forked=True,
            on_start=start.on_start,
        )

    @property
    def until(self) -> Callable[[], bool] | None:
        """See `child_process.run`."""
        return None
