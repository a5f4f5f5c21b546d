"""Hooks by which an Estimator's training heeds SIGTERM, and tells how far it is.

with heeded():
    train_spec = train_spec._replace(hooks=(*train_spec.hooks, EndIfAskedHook(), ProgressHook()))
    eval_spec = eval_spec._replace(hooks=(*eval_spec.hooks, NoMoreEvaluationHook()))
    with contextlib.suppress(Preempted):
        tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.training import training_util

from ..monitoring.progress import report_details, report_progress
from ..runtime.process.preemption import Preempted, asked


class EndIfAskedHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Ends a training after the step in which SIGTERM has come: the hook that saves does so when the session ends."""

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Has the session end."""
        del run_values
        if asked():
            run_context.request_stop()


class TrainedHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Notes the step with which training is over, unless SIGTERM ended it.

    The checkpoint of that step is saved next; the final evaluation and the exporters follow.

    Args:
      note: Called with the step.
    """

    def __init__(self, note: Callable[[int], None]) -> None:
        self._note = note

    def begin(self) -> None:
        """Finds the global step."""
        self._step = tf.train.get_global_step()

    def end(self, session: tf.Session) -> None:
        """Notes it."""
        if not asked():
            self._note(int(session.run(self._step)))


def note_end(estimator: tf.estimator.Estimator, note: Callable[[int], None]) -> None:
    """Has a `TrainedHook` look at an Estimator's training, ahead of what saves, evaluates and exports at its end."""
    build = estimator._call_model_fn

    def call_model_fn(
        features: object, labels: object, mode: str, config: tf.estimator.RunConfig
    ) -> tf.estimator.EstimatorSpec:
        spec = build(features, labels, mode, config)
        if mode != tf.estimator.ModeKeys.TRAIN:
            return spec
        return spec._replace(training_chief_hooks=(TrainedHook(note), *spec.training_chief_hooks))

    estimator._call_model_fn = call_model_fn


class NoMoreEvaluationHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Leaves an evaluation when SIGTERM has come: TensorFlow evaluates what it has just saved, also at the end."""

    def begin(self) -> None:
        """Does not begin one.

        Raises:
          Preempted: When SIGTERM has come.
        """
        if asked():
            raise Preempted

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Leaves it after any of its batches; raises as above."""
        del run_context, run_values
        self.begin()


class ProgressHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Reports each step; with parameter servers the global one, and that one of those since was this worker's.

    Args:
      total: The step that is to be the last, or None.
      is_alone: Whether nobody else changes the global step, so that it can be counted instead of read.
    """

    def __init__(self, total: int | None = None, is_alone: bool = False) -> None:
        self._total, self._is_alone = total, is_alone
        self._step = 0

    def begin(self) -> None:
        """Finds the global step as it is before a step changes it, and the loss, which NanLossHook asks for as well."""
        self._step_before = training_util._get_or_create_global_step_read()
        self._loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Reports where training begins."""
        del coord
        self._step = int(session.run(self._step_before))
        report_progress(self._step, steps=0, total=self._total)

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        """Asks for the loss, and for the step where others change it, too."""
        del run_context
        return tf.train.SessionRunArgs(self._loss if self._is_alone else [self._loss, self._step_before])

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Reports them."""
        del run_context
        loss, before = (run_values.results, self._step) if self._is_alone else run_values.results
        self._step = int(before) + 1
        report_progress(self._step, steps=1, metrics={"loss": loss} if np.ndim(loss) == 0 else None)


class EvaluationHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Says that the Estimator is evaluated, for as long as it is."""

    def begin(self) -> None:
        """Says so."""
        report_details(doing="evaluating")

    def end(self, session: tf.Session) -> None:
        """Says that it is over."""
        del session
        report_details(doing=None)
