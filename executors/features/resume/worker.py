"""Restores the completed fits of an earlier attempt."""

from __future__ import annotations

import contextlib
import os

from ...checkpoints.contents import FINISHED_FITS, UNPUBLISHED
from ...distributed.tf_config import task_from_environment
from ...keras.interception import may_use_keras
from ...runtime.observers import observed_by
from ...training.worker_callbacks import Context, WorkerCallback
from .training_code import TrainingCode


class CompletedFits(WorkerCallback):
    """Restores them; innermost, as the others observe restored fits as well."""

    order = 90

    def around(self) -> Context:
        """Restores them, except with several workers, which resume from the checkpoints of `callbacks(fn_args)`."""
        args, source, task = self.request.fn_args, self.request.source, task_from_environment()
        is_alone = args.num_workers == 1 and (task is None or task.num_workers == 1)
        if not args.checkpoint_dir or not is_alone or not may_use_keras(source.files):
            return contextlib.nullcontext()
        from .completed_fits import FitKeeper  # imports TensorFlow

        folder = os.path.join(args.checkpoint_dir, UNPUBLISHED, FINISHED_FITS)
        return observed_by(FitKeeper(folder, TrainingCode(source.files, source.roots[-1])))
