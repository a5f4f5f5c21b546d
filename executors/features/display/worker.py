"""Reports the progress of Keras and of Estimators."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from ...checkpoints.contents import EPOCHS
from ...estimator.measured_interval import measured_interval_applied
from ...keras.fit_progress import fit_progress_reported
from ...keras.step_count import EpochLog
from ...training.worker_callbacks import WorkerCallback


class FitProgress(WorkerCallback):
    """Reports each step."""

    order = 70

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Reports the steps, and measures how often an Estimator saves checkpoints."""
        args = self.request.fn_args
        folder = args.checkpoint_dir
        log = EpochLog(os.path.join(folder, EPOCHS) if folder else "", args.is_chief)
        with fit_progress_reported(self.request.source.files, log), measured_interval_applied():
            yield
