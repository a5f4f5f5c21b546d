"""Calls a function before the first write of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..executors.training.callbacks import RunCallback

if TYPE_CHECKING:
    from ..executors.training.run_state import Run


class OnStart(RunCallback):
    """Calls a function when every precondition holds, before the first write; it may move the model run away."""

    order = 25

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    @contextlib.contextmanager
    def run(self, run: Run) -> Iterator[None]:
        """Calls it, in the chief of a cluster as in other tasks."""
        self._function()
        yield
