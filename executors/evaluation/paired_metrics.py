"""Compares the metrics of two models on the same examples: the difference, its confidence interval, its significance.

    for change in paired_metrics(BINARY, labels, first_scores, second_scores):
        print(change.name, change.difference, change.interval, change.is_significant)

Means over examples, such as the log loss, are compared by the paired t-test; accuracy by McNemar's exact test as well;
the AUC by a bootstrap of the positive and of the negative examples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..runtime.files.json_data import JsonData
from .plan import BINARY, MULTICLASS, REGRESSION

if TYPE_CHECKING:
    import numpy as np

CONFIDENCE = 0.95
_RESAMPLES = 500
_FEWEST = 2  # examples, below which there is no interval


@dataclasses.dataclass(frozen=True)
class PairedMetric(JsonData):
    """A metric of two models on the same examples.

    Attributes:
      name: The metric.
      before: Its value for the first model.
      after: Its value for the second model.
      interval: The 95 % confidence interval of after - before; None with too few examples.
      higher_is_better: Whether higher values are better.
      is_significant: Whether the interval excludes 0.
    """

    name: str
    before: float
    after: float
    interval: tuple[float, float] | None
    higher_is_better: bool
    is_significant: bool

    @property
    def difference(self) -> float:
        """The second model's value minus the first one's."""
        return self.after - self.before

    @property
    def is_better(self) -> bool | None:
        """Whether the second model is significantly better; None if the difference is not significant."""
        return (self.difference > 0) == self.higher_is_better if self.is_significant else None

    def to_json(self) -> dict[str, Any]:
        """Returns the metric as JSON values, with those that follow from the others."""
        return {**super().to_json(), "difference": self.difference, "is_better": self.is_better}


def paired_metrics(task: str, labels: np.ndarray, before: np.ndarray, after: np.ndarray) -> list[PairedMetric]:
    """Returns the metrics of a task; [] for tasks other than BINARY, MULTICLASS and REGRESSION.

    Args:
      task: One of `plan.TASKS`.
      labels: Labels as returned by `labels_in`, an array [examples, 1].
      before: The first model's scores, as returned by `scores_in`, an array [examples, numbers].
      after: The second model's scores.
    """
    if task == REGRESSION:
        return [
            _mean_metric(name, *(abs(scores - labels).ravel() ** power for scores in (before, after)))
            for name, power in (("mean absolute error", 1), ("mean squared error", 2))
        ]
    return list(_classification(task, labels, before, after)) if task in (BINARY, MULTICLASS) else []


def predictions_of(task: str, scores: np.ndarray) -> np.ndarray:
    """Returns the predicted class of each example, or the predicted value for REGRESSION."""
    if task == REGRESSION:
        return scores.ravel()
    predicted: np.ndarray = probabilities_in(task, scores).argmax(axis=1)
    return predicted


def probabilities_in(task: str, scores: np.ndarray) -> np.ndarray:
    """Returns the probabilities of all classes, also of the class 0 of a BINARY task."""
    import numpy as np

    return np.hstack([1.0 - scores, scores]) if task == BINARY else scores


def _classification(task: str, labels: np.ndarray, before: np.ndarray, after: np.ndarray) -> Iterator[PairedMetric]:
    import numpy as np

    from .scores import SMALLEST_PROBABILITY

    index: np.ndarray = labels.ravel().astype(int)
    models = (before, after)
    yield _accuracy(*(predictions_of(task, scores) == index for scores in models))
    if task == BINARY and min(np.bincount(index, minlength=2)) >= _FEWEST:
        yield _auc(index, before.ravel(), after.ravel())
    of_label = [probabilities_in(task, scores)[np.arange(len(index)), index] for scores in models]
    yield _mean_metric("log loss", *(-np.log(np.maximum(share, SMALLEST_PROBABILITY)) for share in of_label))


def _metric(
    name: str, before: float, after: float, interval: tuple[float, float] | None, *, higher_is_better: bool
) -> PairedMetric:
    is_significant = interval is not None and not interval[0] <= 0 <= interval[1]
    return PairedMetric(name, before, after, interval, higher_is_better, is_significant)


def _mean_metric(name: str, before: np.ndarray, after: np.ndarray) -> PairedMetric:
    """Compares means of a loss by the paired t-test."""
    interval = _interval_of_mean(after - before)
    return _metric(name, float(before.mean()), float(after.mean()), interval, higher_is_better=False)


def _interval_of_mean(differences: np.ndarray) -> tuple[float, float] | None:
    from scipy import stats

    if len(differences) < _FEWEST:
        return None
    if not differences.std():
        return float(differences[0]), float(differences[0])
    found = stats.ttest_1samp(differences, 0.0).confidence_interval(CONFIDENCE)
    return float(found.low), float(found.high)


def _accuracy(before: np.ndarray, after: np.ndarray) -> PairedMetric:
    """Compares two accuracies by McNemar's exact test and by the paired t-test.

    The interval contains those of both tests: the t-test's is too narrow for few differences, and McNemar's, the exact
    interval of the share of improvements among the differences, does not reflect that their number varies.
    """
    from scipy import stats

    improved, worsened = int((after & ~before).sum()), int((before & ~after).sum())
    interval = _interval_of_mean(after.astype(float) - before)
    if interval is not None and (differing := improved + worsened):
        share = stats.binomtest(improved, differing).proportion_ci(CONFIDENCE)
        low, high = ((2 * float(end) - 1) * differing / len(before) for end in (share.low, share.high))
        interval = min(low, interval[0]), max(high, interval[1])
    return _metric("accuracy", float(before.mean()), float(after.mean()), interval, higher_is_better=True)


def _auc(labels: np.ndarray, before: np.ndarray, after: np.ndarray) -> PairedMetric:
    import numpy as np
    from scipy import stats
    from sklearn.metrics import roc_auc_score

    def difference(positive: np.ndarray, negative: np.ndarray) -> float:
        rows = np.concatenate([positive, negative])
        return float(roc_auc_score(labels[rows], after[rows]) - roc_auc_score(labels[rows], before[rows]))

    found = stats.bootstrap(
        (np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)), difference, n_resamples=_RESAMPLES,
        vectorized=False, confidence_level=CONFIDENCE, method="percentile", random_state=0,
    ).confidence_interval  # fmt: skip
    interval = float(found.low), float(found.high)
    first, second = (float(roc_auc_score(labels, scores)) for scores in (before, after))
    return _metric("AUC", first, second, interval, higher_is_better=True)
