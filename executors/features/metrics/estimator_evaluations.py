"""Observes the Estimators of a run, including those that `run_fn` trains itself, and records evaluations by step.

    with observed(files) as seen:
        run_fn(fn_args)
    seen.metrics_of(export, may_evaluate=True)  # ({"train": {"loss": 0.4}, "eval": {"accuracy": 0.9}}, their origin)

An export contains the global step of its weights. Its metrics are therefore those of the evaluation at that step,
regardless of which exporter or checkpoint was chosen.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import logging

from ...compat import tensorflow_estimator as compat
from ...dialects.needs import uses_estimators
from ...estimator.interception import EstimatorCall, EstimatorObserver
from ...keras.weight_fingerprints import of_checkpoint, of_saved_model
from ...modules.keras_version import has_keras_3
from ...monitoring.metrics import Metrics, finite, numbers_in
from ...runtime.observers import observed_by

if TYPE_CHECKING:
    import tensorflow as tf

    from ...estimator.interception import Results

_STEP = "global_step"


@contextlib.contextmanager
def observed(files: Sequence[str]) -> Iterator[EstimatorEvaluations]:
    """Observes Estimator trainings and evaluations for the duration of a block; no-op if no Estimator is used."""
    if uses_estimators(files) and not has_keras_3():  # later releases restore the class, and patch it then
        compat.import_estimator_class()
    with observed_by(EstimatorEvaluations()) as seen:
        yield seen


@dataclasses.dataclass(frozen=True)
class _Evaluation:
    step: int
    metrics: dict[str, float]
    estimator: tf.estimator.Estimator
    checkpoint: str | None
    arguments: dict[str, object]  # input_fn and steps of `Estimator.evaluate`


class EstimatorEvaluations(EstimatorObserver):
    """The losses and evaluation metrics of the Estimators in a run."""

    def __init__(self) -> None:
        self._evaluations: list[_Evaluation] = []
        self._loss: float | None = None  # at the last step of the last training

    def metrics_of(self, export: str | None, may_evaluate: bool) -> tuple[Metrics, dict[str, object]]:
        """Returns the metrics of an exported model, and the origin of its evaluation metrics.

        Args:
          export: Folder of the SavedModel, or None.
          may_evaluate: Whether to evaluate the export if no evaluation was made at its step.
        """
        metrics: Metrics = {"train": finite({"loss": self._loss})} if self._loss is not None else {}
        if not self._evaluations:
            return metrics, {}
        step = _step_of(export) if export else None
        last = self._evaluations[-1]
        origin: dict[str, object] = {"source": "evaluate"}
        if step is not None:
            found = _of(export, [one for one in self._evaluations if one.step == step])
            if found is None and may_evaluate:
                found, origin = _evaluated_again(last, str(export)), {"source": "evaluated again"}
            if found is None:
                return metrics, {"source": "unknown"}
            last, origin = found, {**origin, "step": step}
        return metrics | {"eval": last.metrics}, origin

    def evaluate(self, call: EstimatorCall, proceed: Callable[[], Results]) -> Results:
        """Records the metrics, including those of `train_and_evaluate`."""
        given = dict(call.arguments)
        checkpoint = given.get("checkpoint_path") or call.estimator.latest_checkpoint()
        results = proceed()
        if isinstance(results, Mapping) and _STEP in results:
            kept: dict[str, object] = {name: given[name] for name in ("input_fn", "steps") if name in given}
            self._evaluations.append(
                _Evaluation(int(results[_STEP]), _numbers(results), call.estimator, checkpoint, kept)
            )
        return results

    def training_loop(self, call: EstimatorCall, proceed: Callable[[], object]) -> object:
        """Records the loss of the last step."""
        loss = proceed()
        with contextlib.suppress(TypeError, ValueError):
            self._loss = float(loss)  # type: ignore[arg-type]
        return loss


def _of(export: str | None, evaluations: Sequence[_Evaluation]) -> _Evaluation | None:
    """Returns the last of the evaluations; if there are several Estimators, the last with the export's weights."""
    if len({one.estimator.model_dir for one in evaluations}) > 1 and export:
        saved = of_saved_model(export)
        evaluations = [one for one in evaluations if one.checkpoint and _is_from(one.checkpoint, saved)]
    return evaluations[-1] if evaluations else None


def _is_from(checkpoint: str, saved: frozenset[str]) -> bool:
    """Returns whether all weights of an export are in a checkpoint."""
    return saved <= of_checkpoint(checkpoint)


def _evaluated_again(last: _Evaluation, export: str) -> _Evaluation | None:
    logging.info("%s has weights that were not evaluated. They are evaluated now.", export)
    try:
        results = last.estimator.evaluate(
            **last.arguments, checkpoint_path=os.path.join(export, "variables", "variables"), name="published"
        )
    except Exception as error:  # the model is trained and exported: missing metrics must not fail the run
        logging.warning("The exported model could not be evaluated, so no metrics of it are recorded. %s", error)
        return None
    return dataclasses.replace(last, metrics=_numbers(results))


def _step_of(export: str) -> int | None:
    import tensorflow as tf

    try:
        reader = tf.train.load_checkpoint(os.path.join(export, "variables", "variables"))
        return int(reader.get_tensor(_STEP)) if reader.has_tensor(_STEP) else None
    except (ValueError, OSError, tf.errors.OpError):
        return None


def _numbers(results: Mapping[str, object]) -> dict[str, float]:
    return finite(numbers_in({name: value for name, value in results.items() if name != _STEP}))
