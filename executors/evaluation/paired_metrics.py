"""Compares the metrics of two models on the same examples: the difference, its confidence interval, its significance.

    for change in paired_metrics(BINARY, labels, first_scores, second_scores):
        print(change.name, change.difference, change.interval, change.is_significant)

Means over examples, such as the log loss, are compared by the paired t-test; accuracy by McNemar's exact test as well;
the AUC by DeLong's method.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..runtime.files.json_data import JsonData
from .plan import BINARY, MULTICLASS, REGRESSION

if TYPE_CHECKING:
    import numpy as np

    from .estimates import Estimate

_FEWEST = 2  # examples of each class, below which the AUC is not compared


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
    from .estimates import mean

    if task == REGRESSION:
        return [
            _metric(name, *(mean(abs(scores - labels).ravel() ** power) for scores in (before, after)))
            for name, power in (("mean absolute error", 1), ("mean squared error", 2))
        ]
    return list(_classification(task, labels, before, after)) if task in (BINARY, MULTICLASS) else []


def _classification(task: str, labels: np.ndarray, before: np.ndarray, after: np.ndarray) -> Iterator[PairedMetric]:
    import numpy as np

    from .estimates import area, mean
    from .scores import SMALLEST_PROBABILITY, predictions_of, probabilities_in

    index: np.ndarray = labels.ravel().astype(int)
    models = (before, after)
    hits = [predictions_of(task, scores) == index for scores in models]
    yield _metric("accuracy", *map(mean, hits), higher_is_better=True, also=_exact_interval(*hits))
    if task == BINARY and min(np.bincount(index, minlength=2)) >= _FEWEST:
        yield _metric("AUC", *(area(labels, scores) for scores in models), higher_is_better=True)
    of_label = [probabilities_in(task, scores)[np.arange(len(index)), index] for scores in models]
    yield _metric("log loss", *(mean(-np.log(np.maximum(share, SMALLEST_PROBABILITY))) for share in of_label))


def _metric(
    name: str,
    before: Estimate,
    after: Estimate,
    *,
    higher_is_better: bool = False,
    also: tuple[float, float] | None = None,
) -> PairedMetric:
    """Compares two estimates; the interval includes that of another test, if there is one."""
    interval = (after - before).interval
    if interval is not None and also is not None:
        interval = min(interval[0], also[0]), max(interval[1], also[1])
    is_significant = interval is not None and not interval[0] <= 0 <= interval[1]
    return PairedMetric(name, before.value, after.value, interval, higher_is_better, is_significant)


def _exact_interval(before: np.ndarray, after: np.ndarray) -> tuple[float, float] | None:
    """Returns the interval of the difference of two accuracies by McNemar's exact test; None without a change.

    It is the exact interval of the share of improvements among the changes, and does not reflect that their number
    varies. The t-test's interval does, but is too narrow for few changes.
    """
    from scipy import stats

    from .estimates import CONFIDENCE

    improved, worsened = int((after & ~before).sum()), int((before & ~after).sum())
    if not (changed := improved + worsened):
        return None
    share = stats.binomtest(improved, changed).proportion_ci(CONFIDENCE)
    low, high = ((2 * float(end) - 1) * changed / len(before) for end in (share.low, share.high))
    return low, high
