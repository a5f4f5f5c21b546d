"""Resumes from an earlier checkpoint if the last one is damaged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...checkpoints.damage import damage_recorded
from ...checkpoints.synced import checkpoints_synced
from ...training.worker_callbacks import WorkerCallback
from .backups import backups_repaired
from .estimators import checkpoints_repaired
from .managers import managers_repaired


class CheckpointRepair(WorkerCallback):
    """Repairs the checkpoints of Estimators, `CheckpointManager` and `BackupAndRestore`."""

    order = 80

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Moves damaged checkpoints aside, and writes new ones so that they survive a power loss."""
        args = self.request.fn_args
        with (
            damage_recorded(args.checkpoint_dir, args.model_run_dir),
            checkpoints_repaired(),
            managers_repaired(),
            backups_repaired(self.request.source.files),
            checkpoints_synced(),
        ):
            yield
