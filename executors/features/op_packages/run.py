"""Keeps the imported packages out of the record, as the check of the model records those that the model needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...training.callbacks import RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class NeededPackages(RunCallback):
    """Leaves the packages in the worker's result, from which the check of the model takes them."""

    def merge(self, part: Any, run: Run) -> None:
        """Records nothing."""
