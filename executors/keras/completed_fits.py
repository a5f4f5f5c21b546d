"""Fits that have ended are not trained again: a run that failed later on, in the export say, resumes behind them.

The state in which each `fit` of a run ended is kept until the run's model is published. When a run that published
nothing is run again, the same calls of `fit` restore these states and return the same History. The first call that
differs, and all that follow it, train. Of the module's code, what has run by then has to be the same (`TrainingCode`):
so an export can be mended without training again.

Usage, where the module runs, inside of all other observers, which see restored fits as well:

    with kept(fn_args, source):
        run_fn(fn_args)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..distributed.tf_config import task_from_environment
from ..modules.training_code import TrainingCode
from .interception import may_use_keras, observed_by

if TYPE_CHECKING:
    from ..fn_args import FnArgs
    from ..modules.source import ModuleSource


@contextlib.contextmanager
def kept(fn_args: FnArgs, source: ModuleSource) -> Iterator[None]:
    """Keeps the states in which the fits of a block end, and restores those of an earlier try.

    Only on one machine: several workers resume from what `callbacks(fn_args)` saves.

    Args:
      fn_args: What the module is given.
      source: The module. Keras is not imported for one that does not name it.
    """
    task = task_from_environment()
    is_alone = fn_args.num_workers == 1 and (task is None or task.num_workers == 1)
    if not fn_args.checkpoint_dir or not is_alone or not may_use_keras(source.files):
        yield
        return
    from .fit_store import FitKeeper  # imports TensorFlow

    with observed_by(FitKeeper(fn_args, TrainingCode(source.files, source.roots[-1]))):
        yield
