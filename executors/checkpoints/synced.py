"""Syncs the checkpoints of a training, so that a power loss leaves the newest complete one.

    with checkpoints_synced():
        run_fn(fn_args)

A checkpoint's data is synced before the `checkpoint` state file lists it, and both before an older checkpoint is
deleted, in the thread that writes the checkpoint. This holds for all checkpoints that TensorFlow lists in a state file:
those of `AsyncCheckpoints`, of Estimators, and of a module's own `tf.train.CheckpointManager` or `Saver`.
"""

from __future__ import annotations

import contextlib
import glob

from ..compat.tensorflow import checkpoint_states_written_by
from ..runtime.files import durable, file_io


def checkpoints_synced() -> contextlib.AbstractContextManager[None]:
    """Syncs the checkpoints that are written in the block."""
    return checkpoint_states_written_by(sync_checkpoint, file_io.write_text)


def sync_checkpoint(prefix: str) -> None:
    """Syncs the files of a checkpoint and the folders that contain them; a no-op for a remote one.

    Raises:
      OSError: If the disk fails or is full.
    """
    if file_io.is_remote(prefix):
        return
    for path in file_io.glob(f"{glob.escape(prefix)}.*"):
        durable.sync(path)
    durable.sync_parents(prefix)
