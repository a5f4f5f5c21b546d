"""Records the damaged checkpoints that the training moved aside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from ...checkpoints.damage import forget_damage, read_damage
from ...training.callbacks import RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class DamagedCheckpoints(RunCallback):
    """Adds them to the record, each as a `damage.Damage`, also if the training raises."""

    parts: ClassVar[Mapping[str, object]] = {"damaged_checkpoints": []}

    @contextlib.contextmanager
    def attempt(self, run: Run) -> Iterator[None]:
        """Adds them, in the chief of a cluster only: the other tasks move nothing."""
        try:
            yield
        finally:
            if run.place.is_chief:
                folder = run.folders.model_run_dir
                run.record.parts["damaged_checkpoints"] += [damage.to_json() for damage in read_damage(folder)]
                forget_damage(folder)
