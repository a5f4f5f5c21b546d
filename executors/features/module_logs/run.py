"""Keeps event files and folders that a module writes next to its model instead of to `fn_args.model_run_dir`.

Older TFX examples log to `os.path.dirname(fn_args.serving_model_dir)` or its parent folder, and Estimators log to
`fn_args.serving_model_dir` itself. During training these folders are in the staging directory. Files next to the model
are published, so their event files are copied to the model run, where metrics, report and TensorBoard look for them.
Files one folder higher are not published; they are moved to the model run.
    <staging>/written/Format-Serving/eval/events…    copied to <model run>/outputs/Format-Serving/eval/events…
    <staging>/written/logs/train/events…             copied to <model run>/outputs/logs/train/events…
    <staging>/logs/train/events…                     moved to <model run>/logs/train/events…
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl import logging

from ...monitoring.metrics import event_files_below
from ...runtime.files import file_io
from ...saved_models.staging import Staging
from ...training.callbacks import Context, RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run

FOLDER = "outputs"  # not the model's name, because Estimators keep checkpoints in a folder of that name


class ModuleLogs(RunCallback):
    """Moves the logs to the model run, in the chief of a cluster only."""

    order = 90

    def training(self, run: Run) -> Context:
        """Moves them, unless the cluster's evaluator may still write to the same directory."""
        return contextlib.nullcontext() if run.shared_staging else self.evaluator(run)

    def evaluator(self, run: Run) -> Context:
        """Moves those of the evaluator."""
        if not run.place.is_chief:
            return contextlib.nullcontext()
        return keep_module_logs(run.staging, run.folders.model_run_dir)


@contextlib.contextmanager
def keep_module_logs(staging: Staging, model_run_dir: str) -> Iterator[None]:
    """Copies or moves what the block's module wrote around its model to the model run, even if the block raises."""
    try:
        yield
    finally:
        try:
            _copy_event_files(staging.written, model_run_dir)
            _move_others(staging, model_run_dir)
        except OSError as error:  # must not fail a trained run, nor hide the block's exception
            logging.warning("Logs next to the model could not be saved to %s. %s", model_run_dir, error)


def _copy_event_files(folder: str, model_run_dir: str) -> None:
    for name in event_files_below(folder):
        file_io.copy(os.path.join(folder, name), os.path.join(model_run_dir, FOLDER, name))


def _move_others(staging: Staging, model_run_dir: str) -> None:
    for name in staging.misplaced_files():
        target = _unused_path(os.path.join(model_run_dir, name))
        file_io.move(os.path.join(staging.path, name), target)
        logging.info("The module wrote %s two folders above its model. It was moved to %s.", name, target)


def _unused_path(path: str) -> str:
    number, free = 1, path
    while file_io.exists(free):
        number, free = number + 1, f"{path}.{number}"
    return free
