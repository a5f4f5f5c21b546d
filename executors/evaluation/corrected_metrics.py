"""TFMA metrics with right values, in place of TFMA's own.

The area under the ROC or the PR curve, and the points of these curves, are computed by rank, from all scores. TFMA
counts examples between fixed thresholds, which are too coarse for scores that are close to 0 or 1.

The partial results of means of errors are merged once. TFMA's combiners count the first of several partial results
twice, so that their values are wrong if several Beam workers evaluate, and in confidence intervals by jackknife.

    corrected(config)  # the EvalConfig with the classes of this module
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.metrics.binary_confusion_matrices import BINARY_CONFUSION_MATRICES_NAME, Matrices
from tensorflow_model_analysis.proto import config_pb2, metrics_for_slice_pb2

from .collected_examples import collected

_Computations: TypeAlias = "list[tfma.metrics.MetricComputation | tfma.metrics.DerivedMetricComputation]"

MERGED = "Merged"  # before the name of TFMA's class, in names of classes that merge once
_CURVE_STEPS = 500  # on each axis of a plotted curve


class _Ranked(tfma.metrics.Metric):  # type: ignore[misc]
    """A metric or plot that TFMA derives from confusion matrices; here there is one at each score."""

    def computations(self, **context: Any) -> _Computations:
        """Returns TFMA's derived computations, from other matrices."""
        shared = {name: context.get(name) for name in ("eval_config", "aggregation_type", "class_weights")}
        weights = "".join(f"_{label}:{weight:g}" for label, weight in sorted((shared["class_weights"] or {}).items()))
        computations: _Computations = []
        for computation in super().computations(**context):
            if computation.keys[-1].name.startswith(BINARY_CONFUSION_MATRICES_NAME):
                matrices_key = computation.keys[-1]
            elif isinstance(computation, tfma.metrics.DerivedMetricComputation):
                # One key for all metrics and plots of an output, so that the scores are collected once.
                key = matrices_key._replace(name=f"_scores{weights}", aggregation_type=shared["aggregation_type"])
                rows = functools.partial(_rows, key=key, **shared)
                result = functools.partial(self._result, computation.result, matrices_key, key)
                computations += [
                    collected(key, rows, _merged),
                    tfma.metrics.DerivedMetricComputation(computation.keys, result),
                ]
        return computations

    def _result(
        self,
        derived: Callable[[Mapping[tfma.metrics.MetricKey, Matrices]], object],
        matrices_key: tfma.metrics.MetricKey,
        key: tfma.metrics.MetricKey,
        metrics: Mapping[tfma.metrics.MetricKey, list[np.ndarray]],
    ) -> object:
        return derived({matrices_key: self._matrices(np.vstack([np.empty((0, 3)), *metrics[key]]))})

    def _matrices(self, rows: np.ndarray) -> Matrices:
        return _matrices(rows)


