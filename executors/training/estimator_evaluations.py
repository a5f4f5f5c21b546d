"""Observes the Estimators of a run, also those that a `run_fn` trains by itself: what was evaluated at which step.

    with observed(files) as seen:
        run_fn(fn_args)
    seen.metrics_of(export, may_evaluate=True)  # {"train": {"loss": 0.4}, "eval": {"accuracy": 0.9}} and their origin

An export holds the global step of its weights; so the metrics are those of the evaluation at that step, whichever
exporter or checkpoint was chosen.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from absl import logging

from ..compat import tensorflow_estimator as compat
from ..dialects.loading import uses_estimators
from ..keras.interception import replaced
from ..keras.weight_fingerprints import of_checkpoint, of_saved_model
from ..monitoring.metrics import Metrics, finite, numbers_in

if TYPE_CHECKING:
    import tensorflow as tf

P = ParamSpec("P")
R = TypeVar("R")

_STEP = "global_step"


@contextlib.contextmanager
def observed(files: Sequence[str]) -> Iterator[EstimatorEvaluations]:
    """Observes the trainings and evaluations of a block; does nothing where no Estimator is used."""
    seen = EstimatorEvaluations()
    if compat.estimator_class() is None and not uses_estimators(files):
        yield seen
        return
    with seen.observing(compat.import_estimator_class()):
        yield seen


@dataclasses.dataclass(frozen=True)
class _Evaluation:
    step: int
    metrics: dict[str, float]
    estimator: tf.estimator.Estimator
    checkpoint: str | None
    arguments: dict[str, object]  # of `Estimator.evaluate`


class EstimatorEvaluations:
    """What Estimators have trained and evaluated in a run."""

    def __init__(self) -> None:
        self._evaluations: list[_Evaluation] = []
        self._loss: float | None = None  # of the last training's last step

    @contextlib.contextmanager
    def observing(self, estimator_class: type[tf.estimator.Estimator]) -> Iterator[None]:
        """Observes the Estimators of a block."""
        with (
            replaced(estimator_class, "evaluate", self._evaluate),
            replaced(*compat.training_loop(estimator_class), self._train),
        ):
            yield

    def metrics_of(self, export: str | None, may_evaluate: bool) -> tuple[Metrics, dict[str, object]]:
        """Returns the metrics of an exported model, and where those of the evaluation come from.

        Args:
          export: The SavedModel's folder, or None.
          may_evaluate: Whether to evaluate the export once more if no evaluation was of its step.
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

    def _evaluate(
        self,
        original: Callable[Concatenate[tf.estimator.Estimator, P], R],
        estimator: tf.estimator.Estimator,
        *args: P.args,
        **options: P.kwargs,
    ) -> R:
        """Is called in place of `Estimator.evaluate`, also by `train_and_evaluate`."""
        given = dict(inspect.signature(original).bind(estimator, *args, **options).arguments)
        checkpoint = given.get("checkpoint_path") or estimator.latest_checkpoint()
        results = original(estimator, *args, **options)
        if isinstance(results, Mapping) and _STEP in results:
            kept: dict[str, object] = {name: given[name] for name in ("input_fn", "steps") if name in given}
            self._evaluations.append(_Evaluation(int(results[_STEP]), _numbers(results), estimator, checkpoint, kept))
        return results

    def _train(self, original: Callable[P, float], *args: P.args, **options: P.kwargs) -> float:
        """Is called in place of what trains and returns the loss of the last step."""
        loss = original(*args, **options)
        with contextlib.suppress(TypeError, ValueError):
            self._loss = float(loss)
        return loss


def _of(export: str | None, evaluations: Sequence[_Evaluation]) -> _Evaluation | None:
    """Returns the last evaluation of an export's step; of several Estimators', that with the export's weights."""
    if len({one.estimator.model_dir for one in evaluations}) > 1 and export:
        saved = of_saved_model(export)
        evaluations = [one for one in evaluations if one.checkpoint and _is_from(one.checkpoint, saved)]
    return evaluations[-1] if evaluations else None


def _is_from(checkpoint: str, saved: frozenset[str]) -> bool:
    """Whether an export has no weights but those of a checkpoint."""
    return saved <= of_checkpoint(checkpoint)


def _evaluated_again(last: _Evaluation, export: str) -> _Evaluation | None:
    logging.info("%s has weights that were not evaluated. They are evaluated now.", export)
    try:
        results = last.estimator.evaluate(
            **last.arguments, checkpoint_path=os.path.join(export, "variables", "variables"), name="published"
        )
    except Exception as error:  # the model is trained and exported: it must not be lost for its metrics
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
