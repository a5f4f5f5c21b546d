"""Hooks by which an Estimator's training heeds SIGTERM, and tells how far it is.

with heeded():
    train_spec = train_spec._replace(hooks=(*train_spec.hooks, EndIfAskedHook(), ProgressHook()))
    eval_spec = eval_spec._replace(hooks=(*eval_spec.hooks, NoMoreEvaluationHook()))
    with contextlib.suppress(Preempted):
        tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.training import training_util

from ..preemption import Preempted, asked
from ..progress import report_progress


class EndIfAskedHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Ends a training after the step in which SIGTERM has come: the hook that saves does so when the session ends."""

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Has the session end."""
        del run_values
        if asked():
            run_context.request_stop()


class NoMoreEvaluationHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Leaves an evaluation when SIGTERM has come: TensorFlow evaluates what it has just saved, also at the end."""

    def begin(self) -> None:
        """Does not begin one.

        Raises:
          Preempted: When SIGTERM has come.
        """
        if asked():
            raise Preempted

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Leaves it after any of its batches; raises as above."""
        del run_context, run_values
        self.begin()


class ProgressHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Reports each step; with parameter servers the global one, and that one of those since was this worker's."""

    def begin(self) -> None:
        """Finds the global step as it is before a step changes it."""
        self._step_before = training_util._get_or_create_global_step_read()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Reports where training begins."""
        del coord
        report_progress(int(session.run(self._step_before)), steps=0)

    def before_run(self, run_context: Any) -> Any:
        """Asks for the step."""
        del run_context
        return tf.train.SessionRunArgs(self._step_before)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Reports it."""
        del run_context
        report_progress(int(run_values.results) + 1, steps=1)
