"""Metrics of some examples, and the intervals of their differences on the same examples.

    difference = mean(after) - mean(before)
    difference.value, difference.interval  # of the paired t-test

The interval of a difference of areas under the ROC curve is DeLong's, with the examples as clusters if each has several
labels.
"""

from __future__ import annotations

import dataclasses

import numpy as np

CONFIDENCE = 0.95
_ROUNDING = 1e-9  # relative difference of equal values


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A value of some examples, and the influence of each example on it, whose squares add up to its variance."""

    value: float
    influences: np.ndarray

    def __sub__(self, other: Estimate) -> Estimate:
        is_equal = np.isclose(self.value, other.value, rtol=_ROUNDING, atol=0.0)
        difference = 0.0 if is_equal else self.value - other.value
        return Estimate(difference, self.influences - other.influences)

    @property
    def standard_error(self) -> float:
        """The standard error, with the correction for the number of examples; NaN for a single one."""
        count = len(self.influences)
        return float(np.sqrt((self.influences**2).sum() * count / (count - 1))) if count > 1 else float("nan")

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval, by Student's t; None for a single example."""
        from scipy import stats

        count = len(self.influences)
        if count < 2:
            return None
        half = float(stats.t.ppf((1.0 + CONFIDENCE) / 2.0, count - 1)) * self.standard_error
        return self.value - half, self.value + half


def mean(values: np.ndarray, weights: np.ndarray | None = None) -> Estimate:
    """Returns the mean of one value for each example."""
    average = float(np.average(values, weights=weights))
    shares = 1.0 / len(values) if weights is None else weights / weights.sum()
    return Estimate(average, shares * (values - average))


def root(estimate: Estimate) -> Estimate:
    """Returns the square root."""
    value = estimate.value**0.5
    return Estimate(value, estimate.influences / (2.0 * value) if value else estimate.influences)


def area(labels: np.ndarray, scores: np.ndarray, weights: np.ndarray | None = None) -> Estimate:
    """Returns the area under the ROC curve of all labels, which is the share of pairs in the right order.

    Args:
      labels: Array [examples, numbers] from 0 to 1.
      scores: Array [examples, numbers].
      weights: Array [examples].
    """
    _, ranks = np.unique(scores, return_inverse=True)
    ranks = ranks.reshape(labels.shape)
    weight = 1.0 if weights is None else weights[:, np.newaxis]
    positive, negative = weight * labels, weight * (1.0 - labels)
    if not positive.any() or not negative.any():
        return Estimate(0.0, np.zeros(len(labels)))  # as TFMA: there are no pairs
    below, above = _shares_below(ranks, negative), 1.0 - _shares_below(ranks, positive)
    share = float((positive * below).sum() / positive.sum())
    influences = positive * (below - share) / positive.sum() + negative * (above - share) / negative.sum()
    return Estimate(share, influences.sum(axis=1))


def _shares_below(ranks: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the share of the weights at lower ranks, with half of those at the same rank."""
    sums = np.bincount(ranks.ravel(), weights.ravel())
    shares: np.ndarray = ((np.cumsum(sums) - sums / 2) / sums.sum())[ranks]
    return shares
