"""Moves a damaged note on checkpoints aside, and records the damaged checkpoints that the training moved."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from ...checkpoints import fingerprint
from ...checkpoints.contents import IDENTITY
from ...checkpoints.damage import damage_recorded, forget_damage, read_damage, set_aside
from ...checkpoints.directory import FOLDER
from ...runtime.files import file_io
from ...training.callbacks import RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class DamagedCheckpoints(RunCallback):
    """Adds them to the record, each as a `damage.Damage`, also if the training raises."""

    parts: ClassVar[Mapping[str, object]] = {"damaged_checkpoints": []}

    @contextlib.contextmanager
    def record(self, run: Run) -> Iterator[None]:
        """Moves a damaged `checkpoint.json` aside, without which training could not be resumed.

        In a pipeline, the checkpoints of other trainings are elsewhere, so that the file decides nothing.
        """
        if run.place.is_chief and run.checkpoint_root is None and not run.fn_args.checkpoint_dir:
            _repair_fingerprint(run.fn_args.model_run_dir)
        yield

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


def _repair_fingerprint(model_run_dir: str) -> None:
    folder = os.path.join(model_run_dir, FOLDER)
    path = os.path.join(folder, IDENTITY)
    if fingerprint.read(folder) is None and file_io.exists(path):
        with damage_recorded(folder, model_run_dir):
            set_aside(path, "it is empty or garbled", "the checkpoints beside it are taken for this training's")
