"""Lets Estimators save checkpoints in the interval that is measured after a worker's death.

    with measured_interval_applied():
        run_fn(fn_args)

An interval that the module has set is kept: in the RunConfig, or by its own CheckpointSaverHook. RunConfig does not
record whether its default of 600 seconds was given explicitly, so 600 seconds count as the default.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..compat.tensorflow_estimator import configure
from ..monitoring.save_interval import measured_steps
from ..runtime.observers import observed_by
from .interception import EstimatorCall, EstimatorObserver

if TYPE_CHECKING:
    import tensorflow as tf

_DEFAULT_SECONDS = 600  # of RunConfig


def measured_interval_applied() -> contextlib.AbstractContextManager[object]:
    """Returns a context manager for the run; a no-op without a measured interval."""
    return contextlib.nullcontext() if measured_steps() is None else observed_by(_MeasuredInterval())


class _MeasuredInterval(EstimatorObserver):
    def train(self, call: EstimatorCall, proceed: Callable[[], tf.estimator.Estimator]) -> tf.estimator.Estimator:
        if call.estimator.config.save_checkpoints_secs == _DEFAULT_SECONDS:
            configure(call.estimator, save_checkpoints_steps=measured_steps())
        return proceed()
