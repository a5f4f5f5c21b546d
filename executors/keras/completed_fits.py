"""Restores completed `fit` calls when a run is repeated after a later failure, for example in the export.

The state at the end of each `fit` is kept until the run's model is published. When a run that published no model is
repeated, the same `fit` calls restore these states and return the same History. The first call that differs, and all
calls after it, are trained. The module's code that runs before the end of the fit must be unchanged (`TrainingCode`),
so the export can be fixed without training again.

Usage, in the process that runs the module; innermost, so that all other observers see restored fits as well:

    with restored(fn_args, source):
        run_fn(fn_args)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..distributed.tf_config import task_from_environment
from ..modules.training_code import TrainingCode
from ..runtime.observers import observed_by
from .interception import may_use_keras

if TYPE_CHECKING:
    from ..fn_args import FnArgs
    from ..modules.source import ModuleSource


@contextlib.contextmanager
def restored(fn_args: FnArgs, source: ModuleSource) -> Iterator[None]:
    """Keeps the states at the end of the block's fits, and restores those of an earlier attempt.

    No-op with several workers, which resume from the checkpoints of `callbacks(fn_args)`.

    Args:
      fn_args: The arguments of `run_fn`.
      source: The module. Keras is not imported if it neither mentions nor imports it.
    """
    task = task_from_environment()
    is_alone = fn_args.num_workers == 1 and (task is None or task.num_workers == 1)
    if not fn_args.checkpoint_dir or not is_alone or not may_use_keras(source.files):
        yield
        return
    from .fit_store import FitKeeper  # imports TensorFlow

    with observed_by(FitKeeper(fn_args, TrainingCode(source.files, source.roots[-1]))):
        yield
