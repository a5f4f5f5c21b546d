"""Profiles a few seconds of the training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...training.worker_callbacks import WorkerCallback
from .profile import Profile


class Profiler(WorkerCallback):
    """Profiles it, with the option `profile`."""

    order = 0

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Profiles it."""
        self._profile = Profile(self.request.fn_args.model_run_dir)
        with self._profile.taken() if self.request.options.profile else contextlib.nullcontext():
            yield

    def result(self, returned: object) -> dict[str, object]:
        """Returns the time per step by activity."""
        return self._profile.record
