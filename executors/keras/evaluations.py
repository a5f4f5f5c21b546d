"""Observes every Keras `fit` and `evaluate` of a run, and records the metrics by the weights' fingerprints.

    with observed(files, log) as evaluations:
        run_fn(fn_args)
    evaluations.evaluated         # a list of Evaluated
    evaluations.live              # fingerprints of the last fitted model's weights
    evaluations.evaluate_again()  # its metrics on the last fit's validation data

Weights are fingerprinted when Keras evaluates them: at the end of a validation, before callbacks such as
SwapEMAWeights swap averaged weights out again; without validation at the end of an epoch, before EarlyStopping restores
other weights.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import logging

from ..monitoring.metrics import Metrics, finite, from_return_value, numbers_in
from ..runtime.observers import observed_by
from .attempt_log import AttemptLog
from .evaluated_weights import Evaluated, Origin
from .interception import KerasCall, KerasObserver, callback_class, may_use_keras
from .weight_fingerprints import of_weights

if TYPE_CHECKING:
    import keras

_DATA = ("x", "y", "sample_weight", "batch_size", "steps")  # arguments of `evaluate` that define its data


@contextlib.contextmanager
def observed(files: Sequence[str], log: AttemptLog[Evaluated]) -> Iterator[KerasEvaluations]:
    """Observes the fits and evaluations of a block.

    Args:
      files: The module's source files. Keras is not imported if they neither mention nor import it.
      log: Stores evaluations for later attempts.
    """
    evaluations = KerasEvaluations(log)
    if not may_use_keras(files):
        yield evaluations
        return
    with observed_by(evaluations):
        yield evaluations


@dataclasses.dataclass
class _Fit:
    """A fit in progress, or the last one.

    Attributes:
      model: The trained model.
      number: Number of the fit in the run, from 1; a fit with an `initial_epoch` continues the one before.
      validation: Arguments of `evaluate` for the validation data; None without validation.
      weights: Fingerprints at the last validation, until an epoch end uses them.
      ended: Epochs whose logs later callbacks may still extend: (weights, epoch, logs).
    """

    model: keras.Model
    number: int
    validation: dict[str, object] | None = None
    weights: tuple[str, ...] = ()
    ended: list[tuple[tuple[str, ...], int, Mapping[str, object] | None]] = dataclasses.field(default_factory=list)


class KerasEvaluations(KerasObserver):
    """The Keras evaluations of a run.

    Attributes:
      evaluated: All evaluations in order, including those of earlier attempts.
    """

    def __init__(self, log: AttemptLog[Evaluated]) -> None:
        self._log = log
        self.evaluated = log.read()
        self._batches: dict[str, tuple[keras.Model, object]] = {}  # by split: the last one, not converted yet
        self._fits = 0
        self._last: _Fit | None = None
        self._running: _Fit | None = None

    @property
    def is_empty(self) -> bool:
        """Whether Keras neither trained nor evaluated a model."""
        return self._last is None and not self.evaluated

    @property
    def live(self) -> tuple[str, ...]:
        """Fingerprints of the current weights of the last fitted model; empty if there is none."""
        return of_weights(self._last.model.weights) if self._last is not None else ()

    @property
    def last_epoch(self) -> list[Evaluated]:
        """The last trained epoch as a list of one element; empty if there is none."""
        return [evaluated for evaluated in self.evaluated if evaluated.origin["source"] == "fit"][-1:]

    @property
    def has_validation(self) -> bool:
        """Whether the last fit had validation data, or any evaluation was recorded."""
        again = self._last is not None and self._last.validation is not None
        return again or any("eval" in evaluated.metrics for evaluated in self.evaluated)

    def batch_metrics(self) -> Metrics:
        """Returns the metrics that the last `train_on_batch` and `test_on_batch` returned; splits without are missing.

        They are for modules with custom training loops.
        """
        named = {split: finite(numbers_in(_named(model, values))) for split, (model, values) in self._batches.items()}
        return {split: values for split, values in named.items() if values}

    def evaluate_again(self) -> dict[str, float]:
        """Evaluates the last fitted model on its fit's validation data; returns {} without such data."""
        if self._last is None or self._last.validation is None:
            return {}
        logging.info("The published weights were not evaluated during training; evaluating them now.")
        values = self._last.model.evaluate(**self._last.validation, verbose=0, return_dict=True)
        return finite(numbers_in(values))

    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        """Records the metrics and weights of each epoch."""
        if call.is_nested:
            return proceed()
        self._fits += call.begins_training(self._fits)
        fit = self._last = self._running = _Fit(call.model, self._fits, _validation(call.arguments))
        call.add_callback(self._callback(fit), first=True)
        try:
            return proceed()
        finally:
            self._record_epochs(fit)
            self._running = None

    def evaluate(self, call: KerasCall, proceed: Callable[[], object]) -> object:
        """Records the results; for the validation within a fit, its data."""
        given = call.arguments
        if call.has_callback_list:
            if self._running is not None and self._running.model is call.model:
                self._running.validation = {name: given[name] for name in _DATA if given.get(name) is not None}
            return proceed()
        results: dict[str, float] = {}
        call.add_callback(_results_callback(call.model, results))
        returned = proceed()
        if results:
            self._add(Evaluated(of_weights(call.model.weights), {"eval": results}, {"source": "evaluate"}))
        return returned

    def note_batch(self, split: str, model: keras.Model, returned: object) -> None:
        """Stores the return value; it is converted on request, to keep batches cheap."""
        self._batches[split] = (model, returned)

    def _record_epochs(self, fit: _Fit) -> None:
        """Records the epochs whose logs are complete."""
        for weights, epoch, logs in fit.ended:
            origin: Origin = {"source": "fit", "fit": fit.number, "epoch": epoch + 1}
            self._add(Evaluated(weights, _metrics_of(logs), origin))
        fit.ended.clear()

    def _add(self, evaluated: Evaluated) -> None:
        self.evaluated.append(evaluated)
        self._log.add(evaluated)

    def _callback(self, fit: _Fit) -> keras.callbacks.Callback:
        evaluations = self

        class WeightsCallback(callback_class(fit.model)):  # type: ignore[misc]
            """Fingerprints the weights, before other callbacks change them."""

            def on_test_end(self, logs: Mapping[str, object] | None = None) -> None:
                fit.weights = of_weights(self.model.weights)

            def on_epoch_begin(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
                evaluations._record_epochs(fit)

            def on_epoch_end(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
                fit.ended.append((fit.weights or of_weights(self.model.weights), epoch, logs))
                fit.weights = ()

        return WeightsCallback()


def _results_callback(model: keras.Model, results: dict[str, float]) -> keras.callbacks.Callback:
    class Results(callback_class(model)):  # type: ignore[misc]
        """Records the results of `evaluate` by name, because it may return them as a list."""

        def on_test_end(self, logs: Mapping[str, object] | None = None) -> None:
            results.update(finite(numbers_in(logs)))

    return Results()


def _named(model: keras.Model, values: object) -> dict[str, object]:
    """Returns the value of a Keras call (a dict, a list or a number) by metric name."""
    if isinstance(values, dict):
        return values
    listed = values if isinstance(values, (list, tuple)) else [values]
    names = list(model.get_metrics_result())  # in the order of the returned list
    return dict(zip(names, listed, strict=False)) if len(names) == len(listed) else {}


def _metrics_of(logs: Mapping[str, object] | None) -> Metrics:
    return from_return_value(numbers_in(logs))


def _validation(given: Mapping[str, object]) -> dict[str, object] | None:
    """Returns a fit's `validation_data` as arguments of `evaluate`; replaced later by those that `fit` uses."""
    data = given.get("validation_data")
    if data is None:
        return None
    values = data if isinstance(data, (list, tuple)) else (data,)
    more = {"steps": given.get("validation_steps"), "batch_size": given.get("validation_batch_size")}
    arguments = dict(zip(_DATA, values, strict=False)) | more
    return {name: value for name, value in arguments.items() if value is not None}
