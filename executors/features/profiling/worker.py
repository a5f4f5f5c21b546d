"""Profiles a few seconds of the training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...monitoring import profiling
from ...training.worker_callbacks import WorkerCallback


class Profiler(WorkerCallback):
    """Profiles it, with the option `profile`."""

    order = 0

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Profiles it."""
        with profiling.profiled(self.request.fn_args.model_run_dir, self.request.options.profile) as self._profile:
            yield

    def result(self, returned: object) -> dict[str, object]:
        """Returns the time per step by activity."""
        return self._profile.record
