"""ElasticDL's callbacks, for Keras 2 and 3.

A model file returns them from `callbacks()`:

    def callbacks():
        return [LearningRateScheduler(lambda step: 0.1 if step < 5000 else 0.01), MaxStepsStopping(max_steps=8000)]
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping

import tensorflow as tf


def _steps_done(model: tf.keras.Model, batch: int) -> int:
    """Returns the number of completed steps: the optimizer's iterations, as `batch` starts at 0 in each epoch."""
    iterations = getattr(model.optimizer, "iterations", None)
    return batch if iterations is None else max(batch, int(iterations))


class LearningRateScheduler(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the learning rate before every step."""

    def __init__(self, schedule: Callable[[int], float | tf.Tensor | tf.Variable]) -> None:
        """Sets the schedule.

        Args:
          schedule: A function from the number of completed steps (0 before the first step) to the learning rate for
            the next step.
        """
        super().__init__()
        self._schedule = schedule
        self._rate: float | None = None

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Sets the learning rate for the current step.

        Raises:
          ValueError: When the schedule does not return a number, or the optimizer's learning rate cannot be set.
        """
        step = _steps_done(self.model, batch)
        rate = self._rate_at(step)
        if rate != self._rate:
            self._set(rate)
            self._rate = rate

    def _rate_at(self, step: int) -> float:
        rate = self._schedule(step)
        if isinstance(rate, (numbers.Real, tf.Tensor, tf.Variable)) and not isinstance(rate, bool):
            return float(rate)
        raise ValueError(
            f"LearningRateScheduler: the schedule returned {rate!r} for step {step}; it must return the learning "
            "rate as a number."
        )

    def _set(self, rate: float) -> None:
        optimizer = self.model.optimizer
        name = next((name for name in ("learning_rate", "lr") if hasattr(optimizer, name)), None)
        if name is None:
            raise ValueError(
                f"LearningRateScheduler: the optimizer {type(optimizer).__name__} has neither learning_rate nor lr. "
                "Return one of tf.keras.optimizers from optimizer()."
            )
        try:
            setattr(optimizer, name, rate)
        except TypeError as error:
            raise ValueError(
                f"LearningRateScheduler: the learning rate of {type(optimizer).__name__} cannot be set: {error} Create "
                "the optimizer with a number as its learning rate, or remove the callback."
            ) from error


class MaxStepsStopping(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Ends training after a total number of steps, including those before the run was resumed."""

    def __init__(self, max_steps: int) -> None:
        """Sets the total number of steps."""
        super().__init__()
        self._max_steps = max_steps
        self._completed_steps = 0
        self._unknown_steps: int | None = None

    def set_completed_steps(self, completed_steps: int) -> None:
        """Sets the number of steps that the initial weights have been trained for."""
        self._completed_steps = completed_steps

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Computes how many completed steps the optimizer has not counted; only once, as `fit` may be called again."""
        if self._unknown_steps is None:
            self._unknown_steps = max(self._completed_steps - _steps_done(self.model, 0), 0)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Stops training if this was the last step."""
        if (self._unknown_steps or 0) + _steps_done(self.model, batch + 1) >= self._max_steps:
            self.model.stop_training = True


class SavedModelExporter(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """No-op for compatibility, since the trainer exports the model."""

    def __init__(self, *unused: object, **unused_options: object) -> None:
        """Accepts and ignores ElasticDL's arguments: a task service, `dataset_fn` and a model handler."""
        super().__init__()
