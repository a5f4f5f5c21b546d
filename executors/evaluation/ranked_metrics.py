"""TFMA metrics by rank: the area under the ROC or the PR curve, and the points of these curves, from all scores.

TFMA's own classes count examples between fixed thresholds, which are too coarse for scores that are close to 0 or 1.

    spec.metrics.add(class_name=RankedAUC.__name__, module=RankedAUC.__module__)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.metrics.binary_confusion_matrices import Matrices
from tensorflow_model_analysis.proto import config_pb2

_Computations: TypeAlias = "list[tfma.metrics.MetricComputation | tfma.metrics.DerivedMetricComputation]"

_PENDING = 1 << 12  # rows of Python numbers, before they become an array
# Distinct scores. Neighbours are merged above it, which changes an area by less than one millionth.
_MOST = 1 << 20
_CURVE_STEPS = 500  # on each axis of a plotted curve


class RankedAUC(tfma.metrics.AUC):  # type: ignore[misc]
    """`tfma.metrics.AUC` with a threshold at each score; ignores `thresholds` and `num_thresholds`."""

    def _metric_computations(  # type: ignore[no-untyped-def]  # noqa: PLR0913 (TFMA's signature)
        self,
        name: str,
        curve: str,
        summation_method: str,
        eval_config: config_pb2.EvalConfig,
        model_name: str = "",
        output_name: str = "",
        sub_key: tfma.metrics.SubKey | None = None,
        aggregation_type: tfma.metrics.AggregationType | None = None,
        class_weights: Mapping[int, float] | None = None,
        example_weighted: bool = False,
        class_id: int | None = None,
        top_k: int | None = None,
        **_,
    ) -> _Computations:
        chosen = {"class_id": class_id, "top_k": top_k}
        if given := {part: value for part, value in chosen.items() if value is not None}:
            sub_key = (sub_key or tfma.metrics.SubKey())._replace(**given)
        key = tfma.metrics.MetricKey(name, model_name, output_name, sub_key, aggregation_type, example_weighted)
        ranked = _ranked_matrices(key, eval_config, class_weights)

        def result(metrics: Mapping[tfma.metrics.MetricKey, list[Matrices]]) -> dict[tfma.metrics.MetricKey, float]:
            [matrices] = metrics[ranked.keys[0]]
            return {key: float(self._metric_value(curve, summation_method, key, matrices))}

        return [ranked, tfma.metrics.DerivedMetricComputation([key], result)]

    def area(self, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float:
        """Returns the area of labels from 0 to 1 and their scores, both [examples, numbers], with example weights."""
        weight = np.broadcast_to(weights[:, np.newaxis], labels.shape)
        rows = [np.ravel(column) for column in (scores, weight * labels, weight * (1.0 - labels))]
        matrices = _matrices(_merged(np.column_stack(rows)))
        return float(self._metric_value(self.kwargs["curve"], self.kwargs["summation_method"], None, matrices))


class RankedAUCPrecisionRecall(RankedAUC, tfma.metrics.AUCPrecisionRecall):  # type: ignore[misc]
    """`tfma.metrics.AUCPrecisionRecall` with a threshold at each score."""


class RankedConfusionMatrixPlot(tfma.metrics.ConfusionMatrixPlot):  # type: ignore[misc]
    """`tfma.metrics.ConfusionMatrixPlot` with at most 1,000 thresholds at scores, evenly spaced on the ROC curve."""

    def _confusion_matrix_plot(  # type: ignore[no-untyped-def]  # noqa: PLR0913 (TFMA's signature)
        self,
        name: str,
        eval_config: config_pb2.EvalConfig,
        model_name: str = "",
        output_name: str = "",
        sub_key: tfma.metrics.SubKey | None = None,
        aggregation_type: tfma.metrics.AggregationType | None = None,
        class_weights: Mapping[int, float] | None = None,
        example_weighted: bool = False,
        **_,
    ) -> _Computations:
        key = tfma.metrics.PlotKey(name, model_name, output_name, sub_key, example_weighted=example_weighted)
        ranked = _ranked_matrices(key._replace(aggregation_type=aggregation_type), eval_config, class_weights)

        def result(metrics: Mapping[tfma.metrics.MetricKey, list[Matrices]]) -> dict[tfma.metrics.PlotKey, object]:
            [matrices] = metrics[ranked.keys[0]]
            thinned = _thinned(matrices)
            plot = thinned.to_proto().confusion_matrix_at_thresholds
            for point, threshold in zip(plot.matrices, thinned.thresholds, strict=True):
                point.threshold = threshold  # `to_proto` rounds it, but many scores may be almost 1
            return {key: plot}

        return [ranked, tfma.metrics.DerivedMetricComputation([key], result)]


def _ranked_matrices(
    key: tfma.metrics.MetricKey, eval_config: config_pb2.EvalConfig, class_weights: Mapping[int, float] | None
) -> tfma.metrics.MetricComputation:
    """Returns the computation of the confusion matrices at all scores, shared by metrics and plots of an output."""
    weights = "".join(f"_{label}:{weight:g}" for label, weight in sorted((class_weights or {}).items()))
    private = tfma.metrics.MetricKey(f"_ranked_matrices{weights}", *key[1:])
    return tfma.metrics.MetricComputation([private], None, _RankCombiner(private, eval_config, class_weights))


@dataclasses.dataclass
class _Scores:
    """Rows of (score, weight of its positive examples, weight of its negative ones): merged ones, and new ones."""

    merged: np.ndarray = dataclasses.field(default_factory=lambda: np.empty((0, 3)))
    pending: list[tuple[float, float, float]] = dataclasses.field(default_factory=list)

    def all(self) -> np.ndarray:
        rows: np.ndarray = np.concatenate([self.merged, np.reshape(self.pending, (-1, 3))])
        return rows


class _RankCombiner(beam.CombineFn):  # type: ignore[misc]
    def __init__(
        self,
        key: tfma.metrics.MetricKey,
        eval_config: config_pb2.EvalConfig,
        class_weights: Mapping[int, float] | None,
    ) -> None:
        self._key, self._eval_config, self._class_weights = key, eval_config, class_weights

    def create_accumulator(self) -> _Scores:
        return _Scores()

    def add_input(self, accumulator: _Scores, element: tfma.metrics.StandardMetricInputs) -> _Scores:
        for label, score, weight in tfma.metrics.to_label_prediction_example_weight(
            element,
            eval_config=self._eval_config,
            model_name=self._key.model_name,
            output_name=self._key.output_name,
            sub_key=self._key.sub_key,
            aggregation_type=self._key.aggregation_type,
            class_weights=self._class_weights,
            example_weighted=self._key.example_weighted,
            fractional_labels=True,  # checks that they are from 0 to 1, and splits those between
        ):
            if np.size(label) and np.size(score):
                share, total = float(np.squeeze(label)), float(np.squeeze(weight))
                accumulator.pending.append((float(np.squeeze(score)), share * total, (1.0 - share) * total))
        # The more rows there are, the more new ones are worth sorting them again.
        is_full = len(accumulator.pending) >= max(_PENDING, len(accumulator.merged) // 4)
        return self.compact(accumulator) if is_full else accumulator

    def merge_accumulators(self, accumulators: Iterable[_Scores]) -> _Scores:
        return _Scores(_merged(np.concatenate([one.all() for one in accumulators])))

    def compact(self, accumulator: _Scores) -> _Scores:
        return _Scores(_merged(accumulator.all()))

    def extract_output(self, accumulator: _Scores) -> dict[tfma.metrics.MetricKey, list[Matrices]]:
        # In a list, because TFMA tries to compute a confidence interval of each matrix or number.
        return {self._key: [_matrices(_merged(accumulator.all()))]}


def _merged(rows: np.ndarray) -> np.ndarray:
    """Returns the rows in ascending order of the score, with the sum of the weights of equal scores."""
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    rows = _summed(rows, rows[:, 0])
    if len(rows) > _MOST:
        ranks = np.cumsum(rows[:, 1:].sum(axis=1))
        rows = _summed(rows, np.floor(ranks / ranks[-1] * (_MOST // 2)))
    return rows


def _summed(rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    if not len(rows):
        return rows
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    summed: np.ndarray = np.column_stack([rows[starts, 0], np.add.reduceat(rows[:, 1:], starts)])
    return summed


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


def _thinned(matrices: Matrices) -> Matrices:
    steps = [np.floor(_CURVE_STEPS * counts / max(counts[0], 1e-300)) for counts in (matrices.tp, matrices.fp)]
    moved = np.any([np.diff(one) != 0 for one in steps], axis=0)
    kept = np.r_[True, moved]
    return Matrices(*(_floats(column[kept]) for column in matrices))


def _floats(column: np.ndarray) -> Sequence[float]:
    return [float(value) for value in column]
