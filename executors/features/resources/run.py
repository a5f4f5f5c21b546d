"""Samples the resources of the worker."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from ...monitoring import progress_reports
from ...monitoring.live_state import written_state
from ...monitoring.resources import Usage
from ...training.callbacks import RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class Resources(RunCallback):
    """Watches the worker's process, and records a `resources.UsageRecord`; nothing on a Ray cluster."""

    parts: ClassVar[Mapping[str, object]] = {"resources": {}}

    @contextlib.contextmanager
    def attempt(self, run: Run) -> Iterator[None]:
        """Watches a process of this machine, in the chief of a cluster only."""
        if not run.place.is_chief or run.place.is_remote:
            yield
            return
        usage = Usage()
        folder, reports = os.path.dirname(run.record.path), run.variables.get(progress_reports.VARIABLE)
        try:
            with usage.sampled() as watch, written_state(folder, reports, usage):
                run.on_start.append(watch)
                yield
        finally:
            run.record.parts["resources"] = usage.to_json()
