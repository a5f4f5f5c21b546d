"""The record of a pipeline step that failed before its arguments were known."""

from __future__ import annotations

import contextlib

from ..checkpoints.directory import step_checkpoint_root
from ..engines.base import Engine
from ..fn_args import FnArgs
from ..options import TrainingOptions
from .callbacks import RECORD, Callbacks
from .run_state import Run


def record_failure(error: Exception, module: str, folder: str) -> None:
    """Writes the record of a step that failed before `train` wrote one; the error's traceback stays as it is.

    Args:
      error: The exception.
      module: The module's reference, or "".
      folder: The model run folder.
    """
    traceback, options, args = error.__traceback__, TrainingOptions(), FnArgs(model_run_dir=folder)
    run = Run(module, options, args, args, None, step_checkpoint_root(folder), (), Engine(options))
    run.record.code = {"reference": module}
    with contextlib.suppress(Exception), Callbacks(run.record)(RECORD, run), run.record.written_to(folder):
        raise error
    error.__traceback__ = traceback
