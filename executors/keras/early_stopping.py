"""Trainings that end by themselves: early stopping, the best model of all epochs, and an end at the first NaN.

`early_stop="val_loss:3"` ends a training when a metric has not become better in three evaluations;
`best_model="val_auc"` gives the model the weights of its best epoch when `fit` ends. They hold for Keras's `fit` in any
module, and the first for Estimators, too, which evaluate now and then. `stop_on_nan` looks at the loss of a `fit`, and
at what a loop reports by `report_progress`, about once a second; Estimators always look at it.

Usage, in the process that trains:

    with pursued(options, fn_args):
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
from ..errors import InputError, did_you_mean
from ..goals import Goal
from ..monitoring import progress
from ..monitoring.metrics import numbers_in
from .interception import KerasCall, KerasObserver, callback_class, observed_by

if TYPE_CHECKING:
    import keras

    from ..fn_args import FnArgs
    from ..options import TrainingOptions

_BEST = "best-{}.npz"  # the best weights of a fit, beside its checkpoints


@contextlib.contextmanager
def pursued(options: TrainingOptions, fn_args: FnArgs) -> Iterator[None]:
    """Has the trainings of a block end as the options say; says so at the end where there was none that could."""
    pursuit = _Pursuit(options, fn_args.checkpoint_dir, fn_args.is_chief)
    if not pursuit.is_wanted:
        yield
        return
    with run_context.extended(pursuit), observed_by(pursuit), progress.ended_by_nan(options.stop_on_nan):
        yield
    pursuit.say_if_idle()


def stop_of_estimator() -> Goal | None:
    """Returns what is to end the training of an Estimator early; None when nothing is.

    Raises:
      InputError: When the best model is asked for, which the module's own exporter chooses.
    """
    pursuit = run_context.part(_Pursuit)
    return pursuit.of_estimator() if pursuit else None


class _Pursuit(KerasObserver):
    """What is asked of the trainings of a run."""

    def __init__(self, options: TrainingOptions, folder: str, is_chief: bool) -> None:
        self._stop, self._best = options.stop_goal, options.best_goal
        self._ends_by_nan = options.stop_on_nan
        self._folder = folder
        self._is_chief = is_chief
        self._fits = 0

    @property
    def is_wanted(self) -> bool:
        return self._stop is not None or self._best is not None or self._ends_by_nan

    def of_estimator(self) -> Goal | None:
        self._fits += 1
        if self._best is not None:
            raise InputError(
                f"best_model={self._best}: an Estimator exports its best model by tf.estimator.BestExporter in its "
                "EvalSpec. Leave best_model out."
            )
        return self._stop

    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        """Adds the callback for early stopping, best weights and NaN."""
        self._fits += 1
        call.add_callback(self._callback(call.model))
        return proceed()

    def say_if_idle(self) -> None:
        """Says that nothing was done, where that is so."""
        for name, goal in (("early_stop", self._stop), ("best_model", self._best)):
            if goal is not None and not self._fits:
                logging.warning("%s=%s: there was no Keras fit and no Estimator for it.", name, goal)

    def _callback(self, model: keras.Model) -> keras.callbacks.Callback:
        path = os.path.join(self._folder, _BEST.format(self._fits)) if self._folder else ""
        watch = _FitWatch(self._stop, self._best, self._ends_by_nan, path, self._is_chief)

        class Goals(callback_class(model)):  # type: ignore[misc]
            """Hands on what Keras tells it."""

            def on_train_begin(self, logs: Mapping[str, object] | None = None) -> None:
                watch.begin(self.model)

            def on_train_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
                watch.after_batch(logs)

            def on_epoch_end(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
                watch.after_epoch(self.model, epoch, numbers_in(logs))

            def on_train_end(self, logs: Mapping[str, object] | None = None) -> None:
                watch.end(self.model)

        return Goals()


@dataclasses.dataclass
class _Best:
    """The best evaluation so far, and the weights that it was of."""

    epoch: int = -1
    value: float = math.nan
    weights: list[np.ndarray] = dataclasses.field(default_factory=list)


class _FitWatch:
    """Looks at the metrics of one `fit`.

    Args:
      stop: What ends it.
      best: By what its best epoch is chosen.
      ends_by_nan: Whether a loss that is no number ends it.
      path: Where the best weights are kept.
      keeps: Whether this process writes them there: of several workers the chief alone.
    """

    def __init__(self, stop: Goal | None, best: Goal | None, ends_by_nan: bool, path: str, keeps: bool) -> None:
        self._stop, self._goal, self._ends_by_nan, self._path, self._keeps = stop, best, ends_by_nan, path, keeps
        self._best = _Best()
        self._seen: list[float] = []  # the metric of `stop`
        self._epoch = -1
        self._due = progress.Due()

    def begin(self, model: keras.Model) -> None:
        """Goes on where a training that was resumed has been: its history is there by now."""
        history: Mapping[str, list[float]] = getattr(model.history, "history", {}) if model.history else {}
        self._seen = list(history.get(self._stop.metric, ())) if self._stop else []
        if history and self._goal is not None and os.path.exists(self._path):
            with np.load(self._path, allow_pickle=False) as kept:
                count = len(kept.files) - 2
                weights = [kept[f"weight {number}"] for number in range(count)]
                self._best = _Best(int(kept["epoch"]), float(kept["value"]), weights)

    def after_batch(self, logs: Mapping[str, object] | None) -> None:
        """Looks at the loss, every now and then.

        Raises:
          FloatingPointError: When it is NaN.
        """
        if self._ends_by_nan and self._due.is_due():
            progress.require_number(numbers_in(logs))

    def after_epoch(self, model: keras.Model, epoch: int, logs: dict[str, float]) -> None:
        """Looks at the metrics.

        Raises:
          FloatingPointError: When the loss is NaN and that is to end the training.
          InputError: When there is no such metric.
        """
        self._epoch = epoch
        if self._ends_by_nan:
            progress.require_number(logs)
        if self._goal is not None:
            self._note_best(model, epoch, _metric(self._goal, logs, "best_model"))
        if self._stop is not None:
            self._seen.append(_metric(self._stop, logs, "early_stop"))
            if self._stop.is_over(self._seen):
                best = self._stop.best(self._seen)
                logging.info(
                    "early_stop=%s: %s was best in epoch %d, %.5g; this is epoch %d.",
                    self._stop, self._stop.metric, best + 1, self._seen[best], epoch + 1,
                )  # fmt: skip
                model.stop_training = True

    def end(self, model: keras.Model) -> None:
        """Gives the model its best weights."""
        if self._best.weights and self._best.epoch != self._epoch:
            model.set_weights(self._best.weights)
            logging.info(
                "best_model=%s: the weights of epoch %d are taken, %.5g.",
                self._goal, self._best.epoch + 1, self._best.value,
            )  # fmt: skip

    def _note_best(self, model: keras.Model, epoch: int, value: float) -> None:
        assert self._goal is not None
        if not self._goal.is_better(value, self._best.value):
            return
        self._best = _Best(epoch, value, model.get_weights())
        if self._keeps and self._path and _has_folder(self._path):
            weights: dict[str, Any] = {f"weight {number}": weight for number, weight in enumerate(self._best.weights)}
            part = f"{self._path}.part.npz"
            np.savez(part, epoch=epoch, value=value, **weights)
            os.replace(part, self._path)


def _has_folder(path: str) -> bool:
    """Returns whether weights can be kept beside the checkpoints: where these lie on this machine."""
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
