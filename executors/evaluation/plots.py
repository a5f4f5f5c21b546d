"""Predictions compared with labels, as plain values: curves, confusion matrices, calibration and residuals.

TFMA computes them over all examples of a pipeline (`pipelines/history/evaluation_plots.py`), scikit-learn over a
sample:

    plots = plots_of(labels, scores, OutputPlan("output_0", BINARY, "big_tip"))
    max(plots.thresholds, key=lambda one: one.f1).threshold
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..runtime.files.json_data import JsonData
from .plan import BINARY, MULTICLASS, REGRESSION, OutputPlan

if TYPE_CHECKING:
    import numpy as np

Confusion: TypeAlias = Mapping[tuple[int, int], float]  # {(class of the label, predicted class): examples}

MAX_RANGES, SMALLEST_RANGE = 10, 20  # ranges of the prediction, and examples in each
_SMALLEST_MOVE = 0.003  # distance between the kept points of a curve
_RESIDUAL_BINS = 30


@dataclasses.dataclass(frozen=True)
class Threshold:
    """Rates of a binary classifier that predicts class 1 from a threshold on, and the examples of each kind."""

    threshold: float
    precision: float
    recall: float
    false_positive_rate: float
    f1: float
    confusion: Confusion


@dataclasses.dataclass(frozen=True)
class Range:
    """The examples with a prediction from `low` to `high`, and their mean prediction and label.

    `error` is their mean absolute error; None if it is unknown or not a regression.
    """

    low: float
    high: float
    examples: float
    prediction: float
    label: float
    error: float | None = None


@dataclasses.dataclass(frozen=True)
class OutputPlots(JsonData):
    """Predictions of one output compared with labels.

    Attributes:
      output: The output; "" for the only one.
      thresholds: Binary tasks: ascending thresholds.
      ranges: Binary and regression tasks: up to ten ranges of the prediction with about the same number of examples.
      confusion: Multiclass tasks: the confusion matrix, without zeros.
      residuals: Regression tasks: (middle of a range of prediction minus label, examples).
    """

    output: str
    thresholds: Sequence[Threshold] = ()
    ranges: Sequence[Range] = ()
    confusion: Confusion = dataclasses.field(default_factory=dict)
    residuals: Sequence[tuple[float, float]] = ()


def plots_of(labels: np.ndarray, scores: np.ndarray, plan: OutputPlan, name: str = "") -> OutputPlots:
    """Compares an output with its labels; imports scikit-learn.

    Args:
      labels: Array [examples, numbers], as from `scores.labels_in`.
      scores: Array [examples, numbers], as from `scores.scores_in`.
      plan: The output's plan. Other tasks than BINARY, MULTICLASS and REGRESSION have no plots.
      name: Name of the output in the result.
    """
    import numpy as np

    if plan.task == BINARY:
        return OutputPlots(name, _thresholds(labels.ravel(), scores.ravel()), list(_ranges(labels, scores)))
    if plan.task == MULTICLASS:
        from sklearn.metrics import confusion_matrix

        classes = np.arange(scores.shape[1])
        matrix = confusion_matrix(labels.ravel(), scores.argmax(axis=1), labels=classes)
        counts = {
            (int(row), int(column)): float(matrix[row, column]) for row, column in zip(*matrix.nonzero(), strict=True)
        }
        return OutputPlots(name, confusion=counts)
    if plan.task == REGRESSION and scores.shape[1] == 1:
        counted, edges = np.histogram((scores - labels).ravel(), _RESIDUAL_BINS)
        middles = (edges[:-1] + edges[1:]) / 2
        residuals = [(float(middle), float(count)) for middle, count in zip(middles, counted, strict=True)]
        return OutputPlots(name, ranges=list(_ranges(labels, scores, has_errors=True)), residuals=residuals)
    return OutputPlots(name)


def thinned(points: Sequence[tuple[float, float]], smallest_move: float) -> list[int]:
    """Returns the indices of the points of a curve without those that are hardly visible between their neighbours."""
    kept = [0] if points else []
    for index in range(1, len(points) - 1):
        if math.dist(points[index], points[kept[-1]]) >= smallest_move:
            kept.append(index)
    return [*kept, len(points) - 1] if len(points) > 1 else kept


def _thresholds(labels: np.ndarray, scores: np.ndarray) -> list[Threshold]:
    from sklearn.metrics import roc_curve

    positives = float(labels.sum())
    negatives = len(labels) - positives
    if not positives or not negatives:
        return [_threshold(0.5, positives, negatives, *(float((scores[labels == one] >= 0.5).sum()) for one in (1, 0)))]
    false_rates, true_rates, thresholds = roc_curve(labels, scores)
    found = [
        _threshold(min(float(threshold), 1.0), positives, negatives, true * positives, false * negatives)
        for threshold, true, false in zip(thresholds, true_rates, false_rates, strict=True)
    ]
    roc = thinned([(one.false_positive_rate, one.recall) for one in found], _SMALLEST_MOVE)
    precision = thinned([(one.recall, one.precision) for one in found], _SMALLEST_MOVE)
    best = max(range(len(found)), key=lambda index: found[index].f1)
    return [found[index] for index in sorted({*roc, *precision, best}, reverse=True)]


def _threshold(
    threshold: float, positives: float, negatives: float, true_positives: float, false_positives: float
) -> Threshold:
    hits, false_alarms = float(round(true_positives)), float(round(false_positives))
    predicted = hits + false_alarms
    return Threshold(
        threshold,
        precision=hits / predicted if predicted else 0.0,
        recall=hits / positives if positives else 0.0,
        false_positive_rate=false_alarms / negatives if negatives else 0.0,
        f1=2 * hits / (positives + predicted) if positives + predicted else 0.0,
        confusion={(0, 0): negatives - false_alarms, (0, 1): false_alarms, (1, 0): positives - hits, (1, 1): hits},
    )


def _ranges(labels: np.ndarray, scores: np.ndarray, *, has_errors: bool = False) -> Iterator[Range]:
    import numpy as np

    order = np.argsort(scores.ravel(), kind="stable")
    labels, scores = labels.ravel()[order], scores.ravel()[order]
    count = max(1, min(MAX_RANGES, len(order) // SMALLEST_RANGE))
    groups = [group for group in np.array_split(np.arange(len(order)), count) if len(group)]
    for group in groups:
        found, expected = scores[group], labels[group]
        error = float(np.abs(found - expected).mean()) if has_errors else None
        yield Range(
            float(found[0]), float(found[-1]), float(len(group)), float(found.mean()), float(expected.mean()), error
        )
