"""Moves damaged checkpoints of Estimators aside that the module itself creates, before they restore one.

with checkpoints_repaired():
    run_fn(fn_args)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...distributed.tf_config import task_from_environment
from ...estimator.interception import EstimatorCall, EstimatorObserver
from ...runtime.observers import observed_by

if TYPE_CHECKING:
    import tensorflow as tf


def checkpoints_repaired() -> contextlib.AbstractContextManager[object]:
    """Moves damaged checkpoints aside before an Estimator trains in the block; in a cluster, its chief does."""
    task = task_from_environment()
    return observed_by(_Repair()) if task is None or task.is_chief else contextlib.nullcontext()


class _Repair(EstimatorObserver):
    def train(self, call: EstimatorCall, proceed: Callable[[], tf.estimator.Estimator]) -> tf.estimator.Estimator:
        from ...checkpoints.fallback import newest_complete  # imports TensorFlow

        newest_complete(call.estimator.model_dir)
        return proceed()
