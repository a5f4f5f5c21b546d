"""Hooks for an Estimator's training, beside those of `tf.estimator`.

train_spec = watch_loss(train_spec)
tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf


class NanLossError(tf.train.NanLossDuringTrainingError):  # type: ignore[misc]
    """What TensorFlow raises when the loss is NaN, which says no more than that; this one says which loss and when."""

    def __str__(self) -> str:
        return str(self.args[0])


class NanLossHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Stops the training when the Estimator's loss is NaN, and says at which step.

    The Estimator itself adds a hook that stops it, with nothing but "NaN loss during training.". Hooks of a TrainSpec
    come before that one.
    """

    def begin(self) -> None:
        """Finds the loss: the Estimator puts the one of its EstimatorSpec last into the graph's losses."""
        self._loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]
        self._global_step = tf.train.get_global_step()

    def before_run(self, run_context: Any) -> Any:
        """Asks for the loss of this step."""
        del run_context
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Looks at it.

        Raises:
          NanLossError: When it is NaN.
        """
        if np.isnan(run_values.results).any():
            step = run_context.session.run(self._global_step)
            raise NanLossError(
                f"The loss {self._loss.name!r} is NaN at global step {step}. Look for a logarithm or a division of "
                "zero, for NaN in the input, or lower the learning rate; the last checkpoint is from before."
            )


def watch_loss(train_spec: Any) -> Any:
    """Returns a TrainSpec with a NanLossHook after its own hooks."""
    return train_spec._replace(hooks=(*train_spec.hooks, NanLossHook()))
