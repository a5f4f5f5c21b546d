"""Records training, evaluation and export of Estimators, and stops their loops after a few steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..estimator.interception import EstimatorCall, EstimatorObserver

if TYPE_CHECKING:
    import tensorflow as tf

    from ..estimator.interception import Results
    from .watch import Watch


class EstimatorWatch(EstimatorObserver):
    """Stops training after a few steps, and evaluation after one batch."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._is_planned = False  # whether train_and_evaluate's specs have set planned_steps

    def train_and_evaluate(self, call: EstimatorCall, proceed: Callable[[], None]) -> None:
        """Limits the steps of both specs."""
        given = call.arguments
        requested, limit = given["train_spec"].max_steps, self._watch.max_steps
        self._watch.planned_steps, self._is_planned = requested, True
        given["train_spec"] = given["train_spec"]._replace(max_steps=min(requested or limit, limit))
        given["eval_spec"] = given["eval_spec"]._replace(steps=1)
        proceed()

    def train(self, call: EstimatorCall, proceed: Callable[[], tf.estimator.Estimator]) -> tf.estimator.Estimator:
        """Limits `max_steps` and adds a hook that reports each step."""
        given = call.arguments
        requested, limit = given.get("steps") or given.get("max_steps"), self._watch.max_steps
        if not self._is_planned:
            self._watch.planned_steps = requested
        given.pop("steps", None)
        given["max_steps"] = min(requested or limit, limit)
        given["hooks"] = [*(given.get("hooks") or ()), _step_hook(self._watch)]
        estimator = proceed()
        self._watch.enter("training")
        return estimator

    def evaluate(self, call: EstimatorCall, proceed: Callable[[], Results]) -> Results:
        """Evaluates one batch."""
        call.arguments["steps"] = 1
        self._watch.enter("evaluation")
        results = proceed()
        self._watch.evaluations += 1
        if self._watch.in_loop:  # an evaluation after a checkpoint, between two training steps
            self._watch.enter("training")
        return results

    def call_model_fn(
        self, call: EstimatorCall, proceed: Callable[[], tf.estimator.EstimatorSpec]
    ) -> tf.estimator.EstimatorSpec:
        """Records the number of weights in the graph."""
        import tensorflow as tf

        spec = proceed()
        if not self._watch.model:
            weights = sum(variable.shape.num_elements() or 0 for variable in tf.compat.v1.trainable_variables())
            self._watch.model = f"{type(call.estimator).__name__}, {weights:,} weights"
        return spec

    def export(self, call: EstimatorCall, proceed: Callable[[], object]) -> object:
        """Records the export's folder."""
        in_loop, self._watch.in_loop = self._watch.in_loop, False
        try:
            self._watch.record_save(str(call.arguments["export_dir_base"]))
            return proceed()
        finally:
            self._watch.in_loop = in_loop


def _step_hook(watch: Watch) -> tf.compat.v1.train.SessionRunHook:
    import tensorflow as tf

    v1 = tf.compat.v1

    class Steps(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
        """Reports each step, with the last loss in the graph's LOSSES collection if there is one."""

        def begin(self) -> None:
            losses = v1.get_collection(v1.GraphKeys.LOSSES)
            self._loss = losses[-1] if losses else None

        def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
            del session, coord
            self._stack = contextlib.ExitStack()
            self._stack.enter_context(watch.loop())

        def before_run(
            self, run_context: tf.compat.v1.train.SessionRunContext
        ) -> tf.compat.v1.train.SessionRunArgs | None:
            del run_context
            return None if self._loss is None else v1.train.SessionRunArgs(self._loss)

        def after_run(
            self, run_context: tf.compat.v1.train.SessionRunContext, run_values: tf.compat.v1.train.SessionRunValues
        ) -> None:
            del run_context
            watch.step(float(run_values.results) if self._loss is not None else None)

        def end(self, session: tf.compat.v1.Session) -> None:
            del session
            self._stack.close()

    return Steps()
