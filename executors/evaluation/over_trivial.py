"""The TFMA metric that compares a model with the trivial model; see `trivial_comparison`, which uses it."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.api.types import ValueWithTDistribution
from tensorflow_model_analysis.proto import config_pb2

from .ranked_metrics import RankedAUCPrecisionRecall
from .trivial_models import TRIVIAL_MODELS, Estimate, difference_from_trivial

_PENDING = 1 << 12  # rows, before they become one array


class OverTrivial(tfma.metrics.Metric):  # type: ignore[misc]
    """A metric of the model minus the same metric of the trivial model, with the 95 % interval.

    Args:
      metric: Class of the metric, one of TRIVIAL_MODELS.
      name: Name of this metric.
      threshold: See `difference_from_trivial`.
    """

    def __init__(self, metric: str, name: str, threshold: float = 0.5) -> None:
        super().__init__(
            tfma.metrics.merge_per_key_computations(_computations), metric=metric, name=name, threshold=threshold
        )

    @property
    def compute_confidence_interval(self) -> bool:
        """Whether TFMA computes an interval; no, the value has its own."""
        return False


def _computations(  # noqa: PLR0913 (TFMA's signature)
    metric: str,
    name: str,
    threshold: float,
    eval_config: config_pb2.EvalConfig,
    model_name: str = "",
    output_name: str = "",
    sub_key: tfma.metrics.SubKey | None = None,
    example_weighted: bool = False,
) -> list[tfma.metrics.MetricComputation]:
    key = tfma.metrics.MetricKey(name, model_name, output_name, sub_key, example_weighted=example_weighted)
    return [tfma.metrics.MetricComputation([key], None, _Combiner(metric, threshold, key, eval_config))]


class _Combiner(beam.CombineFn):  # type: ignore[misc]
    """Collects an array of the labels, the numbers to compare with them, and the weight of each example."""

    def __init__(
        self, metric: str, threshold: float, key: tfma.metrics.MetricKey, eval_config: config_pb2.EvalConfig
    ) -> None:
        self._metric, self._threshold, self._key, self._eval_config = metric, threshold, key, eval_config

    def create_accumulator(self) -> list[np.ndarray]:
        return []

    def add_input(self, accumulator: list[np.ndarray], element: tfma.metrics.StandardMetricInputs) -> list[np.ndarray]:
        for label, prediction, weight in tfma.metrics.to_label_prediction_example_weight(
            element,
            eval_config=self._eval_config,
            model_name=self._key.model_name,
            output_name=self._key.output_name,
            sub_key=self._key.sub_key,
            example_weighted=self._key.example_weighted,
            flatten=False,
        ):
            labels, numbers = self._compared(np.ravel(label), np.ravel(prediction))
            accumulator.append(np.concatenate([labels, numbers, np.ravel(weight)[:1]]))
        return self.compact(accumulator) if len(accumulator) >= _PENDING else accumulator

    def merge_accumulators(self, accumulators: Iterable[list[np.ndarray]]) -> list[np.ndarray]:
        return [rows for one in accumulators for rows in one]

    def compact(self, accumulator: list[np.ndarray]) -> list[np.ndarray]:
        return [np.vstack(accumulator)] if accumulator else []

    def extract_output(
        self, accumulator: list[np.ndarray]
    ) -> dict[tfma.metrics.MetricKey, float | ValueWithTDistribution]:
        if not accumulator:
            return {}
        rows = np.vstack(accumulator)
        width = (rows.shape[1] - 1) // 2
        labels, numbers, weights = rows[:, :width], rows[:, width:-1], rows[:, -1]
        if self._metric == RankedAUCPrecisionRecall.__name__:
            rate = float(weights @ labels.mean(axis=1) / weights.sum())
            return {self._key: RankedAUCPrecisionRecall().area(labels, numbers, weights) - rate}
        difference = difference_from_trivial(self._metric, labels, numbers, weights, self._threshold)
        return {self._key: _with_interval(difference)}

    def _compared(self, label: np.ndarray, prediction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns as many numbers as labels; of classes the label's index, and the class or the probability."""
        if not TRIVIAL_MODELS[self._metric].is_of_classes:
            is_index = len(label) == 1 < len(prediction)
            return np.eye(len(prediction))[int(label[0])] if is_index else label, prediction
        index = label.astype(int) if len(label) == 1 else np.array([label.argmax()])
        is_accuracy = self._metric.endswith("Accuracy")
        return index, np.array([prediction.argmax()]) if is_accuracy else prediction[index]


def _with_interval(difference: Estimate) -> float | ValueWithTDistribution:
    error = difference.standard_error
    if not np.isfinite(error):
        return difference.value
    return ValueWithTDistribution(difference.value, error, len(difference.influences) - 1, difference.value)
