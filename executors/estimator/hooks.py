"""Additional hooks for Estimator trainings: NaN loss and early stopping.

train_spec = watch_loss(train_spec)
tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow.compat.v1 as tf

from ..compat.tensorflow_estimator import read_eval_metrics
from ..errors import InputError, did_you_mean
from ..goals import Goal
from ..runtime.rate_limiter import RateLimiter

_CHECK_STEPS = 100  # for several workers, which cannot check by time because their clocks differ


class NanLossError(tf.train.NanLossDuringTrainingError):  # type: ignore[misc]
    """TensorFlow's NaN error with a message that names the loss and the step; the base class has a fixed message."""

    def __str__(self) -> str:
        return str(self.args[0])


class NanLossHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Stops the training if the Estimator's loss is NaN, with an error that names the global step.

    The Estimator itself adds a hook that fails with only "NaN loss during training.". Hooks of a TrainSpec run before
    it.
    """

    def begin(self) -> None:
        """Gets the loss: the Estimator adds the loss of its EstimatorSpec last to the graph's losses."""
        self._loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]
        self._global_step = tf.train.get_global_step()

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        """Fetches the loss of this step."""
        del run_context
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Checks the loss.

        Raises:
          NanLossError: If it is NaN.
        """
        if np.isnan(run_values.results).any():
            step = run_context.session.run(self._global_step)
            raise NanLossError(
                f"The loss {self._loss.name!r} is NaN at global step {step}. Check for a logarithm of zero, a "
                "division by zero or NaN in the input, or lower the learning rate; the last checkpoint is from an "
                "earlier step."
            )


def watch_loss(train_spec: tf.estimator.TrainSpec) -> tf.estimator.TrainSpec:
    """Returns a TrainSpec with a NanLossHook after its own hooks."""
    return train_spec._replace(hooks=(*train_spec.hooks, NanLossHook()))


def early_stopping_hook(
    estimator: tf.estimator.Estimator, eval_spec: tf.estimator.EvalSpec, goal: Goal
) -> tf.train.SessionRunHook:
    """Returns a hook that ends a training when an evaluation's metric stops improving.

    Args:
      estimator: The tf.estimator.Estimator.
      eval_spec: Its EvalSpec; the metrics are read from the event files of evaluations.
      goal: The metric and its patience, in evaluations.
    """
    folder = estimator.eval_dir(eval_spec.name)

    def is_over() -> bool:
        found = read_eval_metrics(folder)
        for step, metrics in found.items():
            if goal.metric not in metrics:
                raise InputError(
                    f"early_stop={goal}: the evaluation at step {step} has no metric {goal.metric!r}; it has "
                    f"{', '.join(sorted(metrics))}.{did_you_mean(goal.metric, metrics)}"
                )
        return goal.is_over([metrics[goal.metric] for metrics in found.values()])

    config = estimator.config
    if not (config.cluster_spec or config.train_distribute):
        return _EndHook(is_over)
    # The chief stops several workers through a variable, which checkpoints written without this hook lack.
    every = {"run_every_secs": None, "run_every_steps": _CHECK_STEPS} if config.train_distribute else {}
    return tf.estimator.experimental.make_early_stopping_hook(estimator, is_over, **every)


class _EndHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Ends a training if a function, called about once a second, returns True."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self._is_over = is_over
        self._due = RateLimiter()

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Calls the function if that is due."""
        del run_values
        if self._due.is_due() and self._is_over():
            run_context.request_stop()
