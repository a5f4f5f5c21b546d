"""Passes the input to the check of the model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...training.callbacks import RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class SampleForCheck(RunCallback):
    """Passes it."""

    def __init__(self) -> None:
        self._sample: Any = None

    def merge(self, part: Any, run: Run) -> None:
        """Keeps the input."""
        del run
        self._sample = part

    @contextlib.contextmanager
    def check(self, run: Run) -> Iterator[None]:
        """Passes the input, for a model that no eval example fits."""
        run.check_arguments["example"] = self._sample
        yield
