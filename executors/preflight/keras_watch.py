"""Records the steps of Keras's `fit` and `evaluate`, and stops them after a few; for Keras 2 and 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..keras.interception import KerasCall, KerasObserver, callback_class

if TYPE_CHECKING:
    import keras
    import numpy as np
    import tensorflow as tf

    from .watch import Watch


_INFINITE = -1  # tf.data.INFINITE_CARDINALITY


class KerasWatch(KerasObserver):
    """Stops `fit` after one epoch or a few steps, and `evaluate` after one batch."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        """Limits `fit` to one epoch with one validation batch; records model, steps and batch size."""
        if self._watch.in_loop:
            return proceed()
        given = call.arguments
        begin = given.get("initial_epoch", 0)
        self._plan(given.get("epochs", 1) - begin, given.get("steps_per_epoch"))
        given["epochs"] = begin + 1
        validation: object = given.get("validation_data")
        if hasattr(validation, "cardinality"):
            self._watch.evaluates_forever = (
                not given.get("validation_steps") and int(validation.cardinality()) == _INFINITE
            )
            given["validation_steps"] = 1
        call.add_callback(_step_callback(call.model, self._watch))
        self._watch.model = _describe(call.model)
        with self._watch.loop():
            history = proceed()
        self._watch.model = _describe(call.model)
        if self._watch.batch_size is None:
            self._watch.batch_size = _batch_size(given.get("x"), given.get("batch_size"))
        return history

    def evaluate(self, call: KerasCall, proceed: Callable[[], object]) -> object:
        """Limits `evaluate` on a dataset to one batch."""
        if hasattr(call.arguments.get("x"), "cardinality"):
            call.arguments["steps"] = 1
        before = self._watch.evaluations
        self._watch.enter("evaluation")
        values = proceed()
        self._watch.evaluations = max(self._watch.evaluations, before + 1)  # the callback counts those within fit
        if self._watch.in_loop:
            self._watch.enter("training")
        return values

    def _plan(self, epochs: int, steps_per_epoch: int | None) -> None:
        if steps_per_epoch:
            self._watch.planned_steps = (self._watch.planned_steps or 0) + epochs * steps_per_epoch
        else:
            self._watch.epochs = (self._watch.epochs or 0) + epochs


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


def _describe(model: keras.Model) -> str:
    """Returns a model's name and size: "model 'taxi', 1,234 weights"."""
    inner = getattr(model, "inner", model)  # the user's model, if a dialect has wrapped it
    try:
        weights = f", {inner.count_params():,} weights"
    except Exception:  # raised before the model is built
        weights = ""
    return f"model {inner.name!r}{weights}"


def _batch_size(x: tf.data.Dataset | np.ndarray, requested: int | None) -> int | None:
    """Returns the number of examples in a dataset's batches, or the `batch_size` argument for arrays.

    If the dataset's specification leaves it open, it is that of the first batch.
    """
    if not hasattr(x, "element_spec"):
        return requested
    import tensorflow as tf

    try:
        batch = tf.nest.flatten(x.element_spec)[0]
        if batch.shape[0] is None:
            batch = tf.nest.flatten(next(iter(x.take(1))))[0]
        return int(batch.shape[0])
    except Exception:  # elements may have any structure, and the batch size is optional for the estimate
        return None