class RankedAUC(_Ranked, tfma.metrics.AUC):  # type: ignore[misc]
    """`tfma.metrics.AUC` with a threshold at each score; ignores `thresholds` and `num_thresholds`."""

    def area(self, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float:
        """Returns the area of labels from 0 to 1 and their scores, both [examples, numbers], with example weights."""
        weight = np.broadcast_to(weights[:, np.newaxis], labels.shape)
        rows = [np.ravel(column) for column in (scores, weight * labels, weight * (1.0 - labels))]
        matrices = _matrices(_merged(np.column_stack(rows)))
        return float(self._metric_value(self.kwargs["curve"], self.kwargs["summation_method"], None, matrices))


class RankedAUCPrecisionRecall(RankedAUC, tfma.metrics.AUCPrecisionRecall):  # type: ignore[misc]
    """`tfma.metrics.AUCPrecisionRecall` with a threshold at each score."""


class RankedConfusionMatrixPlot(_Ranked, tfma.metrics.ConfusionMatrixPlot):  # type: ignore[misc]
    """`tfma.metrics.ConfusionMatrixPlot` with at most 1,000 thresholds at scores, evenly spaced on the ROC curve."""

    def _matrices(self, rows: np.ndarray) -> Matrices:
        matrices = _matrices(rows)
        steps = [np.floor(_CURVE_STEPS * counts / max(counts[0], 1e-300)) for counts in (matrices.tp, matrices.fp)]
        moved = np.any([np.diff(counts) != 0 for counts in steps], axis=0)
        return _PlottedMatrices(*(column[np.r_[True, moved]].tolist() for column in matrices))


class _PlottedMatrices(Matrices):  # type: ignore[misc]
    def to_proto(self) -> metrics_for_slice_pb2.MetricValue:
        """Returns TFMA's message, but does not round the thresholds: many scores may be almost 1."""
        value = super().to_proto()
        for point, threshold in zip(value.confusion_matrix_at_thresholds.matrices, self.thresholds, strict=True):
            point.threshold = threshold
        return value


def _rows(
    element: tfma.metrics.StandardMetricInputs, *, key: tfma.metrics.MetricKey, **context: Any
) -> Iterator[tuple[float, float, float]]:
    """Yields rows of (score, weight of its positive examples, weight of its negative ones)."""
    for label, score, weight in tfma.metrics.to_label_prediction_example_weight(
        element,
        model_name=key.model_name,
        output_name=key.output_name,
        sub_key=key.sub_key,
        example_weighted=key.example_weighted,
        fractional_labels=True,  # checks that they are from 0 to 1, and splits those between
        **context,
    ):
        if np.size(label) and np.size(score):
            share, total = float(np.squeeze(label)), float(np.squeeze(weight))
            yield float(np.squeeze(score)), share * total, (1.0 - share) * total


def _merged(rows: np.ndarray) -> np.ndarray:
    """Returns the rows in ascending order of the score, with the sum of the weights of equal scores."""
    scores, groups = np.unique(rows[:, 0], return_inverse=True)
    merged: np.ndarray = np.column_stack([scores, *(np.bincount(groups, weights) for weights in rows.T[1:])])
    return merged


def _matrices(rows: np.ndarray) -> Matrices:
    """Returns the confusion matrices of "positive above this threshold": below each score, and at the highest one."""
    none = np.zeros((1, 2))
    below = np.concatenate([none, np.cumsum(rows[:, 1:], axis=0)])
    above = np.concatenate([np.cumsum(rows[::-1, 1:], axis=0)[::-1], none])
    return Matrices(_between(rows[:, 0]), tp=above[:, 0], tn=below[:, 1], fp=above[:, 1], fn=below[:, 0])


def _between(scores: np.ndarray) -> np.ndarray:
    """Returns a threshold below each of the ascending scores, in the middle from the last one, and the highest one."""
    if not len(scores):
        return np.zeros(1)
    middles = (scores[1:] + scores[:-1]) / 2
    just_below = np.nextafter(scores, -np.inf)
    thresholds: np.ndarray = np.concatenate([just_below[:1], np.minimum(middles, just_below[1:]), scores[-1:]])
    return thresholds


class _MergedOnce(tfma.metrics.Metric):  # type: ignore[misc]
    def computations(self, *arguments: object, **keywords: object) -> list[tfma.metrics.MetricComputation]:
        """Returns TFMA's computations with combiners that merge each accumulator once."""
        return [
            tfma.metrics.MetricComputation(
                computation.keys, computation.preprocessors, _OnceCombiner(computation.combiner)
            )
            for computation in super().computations(*arguments, **keywords)
        ]


class MergedMeanSquaredError(_MergedOnce, tfma.metrics.MeanSquaredError):  # type: ignore[misc]
    """`tfma.metrics.MeanSquaredError`."""


class MergedMeanAbsoluteError(_MergedOnce, tfma.metrics.MeanAbsoluteError):  # type: ignore[misc]
    """`tfma.metrics.MeanAbsoluteError`."""


class MergedMeanAbsolutePercentageError(_MergedOnce, tfma.metrics.MeanAbsolutePercentageError):  # type: ignore[misc]
    """`tfma.metrics.MeanAbsolutePercentageError`."""


class MergedMeanSquaredLogarithmicError(_MergedOnce, tfma.metrics.MeanSquaredLogarithmicError):  # type: ignore[misc]
    """`tfma.metrics.MeanSquaredLogarithmicError`."""


class MergedBinaryCrossEntropy(_MergedOnce, tfma.metrics.BinaryCrossEntropy):  # type: ignore[misc]
    """`tfma.metrics.BinaryCrossEntropy`."""


class MergedCategoricalCrossEntropy(_MergedOnce, tfma.metrics.CategoricalCrossEntropy):  # type: ignore[misc]
    """`tfma.metrics.CategoricalCrossEntropy`."""


class _OnceCombiner(beam.CombineFn):  # type: ignore[misc]
    """Delegates to a combiner of TFMA, whose accumulators are opaque here."""

    def __init__(self, combiner: beam.CombineFn) -> None:
        self._combiner = combiner

    def create_accumulator(self) -> Any:
        return self._combiner.create_accumulator()

    def add_input(self, accumulator: Any, element: tfma.metrics.StandardMetricInputs) -> Any:
        return self._combiner.add_input(accumulator, element)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        # TFMA's takes the first one and then all, which an iterator has no longer; it adds to the first one.
        return self._combiner.merge_accumulators(copy.deepcopy(accumulator) for accumulator in accumulators)

    def extract_output(self, accumulator: Any) -> Any:
        return self._combiner.extract_output(accumulator)


# {class of TFMA: the one in its place}
_CORRECTED: Mapping[str, type[tfma.metrics.Metric]] = {
    "AUC": RankedAUC,
    "AUCPrecisionRecall": RankedAUCPrecisionRecall,
    "ConfusionMatrixPlot": RankedConfusionMatrixPlot,
    **{merged.__name__.removeprefix(MERGED): merged for merged in _MergedOnce.__subclasses__()},
}


def corrected(config: config_pb2.EvalConfig) -> config_pb2.EvalConfig:
    """Returns the configuration with the classes of this module in place of TFMA's."""
    result = config_pb2.EvalConfig()
    result.CopyFrom(config)
    for metric in (metric for spec in result.metrics_specs for metric in spec.metrics):
        if own := _CORRECTED.get(metric.class_name):
            metric.class_name, metric.module = own.__name__, own.__module__
    return result
