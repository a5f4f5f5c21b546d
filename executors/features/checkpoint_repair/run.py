"""Records the damaged checkpoints that the training moved aside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...checkpoints.damage import forget_damage, read_damage
from ...training.callbacks import RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class DamagedCheckpoints(RunCallback):
    """Adds them to the record, also if the training raises."""

    @contextlib.contextmanager
    def attempt(self, run: Run) -> Iterator[None]:
        """Adds them, in the chief of a cluster only: the other tasks move nothing."""
        try:
            yield
        finally:
            if run.place.is_chief:
                folder = run.folders.model_run_dir
                run.record.damaged_checkpoints = [*run.record.damaged_checkpoints, *read_damage(folder)]
                forget_damage(folder)
