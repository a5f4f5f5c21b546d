"""Estimator hooks that end a training on SIGTERM and report its progress.

with deferred_sigterm():
    train_spec = train_spec._replace(hooks=(*train_spec.hooks, PreemptionHook(), ProgressHook()))
    eval_spec = eval_spec._replace(hooks=(*eval_spec.hooks, PreemptedEvaluationHook()))
    with contextlib.suppress(Preempted):
        tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.training import training_util

from ..monitoring.progress import report_details, report_progress
from ..runtime.process.preemption import Preempted, is_preempted


class PreemptionHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Ends a training after the step in which SIGTERM was received; the saver hook saves when the session ends."""

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Requests the session to stop after SIGTERM."""
        del run_values
        if is_preempted():
            run_context.request_stop()


class TrainingEndHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Reports the global step at which training is complete, unless SIGTERM ended it.

    The checkpoint of that step is saved next; the final evaluation and the exporters follow.

    Args:
      report: Called with the global step.
    """

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report

    def begin(self) -> None:
        """Gets the global step tensor."""
        self._step = tf.train.get_global_step()

    def end(self, session: tf.Session) -> None:
        """Reports the step."""
        if not is_preempted():
            self._report(int(session.run(self._step)))


def report_training_end(estimator: tf.estimator.Estimator, report: Callable[[int], None]) -> None:
    """Adds a `TrainingEndHook` to an Estimator's training, before the hooks that save, evaluate and export."""
    build = estimator._call_model_fn

    def call_model_fn(
        features: object, labels: object, mode: str, config: tf.estimator.RunConfig
    ) -> tf.estimator.EstimatorSpec:
        spec = build(features, labels, mode, config)
        if mode != tf.estimator.ModeKeys.TRAIN:
            return spec
        return spec._replace(training_chief_hooks=(TrainingEndHook(report), *spec.training_chief_hooks))

    estimator._call_model_fn = call_model_fn


class PreemptedEvaluationHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Aborts an evaluation after SIGTERM, because TensorFlow also evaluates the checkpoint saved at the end."""

    def begin(self) -> None:
        """Prevents an evaluation from starting.

        Raises:
          Preempted: If SIGTERM was received.
        """
        if is_preempted():
            raise Preempted

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Aborts the evaluation after any batch; raises like `begin`."""
        del run_context, run_values
        self.begin()


class ProgressHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Reports each step. With parameter servers, reports the global step and counts one step for this worker.

    Args:
      total: The last step, or None.
      is_alone: Whether only this process changes the global step, so that it can be counted instead of read.
    """

    def __init__(self, total: int | None = None, is_alone: bool = False) -> None:
        self._total, self._is_alone = total, is_alone
        self._step = 0

    def begin(self) -> None:
        """Gets the global step as read before the step updates it, and the loss, which NanLossHook fetches as well."""
        self._step_before = training_util._get_or_create_global_step_read()
        self._loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Reports the step at which training starts."""
        del coord
        self._step = int(session.run(self._step_before))
        report_progress(self._step, steps=0, total=self._total)

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        """Fetches the loss, and the global step if other workers change it, too."""
        del run_context
        return tf.train.SessionRunArgs(self._loss if self._is_alone else [self._loss, self._step_before])

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Reports the step and the loss."""
        del run_context
        loss, before = (run_values.results, self._step) if self._is_alone else run_values.results
        self._step = int(before) + 1
        report_progress(self._step, steps=1, metrics={"loss": loss} if np.ndim(loss) == 0 else None)


class EvaluationHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Reports that an evaluation is in progress."""

    def begin(self) -> None:
        """Reports the beginning of the evaluation."""
        report_details(doing="evaluating")

    def end(self, session: tf.Session) -> None:
        """Reports the end of the evaluation."""
        del session
        report_details(doing=None)
