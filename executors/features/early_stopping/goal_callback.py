"""Early stopping, restoring the best weights, and stopping at a NaN loss, in each `fit` of a run.

The callbacks of Keras lack what these options need: its EarlyStopping counts from zero and forgets the best weights
when a training is resumed, and its TerminateOnNaN ends `fit` without an error and waits for the logs of every batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from ...checkpoints.damage import DamagedError, read_arrays, set_aside
from ...errors import InputError, did_you_mean
from ...estimator.run_goals import RunGoals
from ...goals import Goal
from ...keras.interception import KerasCall, KerasObserver, callback_class
from ...monitoring import progress
from ...monitoring.metrics import numbers_in
from ...runtime.files import file_io
from ...runtime.rate_limiter import RateLimiter

if TYPE_CHECKING:
    import keras

_BEST = "best-{}.npz"  # file with the best weights of a fit, in the checkpoint folder


class GoalObserver(KerasObserver):
    """Adds early stopping, best weights and NaN checks to the fits of a run.

    Args:
      goals: The goals.
      ends_by_nan: Whether a loss of NaN or infinity ends the training.
      folder: Folder for the best weights, from which a resumed training reads them; "" to not save them. Nothing is
        saved on remote file systems.
      is_writer: Whether this process writes to the folder; with several workers only the chief does.
    """

    def __init__(self, goals: RunGoals, ends_by_nan: bool, folder: str, is_writer: bool) -> None:
        self._goals, self._ends_by_nan = goals, ends_by_nan
        self._folder, self._is_writer = "" if file_io.is_remote(folder) else folder, is_writer
        self._fits = 0

    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        """Adds the callbacks."""
        self._goals.are_used = True
        self._fits += 1
        if self._ends_by_nan:
            call.add_callback(_nan_callback(call.model))
        if self._goals.best is not None:
            path = os.path.join(self._folder, _BEST.format(self._fits)) if self._folder else ""
            call.add_callback(_best_callback(call.model, self._goals.best, path, self._is_writer))
        if self._goals.stop is not None:
            call.add_callback(_stop_callback(call.model, self._goals.stop))
        return proceed()


def _nan_callback(model: keras.Model) -> keras.callbacks.Callback:
    """Returns a callback that raises a FloatingPointError if the loss is not finite."""
    limiter = RateLimiter()

    class NanCallback(callback_class(model)):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
            if limiter.is_due():  # reading the logs of every batch would slow down a GPU
                progress.require_finite_loss(numbers_in(logs))

        def on_epoch_end(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
            progress.require_finite_loss(numbers_in(logs))

    return NanCallback()


def _stop_callback(model: keras.Model, goal: Goal) -> keras.callbacks.Callback:
    """Returns a callback that ends the fit when the goal's metric has not improved for `patience` epochs."""

    class StopCallback(callback_class(model)):  # type: ignore[misc]
        def on_train_begin(self, logs: Mapping[str, object] | None = None) -> None:
            self._values = list(_restored_history(self.model).get(goal.metric, ()))

        def on_epoch_end(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
            self._values.append(_metric(goal, logs, "early_stop"))
            if goal.is_over(self._values):
                best = goal.best(self._values)
                first = epoch + 1 - len(self._values)  # not 0 with an `initial_epoch`
                logging.info(
                    "early_stop=%s: the best %s was in epoch %d (%.5g); stopping after epoch %d.",
                    goal, goal.metric, first + best + 1, self._values[best], epoch + 1,
                )  # fmt: skip
                self.model.stop_training = True

    return StopCallback()


def _best_callback(model: keras.Model, goal: Goal, path: str, is_writer: bool) -> keras.callbacks.Callback:
    """Returns a callback that restores the weights of the best epoch at the end of the fit, unless it was the last.

    Args:
      model: The model to train.
      goal: Its metric decides which epoch is best.
      path: File for the best weights so far; "" to not save them.
      is_writer: Whether this process writes the file.
    """

    class BestCallback(callback_class(model)):  # type: ignore[misc]
        def on_train_begin(self, logs: Mapping[str, object] | None = None) -> None:
            self._best: dict[str, Any] = {"epoch": -1, "value": float("nan")}
            self._is_last = True
            if _restored_history(self.model) and path and os.path.exists(path):
                try:
                    self._best, self._is_last = read_arrays(path), False
                except DamagedError as error:
                    set_aside(path, str(error), "only epochs from here on are candidates for the best one")

        def on_epoch_end(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
            value = _metric(goal, logs, "best_model")
            self._is_last = goal.is_better(value, float(self._best["value"]))
            if not self._is_last:
                return
            weights = {f"weight {number}": weight for number, weight in enumerate(self.model.get_weights())}
            self._best = {"epoch": epoch, "value": value, **weights}
            if is_writer and path:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with file_io.atomic_write(path) as part, open(part, "wb") as file:
                    np.savez(file, **self._best)

        def on_train_end(self, logs: Mapping[str, object] | None = None) -> None:
            weights = [self._best[f"weight {number}"] for number in range(len(self._best) - 2)]
            if weights and not self._is_last:
                self.model.set_weights(weights)
                logging.info(
                    "best_model=%s: restored the weights of epoch %d (%.5g).",
                    goal, self._best["epoch"] + 1, self._best["value"],
                )  # fmt: skip

    return BestCallback()


def _restored_history(model: keras.Model) -> Mapping[str, list[float]]:
    """Returns the history of a fit that begins, which is empty unless a backup has restored it."""
    history: Mapping[str, list[float]] = getattr(model.history, "history", {}) if model.history else {}
    return history


def _metric(goal: Goal, logs: Mapping[str, object] | None, option: str) -> float:
    metrics = numbers_in(logs)
    if goal.metric not in metrics:
        raise InputError(
            f"{option}={goal}: fit has no metric {goal.metric!r}; it has {', '.join(sorted(metrics))}."
            f"{did_you_mean(goal.metric, metrics)} Metrics of validation_data begin with val_."
        )
    return metrics[goal.metric]
