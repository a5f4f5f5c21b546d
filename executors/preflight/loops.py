"""Records the steps of the loops of Keras and of Estimators, and stops the loops after a few steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..estimator.interception import EstimatorCall, EstimatorObserver
from ..keras.fit_progress import batch_size
from ..keras.interception import KerasCall, KerasObserver, callback_class

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from .watch import Watch


STEPS = 8  # the first is traced, the second may be retraced; the others measure the time of a step
_INFINITE = -1  # tf.data.INFINITE_CARDINALITY


class Loops(KerasObserver, EstimatorObserver):
    """Stops trainings after one epoch or a few steps, and evaluations after one batch."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._is_planned = False  # whether train_and_evaluate's specs have set planned_steps

    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        """Limits `fit` to one epoch with one validation batch; records model, steps and batch size."""
        watch = self._watch
        if watch.in_loop:
            return proceed()
        given = call.arguments
        begin = given.get("initial_epoch", 0)
        epochs, steps_per_epoch = given.get("epochs", 1) - begin, given.get("steps_per_epoch")
        if steps_per_epoch:
            watch.planned_steps = (watch.planned_steps or 0) + epochs * steps_per_epoch
        else:
            watch.epochs = (watch.epochs or 0) + epochs
        given["epochs"] = begin + 1
        validation: object = given.get("validation_data")
        if hasattr(validation, "cardinality"):
            watch.evaluates_forever = not given.get("validation_steps") and int(validation.cardinality()) == _INFINITE
            given["validation_steps"] = 1
        call.add_callback(_step_callback(call.model, watch))
        watch.model = _describe(call.model)
        with watch.loop():
            history = proceed()
        watch.model = _describe(call.model)
        x = given.get("x")
        watch.batch_size = watch.batch_size or batch_size(x, given.get("batch_size")) or _size_of_first_batch(x)
        return history

    def train_and_evaluate(self, call: EstimatorCall, proceed: Callable[[], None]) -> None:
        """Limits the steps of both specs."""
        given = call.arguments
        requested = given["train_spec"].max_steps
        self._watch.planned_steps, self._is_planned = requested, True
        given["train_spec"] = given["train_spec"]._replace(max_steps=min(requested or STEPS, STEPS))
        given["eval_spec"] = given["eval_spec"]._replace(steps=1)
        proceed()

    def train(self, call: EstimatorCall, proceed: Callable[[], tf.estimator.Estimator]) -> tf.estimator.Estimator:
        """Limits `max_steps` and adds a hook that reports each step."""
        given = call.arguments
        requested = given.pop("steps", None) or given.get("max_steps")
        if not self._is_planned:
            self._watch.planned_steps = requested
        given["max_steps"] = min(requested or STEPS, STEPS)
        given["hooks"] = [*(given.get("hooks") or ()), _step_hook(self._watch)]
        estimator = proceed()
        self._watch.enter("training")
        return estimator

    def evaluate(self, call: Any, proceed: Callable[[], Any]) -> Any:
        """Limits the `evaluate` of an Estimator, or of Keras on a dataset, to one batch."""
        if isinstance(call, EstimatorCall) or hasattr(call.arguments.get("x"), "cardinality"):
            call.arguments["steps"] = 1
        before = self._watch.evaluations
        self._watch.enter("evaluation")
        values = proceed()
        self._watch.evaluations = max(self._watch.evaluations, before + 1)  # the callback counts those within fit
        if self._watch.in_loop:  # an evaluation between two training steps
            self._watch.enter("training")
        return values

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


def _size_of_first_batch(x: object) -> int:
    """Returns the batch size of a dataset without `batch`, such as one of a generator; 0 if it cannot be determined."""
    import tensorflow as tf

    try:
        batch = tf.nest.flatten(x.element_spec)[0]  # type: ignore[attr-defined]
        if batch.shape[0] is None:
            batch = tf.nest.flatten(next(iter(x.take(1))))[0]  # type: ignore[attr-defined]
        return int(batch.shape[0])
    except Exception:  # elements may have any structure, and the batch size is optional for the estimate
        return 0


def _step_callback(model: keras.Model, watch: Watch) -> keras.callbacks.Callback:
    class Steps(callback_class(model)):  # type: ignore[misc]
        """Reports each step, and stops training after enough steps."""

        _done = 0  # steps in this epoch; with steps_per_execution, a call reports several

        def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
            loss = (logs or {}).get("loss")
            steps, self._done = max(1, batch + 1 - self._done), batch + 1
            watch.step(float(loss) if loss is not None else None, steps)
            if watch.has_enough_steps():
                self.model.stop_training = True

        def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:
            watch.enter("evaluation")

        def on_test_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
            watch.evaluations += 1

        def on_test_end(self, logs: Mapping[str, float] | None = None) -> None:
            watch.enter("training")

    return Steps()


def _step_hook(watch: Watch) -> tf.compat.v1.train.SessionRunHook:
    from ..estimator.training_hooks import ProgressHook

    class Steps(ProgressHook):
        """Reports each step with its loss to the watch."""

        def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
            self._loop = contextlib.ExitStack()
            self._loop.enter_context(watch.loop())

        def after_run(
            self, run_context: tf.compat.v1.train.SessionRunContext, run_values: tf.compat.v1.train.SessionRunValues
        ) -> None:
            watch.step(float(run_values.results))

        def end(self, session: tf.compat.v1.Session) -> None:
            self._loop.close()

    return Steps(is_alone=True)


def _describe(model: keras.Model) -> str:
    """Returns a model's name and size: "model 'taxi', 1,234 weights"."""
    inner = getattr(model, "inner", model)  # the user's model, if a dialect wraps it
    try:
        weights = f", {inner.count_params():,} weights"
    except Exception:  # raised before the model is built
        weights = ""
    return f"model {inner.name!r}{weights}"
