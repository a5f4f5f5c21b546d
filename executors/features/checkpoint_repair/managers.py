"""Moves damaged checkpoints aside when a module creates a `tf.train.CheckpointManager`, before it restores one.

Keras 2's `BackupAndRestore` creates one, too.

    with managers_repaired():
        run_fn(fn_args)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from ...compat.patching import replaced
from ...distributed.tf_config import task_from_environment


def managers_repaired() -> contextlib.AbstractContextManager[None]:
    """Moves damaged checkpoints aside before a manager in the block reads its folder; in a cluster, its chief does."""
    import tensorflow as tf

    from ...checkpoints.fallback import newest_complete

    task = task_from_environment()
    is_owner = task is None or task.is_chief

    def create(
        original: Callable[..., None],
        manager: tf.train.CheckpointManager,
        checkpoint: object,
        directory: str | os.PathLike[str],
        *args: object,
        **options: object,
    ) -> None:
        newest_complete(os.fspath(directory), is_owner)
        original(manager, checkpoint, directory, *args, **options)

    return replaced(tf.train.CheckpointManager, "__init__", create)
