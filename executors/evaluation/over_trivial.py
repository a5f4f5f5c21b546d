"""The TFMA metric that compares a model with the trivial model; see `trivial_comparison`, which uses it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.api.types import ValueWithTDistribution
from tensorflow_model_analysis.proto import config_pb2

from .collected_examples import collected
from .corrected_metrics import RankedAUCPrecisionRecall
from .trivial_models import TRIVIAL_MODELS, difference_from_trivial


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
) -> list[tfma.metrics.MetricComputation | tfma.metrics.DerivedMetricComputation]:
    key = tfma.metrics.MetricKey(name, model_name, output_name, sub_key, example_weighted=example_weighted)
    examples_key = key._replace(name=f"_examples_of_{name}")
    rows = functools.partial(_rows, metric=metric, key=key, eval_config=eval_config)

    def result(metrics: Mapping[tfma.metrics.MetricKey, list[np.ndarray]]) -> dict[tfma.metrics.MetricKey, object]:
        arrays = metrics[examples_key]
        return {key: _difference(metric, threshold, arrays[0])} if arrays else {}

    return [collected(examples_key, rows), tfma.metrics.DerivedMetricComputation([key], result)]


def _rows(
    element: tfma.metrics.StandardMetricInputs,
    *,
    metric: str,
    key: tfma.metrics.MetricKey,
    eval_config: config_pb2.EvalConfig,
) -> Iterator[np.ndarray]:
    """Yields rows of an example's labels, as many numbers to compare with them, and the example's weight.

    For classes these are the index of the label, and the predicted class or the label's probability.
    """
    for labels, prediction, weight in tfma.metrics.to_label_prediction_example_weight(
        element,
        eval_config=eval_config,
        model_name=key.model_name,
        output_name=key.output_name,
        sub_key=key.sub_key,
        example_weighted=key.example_weighted,
        flatten=False,
    ):
        label, numbers = np.ravel(labels), np.ravel(prediction)
        is_index = len(label) == 1
        if not TRIVIAL_MODELS[metric].is_of_classes:
            label = np.eye(len(numbers))[int(label[0])] if is_index and len(numbers) > 1 else label
        else:
            label = label.astype(int) if is_index else np.array([label.argmax()])
            numbers = np.array([numbers.argmax()]) if metric.endswith("Accuracy") else numbers[label]
        yield np.concatenate([label, numbers, np.ravel(weight)[:1]])


def _difference(metric: str, threshold: float, rows: np.ndarray) -> float | ValueWithTDistribution:
    width = (rows.shape[1] - 1) // 2
    labels, numbers, weights = rows[:, :width], rows[:, width:-1], rows[:, -1]
    if metric == RankedAUCPrecisionRecall.__name__:
        rate = float(weights @ labels.mean(axis=1) / weights.sum())
        return RankedAUCPrecisionRecall().area(labels, numbers, weights) - rate
    difference = difference_from_trivial(metric, labels, numbers, weights, threshold)
    error = difference.standard_error
    if not np.isfinite(error):
        return difference.value
    return ValueWithTDistribution(difference.value, error, len(rows) - 1, difference.value)
