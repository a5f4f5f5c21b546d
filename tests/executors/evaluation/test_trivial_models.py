"""The difference from trivial models equals that of scikit-learn's metrics; its interval that of SciPy's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from generic_trainer.executors.evaluation.trivial_models import difference_from_trivial

RANDOM = np.random.default_rng(0)
COUNT = 400
WEIGHTS = RANDOM.exponential(size=COUNT)
VALUES = RANDOM.gamma(2.0, size=(COUNT, 1))
CLASSES = RANDOM.choice(3, size=(COUNT, 1), p=[0.2, 0.5, 0.3]).astype(float)
BINARY = (VALUES > 2).astype(float)
TAGS = (RANDOM.random((COUNT, 3)) < [0.1, 0.4, 0.8]).astype(float)


def median() -> float:
    order = np.argsort(VALUES[:, 0])
    return float(VALUES[order[np.searchsorted(np.cumsum(WEIGHTS[order]), WEIGHTS.sum() / 2)], 0])


def average(values: Any) -> Any:
    return np.average(values, axis=0, weights=WEIGHTS)


def noisy(values: np.ndarray, low: float = -np.inf, high: float = np.inf) -> np.ndarray:
    return np.clip(values + RANDOM.normal(size=values.shape), low, high)


def guesses(classes: np.ndarray) -> np.ndarray:
    return np.where(RANDOM.random(classes.shape) < 0.6, classes, 1.0)


@pytest.mark.parametrize(
    ("name", "labels", "predictions", "trivial", "expected"),
    [
        ("MeanSquaredError", VALUES, noisy(VALUES), average(VALUES), metrics.mean_squared_error),
        ("RootMeanSquaredError", VALUES, noisy(VALUES), average(VALUES), metrics.root_mean_squared_error),
        ("MeanAbsoluteError", VALUES, noisy(VALUES), median(), metrics.mean_absolute_error),
        ("BinaryAccuracy", BINARY, noisy(BINARY, 0, 1), 0.0, lambda y, p, **w: metrics.accuracy_score(y, p > 0.5, **w)),
        ("SparseCategoricalAccuracy", CLASSES, guesses(CLASSES), 1.0, metrics.accuracy_score),
        ("BinaryCrossentropy", BINARY, noisy(BINARY, 0.1, 0.9), average(BINARY), metrics.log_loss),
        ("RankedAUC", BINARY, noisy(BINARY).round(1), 0.5, metrics.roc_auc_score),
    ],
)
def test_a_model_is_compared_with_the_best_constant(
    name: str, labels: np.ndarray, predictions: np.ndarray, trivial: Any, expected: Callable[..., float]
) -> None:
    def metric(numbers: np.ndarray, weights: np.ndarray) -> float:
        return float(expected(labels.ravel(), numbers.ravel(), sample_weight=weights))

    constant = np.broadcast_to(trivial, labels.shape)
    found = difference_from_trivial(name, labels, predictions, WEIGHTS)
    assert found.value == pytest.approx(metric(predictions, WEIGHTS) - metric(constant, WEIGHTS))
    assert difference_from_trivial(name, labels, constant, WEIGHTS).value == 0
    samples = [RANDOM.exponential(size=COUNT) * WEIGHTS for _ in range(300)]  # a Bayesian bootstrap
    spread = np.std([metric(predictions, one) - metric(constant, one) for one in samples])
    assert found.standard_error == pytest.approx(spread, rel=0.2)


def test_the_interval_of_a_mean_is_that_of_the_paired_t_test() -> None:
    predictions = noisy(VALUES)
    found = difference_from_trivial("MeanSquaredError", VALUES, predictions, np.ones(COUNT))
    losses = (VALUES - predictions) ** 2 - (VALUES - VALUES.mean()) ** 2
    expected = stats.ttest_1samp(losses.ravel(), 0.0).confidence_interval(0.95)
    half = stats.t.ppf(0.975, COUNT - 1) * found.standard_error
    assert (found.value - half, found.value + half) == pytest.approx((expected.low, expected.high))


def test_the_base_rates_of_several_labels_rank_them() -> None:
    rates, scores = np.broadcast_to(average(TAGS), TAGS.shape), noisy(TAGS)
    base, own = (
        metrics.roc_auc_score(TAGS.ravel(), one.ravel(), sample_weight=np.repeat(WEIGHTS, 3)) for one in (rates, scores)
    )
    assert base > 0.7
    assert difference_from_trivial("RankedAUC", TAGS, scores, WEIGHTS).value == pytest.approx(own - base)
