"""Early stopping, restoring the best weights, and stopping at a NaN loss.

`early_stop="val_loss:3"` ends a training when a metric has not improved in three evaluations. `best_model="val_auc"`
restores the weights of the best epoch when `fit` ends. Both apply to Keras's `fit` in any module; `early_stop` also
applies to Estimators, at each evaluation. `stop_on_nan` checks the loss of a `fit`, and the values passed to
`report_progress`, about once a second; Estimators always check the loss.

Usage, in the training process:

    with goals_applied(options, fn_args):
        run_fn(fn_args)
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from .. import run_context
from ..checkpoints.damage import DamagedError, read_arrays, set_aside
from ..errors import InputError, did_you_mean
from ..goals import Goal
from ..monitoring import progress
from ..monitoring.metrics import numbers_in
from ..runtime.files import file_io
from ..runtime.observers import observed_by
from .interception import KerasCall, KerasObserver, callback_class

if TYPE_CHECKING:
    import keras

    from ..fn_args import FnArgs
    from ..options import TrainingOptions

_BEST = "best-{}.npz"  # file with the best weights of a fit, in the checkpoint folder


@contextlib.contextmanager
def goals_applied(options: TrainingOptions, fn_args: FnArgs) -> Iterator[None]:
    """Applies the options to all trainings of a block; logs a warning if a goal was set but nothing was trained."""
    observer = _GoalObserver(options, fn_args.checkpoint_dir, fn_args.is_chief)
    if not observer.is_needed:
        yield
        return
    with run_context.extended(observer), observed_by(observer), progress.stop_on_nan(options.stop_on_nan):
        yield
    observer.warn_if_unused()


def estimator_stop_goal() -> Goal | None:
    """Returns the early-stopping goal for an Estimator, or None.

    Raises:
      InputError: If `best_model` is set; for Estimators, the module's own exporter chooses the best model.
    """
    observer = run_context.part(_GoalObserver)
    return observer.estimator_goal() if observer else None


class _GoalObserver(KerasObserver):
    """Adds early stopping, best weights and NaN checks to the fits of a run."""

    def __init__(self, options: TrainingOptions, folder: str, is_chief: bool) -> None:
        self._stop, self._best = options.stop_goal, options.best_goal
        self._ends_by_nan = options.stop_on_nan
        self._folder = folder
        self._is_chief = is_chief
        self._fits = 0

    @property
    def is_needed(self) -> bool:
        return self._stop is not None or self._best is not None or self._ends_by_nan

    def estimator_goal(self) -> Goal | None:
        self._fits += 1
        if self._best is not None:
            raise InputError(
                f"best_model={self._best}: an Estimator exports its best model with a tf.estimator.BestExporter in its "
                "EvalSpec. Remove best_model."
            )
        return self._stop

    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        """Adds the callback for early stopping, best weights and NaN."""
        self._fits += 1
        call.add_callback(self._callback(call.model))
        return proceed()

    def warn_if_unused(self) -> None:
        """Logs a warning for each goal if there was no fit and no Estimator."""
        for name, goal in (("early_stop", self._stop), ("best_model", self._best)):
            if goal is not None and not self._fits:
                logging.warning("%s=%s had no effect: the module ran no Keras fit and no Estimator.", name, goal)

    def _callback(self, model: keras.Model) -> keras.callbacks.Callback:
        path = os.path.join(self._folder, _BEST.format(self._fits)) if self._folder else ""
        watch = _FitWatch(self._stop, self._best, self._ends_by_nan, path, self._is_chief)

        class GoalCallback(callback_class(model)):  # type: ignore[misc]
            """Forwards Keras's callback events."""

            def on_train_begin(self, logs: Mapping[str, object] | None = None) -> None:
                watch.begin(self.model)

            def on_train_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
                watch.after_batch(logs)

            def on_epoch_end(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
                watch.after_epoch(self.model, epoch, numbers_in(logs))

            def on_train_end(self, logs: Mapping[str, object] | None = None) -> None:
                watch.end(self.model)

        return GoalCallback()


@dataclasses.dataclass
class _Best:
    """The best evaluation so far, and its weights."""

    epoch: int = -1
    value: float = math.nan
    weights: list[np.ndarray] = dataclasses.field(default_factory=list)


class _FitWatch:
    """Monitors the metrics of one `fit`.

    Args:
      stop: Early-stopping goal, or None.
      best: Goal for choosing the best epoch, or None.
      ends_by_nan: Whether a loss of NaN or infinity ends the training.
      path: File for the best weights; "" to not save them.
      is_writer: Whether this process writes the file; with several workers only the chief does.
    """

    def __init__(self, stop: Goal | None, best: Goal | None, ends_by_nan: bool, path: str, is_writer: bool) -> None:
        self._stop, self._goal, self._ends_by_nan = stop, best, ends_by_nan
        self._path, self._is_writer = path, is_writer
        self._best = _Best()
        self._values: list[float] = []  # values of the metric of `stop`
        self._epoch = -1
        self._due = progress.RateLimiter()

    def begin(self, model: keras.Model) -> None:
        """Restores the state of a resumed training; its history has already been restored."""
        history: Mapping[str, list[float]] = getattr(model.history, "history", {}) if model.history else {}
        self._values = list(history.get(self._stop.metric, ())) if self._stop else []
        if history and self._goal is not None and os.path.exists(self._path):
            try:
                kept = read_arrays(self._path)
            except DamagedError as error:
                set_aside(self._path, str(error), "only epochs from here on are candidates for the best one")
                return
            weights = [kept[f"weight {number}"] for number in range(len(kept) - 2)]
            self._best = _Best(int(kept["epoch"]), float(kept["value"]), weights)

    def after_batch(self, logs: Mapping[str, object] | None) -> None:
        """Checks the loss, about once a second.

        Raises:
          FloatingPointError: If the loss is NaN or infinite.
        """
        if self._ends_by_nan and self._due.is_due():
            progress.require_finite_loss(numbers_in(logs))

    def after_epoch(self, model: keras.Model, epoch: int, logs: dict[str, float]) -> None:
        """Checks the metrics at the end of an epoch.

        Raises:
          FloatingPointError: If the loss is NaN or infinite and `ends_by_nan` is set.
          InputError: If the logs lack the goal's metric.
        """
        self._epoch = epoch
        if self._ends_by_nan:
            progress.require_finite_loss(logs)
        if self._goal is not None:
            self._update_best(model, epoch, _metric(self._goal, logs, "best_model"))
        if self._stop is not None:
            self._values.append(_metric(self._stop, logs, "early_stop"))
            if self._stop.is_over(self._values):
                best = self._stop.best(self._values)
                first = epoch + 1 - len(self._values)  # not 0 with an `initial_epoch`
                logging.info(
                    "early_stop=%s: the best %s was in epoch %d (%.5g); stopping after epoch %d.",
                    self._stop, self._stop.metric, first + best + 1, self._values[best], epoch + 1,
                )  # fmt: skip
                model.stop_training = True

    def end(self, model: keras.Model) -> None:
        """Restores the best weights, unless the last epoch was the best."""
        if self._best.weights and self._best.epoch != self._epoch:
            model.set_weights(self._best.weights)
            logging.info(
                "best_model=%s: restored the weights of epoch %d (%.5g).",
                self._goal, self._best.epoch + 1, self._best.value,
            )  # fmt: skip

    def _update_best(self, model: keras.Model, epoch: int, value: float) -> None:
        assert self._goal is not None
        if not self._goal.is_better(value, self._best.value):
            return
        self._best = _Best(epoch, value, model.get_weights())
        if self._is_writer and self._path and _has_folder(self._path):
            weights: dict[str, Any] = {f"weight {number}": weight for number, weight in enumerate(self._best.weights)}
            with file_io.atomic_write(self._path) as part, open(part, "wb") as file:
                np.savez(file, epoch=epoch, value=value, **weights)


def _has_folder(path: str) -> bool:
    """Creates the folder for the weights; returns False if it is not on this machine."""
    if "://" in path:
        return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return True


def _metric(goal: Goal, logs: Mapping[str, float], option: str) -> float:
    if goal.metric not in logs:
        raise InputError(
            f"{option}={goal}: fit has no metric {goal.metric!r}; it has {', '.join(sorted(logs))}."
            f"{did_you_mean(goal.metric, logs)} Metrics of validation_data begin with val_."
        )
    return logs[goal.metric]
