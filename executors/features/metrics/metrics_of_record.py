"""The metrics of record of a run: the metrics of the published weights, and their origin.

    with observed(source.files, fn_args) as seen:
        returned = run_fn(fn_args)
    metrics, origins = seen.metrics(returned, event_files)

For each split, the first of these sources that has metrics is used:

| source | metrics |
| --- | --- |
| `returned` | numbers that `run_fn` or its dialect returned |
| `fit`, `evaluate` | the epoch or evaluation whose weights were published |
| `evaluated again` | a new evaluation on the last fit's validation data, if the published weights had none |
| `logged` | the last values of: lists returned by `run_fn`, event files, `report_progress`, `train_on_batch` |
| `unknown` | none: the published weights match no evaluation and are not in memory |
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence

from absl import logging

from ...checkpoints.contents import EVALUATED
from ...fn_args import FnArgs
from ...keras import evaluations
from ...keras.attempt_log import AttemptLog
from ...keras.evaluated_weights import Evaluated, published_weights
from ...keras.evaluations import KerasEvaluations
from ...keras.weight_fingerprints import of_saved_model
from ...monitoring import progress
from ...monitoring.metrics import (
    SPLITS,
    Metrics,
    from_return_value,
    lists_returned,
    merge_metrics,
    numbers_returned,
)
from ...saved_models.locations import find_saved_model
from . import estimator_evaluations
from .estimator_evaluations import EstimatorEvaluations

Origins = dict[str, dict[str, object]]  # by split, as in `RunRecord.metrics_from`
_UNKNOWN: dict[str, object] = {"source": "unknown"}


@contextlib.contextmanager
def observed(files: Sequence[str], fn_args: FnArgs) -> Iterator[Observations]:
    """Observes trainings and evaluations of Keras models and Estimators for the duration of a block.

    Args:
      files: Source files of the module.
      fn_args: The arguments of `run_fn`.
    """
    keeps_weights = fn_args.checkpoint_dir and fn_args.is_chief
    kept = AttemptLog(Evaluated, os.path.join(fn_args.checkpoint_dir, EVALUATED) if keeps_weights else "")
    with (
        evaluations.observed(files, kept) as keras,
        estimator_evaluations.observed(files) as estimators,
        progress.collect_metrics() as reported,
    ):
        yield Observations(fn_args, keras, estimators, reported)


@dataclasses.dataclass(frozen=True)
class Observations:
    """The observed trainings and evaluations of a run.

    Attributes:
      fn_args: The arguments of `run_fn`.
      keras: Keras fits and evaluations.
      estimators: Estimator trainings and evaluations.
      reported: The last metrics passed to `report_progress`.
    """

    fn_args: FnArgs
    keras: KerasEvaluations
    estimators: EstimatorEvaluations
    reported: Mapping[str, object]

    def metrics(
        self, returned: object, event_files: Metrics, remedies: tuple[str, str] = ("", "")
    ) -> tuple[Metrics, Origins]:
        """Returns the metrics of record and, by split, their origin.

        Args:
          returned: Return value of `run_fn`.
          event_files: The last values in the event files.
          remedies: For a log line if there are no eval metrics; see `Dialect.eval_remedies`.
        """
        explicit = self._by_split(numbers_returned(returned))
        seen, origins = self._published_metrics(is_evaluated="eval" in explicit)
        metrics: Metrics = {}
        logged = merge_metrics(
            self._batch_metrics(), from_return_value(self.reported), event_files, lists_returned(returned)
        )
        for split in SPLITS:
            origin = origins.get(split, {})
            if split in explicit:
                own_loop = lists_returned(returned).get(split, {}) if self.keras.is_empty else {}
                metrics[split], origins[split] = {**own_loop, **explicit[split]}, {**origin, "source": "returned"}
            elif split in seen:
                last_values = logged.get(split, {}) if self._is_last_epoch(origin) else {}  # logged are last values
                metrics[split] = {**last_values, **seen[split]}
            elif split in logged and origin != _UNKNOWN:
                metrics[split], origins[split] = logged[split], {"source": "logged"}
        if self.fn_args.is_chief and not metrics.get("eval") and origins.get("eval") != _UNKNOWN:
            logging.info("No eval metrics are recorded. %s", remedies[self.keras.is_empty])
        return metrics, {split: origins[split] for split in SPLITS if split in origins}

    def _by_split(self, returned: Metrics) -> Metrics:
        """Moves train metrics to eval that are the results of a Keras `evaluate`, as `return_dict` returns them."""
        train = returned.get("train", {})
        results = [
            evaluated.metrics["eval"] for evaluated in self.keras.evaluated if evaluated.origin["source"] == "evaluate"
        ]
        evaluation: dict[str, float] = max(
            (result for result in results if result.items() <= train.items()), key=len, default={}
        )
        others = {name: value for name, value in train.items() if name not in evaluation}
        metrics = {"train": others, "eval": {**evaluation, **returned.get("eval", {})}}
        return {split: values for split, values in metrics.items() if values}

    def _batch_metrics(self) -> Metrics:
        try:
            return self.keras.batch_metrics()
        except Exception as error:  # from custom model code; missing metrics must not fail a trained run
            logging.warning("The metrics returned by train_on_batch could not be recorded: %r", error)
            return {}

    def _is_last_epoch(self, origin: Mapping[str, object]) -> bool:
        return any(origin.items() >= one.origin.items() for one in self.keras.last_epoch)

    def _published_metrics(self, is_evaluated: bool) -> tuple[Metrics, Origins]:
        """Returns the observed metrics of the published weights, and their origins.

        Args:
          is_evaluated: Whether `run_fn` returned evaluation metrics.
        """
        export = find_saved_model(self.fn_args.serving_model_dir) if self.fn_args.serving_model_dir else None
        try:
            if self.keras.is_empty:
                found, origins = self._estimator_metrics(export, is_evaluated)
            else:
                found, origins = self._keras_metrics(export, is_evaluated)
        except Exception as error:  # the model is trained and written: missing metrics must not fail the run
            logging.warning("The metrics of the published weights could not be determined: %r", error)
            return {}, {"eval": _UNKNOWN}
        if origins.get("eval") == _UNKNOWN and not is_evaluated:
            logging.warning(
                "No eval metrics are recorded: the published weights match no evaluation and could not be evaluated. "
                "Return the metrics from run_fn, such as {'val_loss': 0.3}."
            )
        return found, origins

    def _estimator_metrics(self, export: str | None, is_evaluated: bool) -> tuple[Metrics, Origins]:
        may_evaluate = self.fn_args.num_workers == 1 and not is_evaluated
        found, origin = self.estimators.metrics_of(export, may_evaluate)
        origins: Origins = {"train": {"source": "logged"}} if "train" in found else {}
        return found, origins | ({"eval": origin} if origin else {})

    def _keras_metrics(self, export: str | None, is_evaluated: bool) -> tuple[Metrics, Origins]:
        evaluated, live = self.keras.evaluated, self.keras.live
        weights = published_weights(evaluated, live, of_saved_model(export) if export else frozenset())
        found: Metrics = {}
        origins: Origins = {}
        for one in [*_in_order(evaluated, weights), *self.keras.last_epoch]:
            for split in one.metrics.keys() - found.keys():
                if split == "train" or one.weights == weights:
                    found[split] = one.metrics[split]
                    origins[split] = {**one.origin, **_epochs_of(one, evaluated)}
        if self.keras.has_validation and not is_evaluated and "eval" not in found:
            is_live = weights == live and self.fn_args.num_workers == 1
            values = self.keras.evaluate_again() if is_live else {}
            found |= {"eval": values} if values else {}
            origins["eval"] = {"source": "evaluated again"} if values else _UNKNOWN
        return found, origins


def _epochs_of(one: Evaluated, evaluated: Sequence[Evaluated]) -> dict[str, int]:
    """Returns the number of epochs of an evaluation's fit and the number of fits; {} if it is not from a fit."""
    ended = {other.origin["fit"]: other.origin["epoch"] for other in evaluated if "fit" in other.origin}
    return {"epochs": ended[one.origin["fit"]], "fits": max(ended)} if "fit" in one.origin else {}


def _in_order(evaluated: Sequence[Evaluated], weights: tuple[str, ...] | None) -> list[Evaluated]:
    """Returns the evaluations of the given weights: those from fits first, then the latest first."""
    matching = [one for one in reversed(evaluated) if one.weights == weights]
    return sorted(matching, key=lambda one: one.origin["source"] != "fit")
