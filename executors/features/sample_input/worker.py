"""Collects one input of the training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...saved_models.sample_input import SampleInput, collect_sample_input
from ...training.worker_callbacks import WorkerCallback


class SampleInputs(WorkerCallback):
    """Collects the input that `set_sample_input` or a fit shows."""

    order = 20

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Collects it."""
        with collect_sample_input() as self._sample:
            yield

    def result(self, returned: object) -> SampleInput:
        """Returns the input."""
        return self._sample
