"""Metrics of two models on the same examples: intervals and significance against values known from the literature."""

from __future__ import annotations

import json

import numpy as np
import pytest

from generic_trainer.executors.evaluation.paired_metrics import PairedMetric, paired_metrics
from generic_trainer.executors.evaluation.plan import BINARY, MULTICLASS, RANKING, REGRESSION

RANDOM = np.random.default_rng(5)
COUNT = 2000
LABELS = RANDOM.integers(0, 2, (COUNT, 1)).astype(float)
NOISE = RANDOM.normal(size=(COUNT, 1))


def probabilities(strength: float, noise: np.ndarray = NOISE) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-strength * (2 * LABELS - 1) - noise)))


def by_name(task: str, labels: np.ndarray, before: np.ndarray, after: np.ndarray) -> dict[str, PairedMetric]:
    return {one.name: one for one in paired_metrics(task, labels, before, after)}


def test_a_clearly_better_model_is_significantly_better() -> None:
    found = by_name(BINARY, LABELS, probabilities(0.5), probabilities(1.5))
    assert list(found) == ["accuracy", "AUC", "log loss"]
    for metric in found.values():
        assert metric.interval is not None
        assert metric.interval[0] < metric.difference < metric.interval[1]
        assert (metric.is_significant, metric.is_better) == (True, True)
    worse = by_name(BINARY, LABELS, probabilities(1.5), probabilities(0.5))
    assert [metric.is_better for metric in worse.values()] == [False, False, False]


def test_models_of_the_same_strength_do_not_differ_significantly() -> None:
    other = RANDOM.normal(size=NOISE.shape)
    found = by_name(BINARY, LABELS, probabilities(0.8), probabilities(0.8, other))
    assert [metric.is_better for metric in found.values()] == [None, None, None]
    assert all(metric.difference for metric in found.values())


@pytest.mark.parametrize("task", [BINARY, REGRESSION])
def test_a_model_does_not_differ_from_itself(task: str) -> None:
    for metric in paired_metrics(task, LABELS, probabilities(1), probabilities(1)):
        assert (metric.difference, metric.interval, metric.is_significant) == (0, (0, 0), False)


@pytest.mark.parametrize(("improved", "is_significant"), [(5, False), (6, True)])
def test_few_examples_are_judged_by_an_exact_test(improved: int, is_significant: bool) -> None:
    """McNemar's exact test: of 5 differences in one direction p = 2/32, of 6 p = 2/64."""
    labels = np.ones((20, 1))
    after = np.full((20, 1), 0.9)
    before = np.where(np.arange(20)[:, None] < improved, 0.1, 0.9)
    found = by_name(BINARY, labels, before, after)
    assert found["accuracy"].difference == pytest.approx(improved / 20)
    assert found["accuracy"].is_significant is is_significant
    low = (
        (0.025 ** (1 / improved) * 2 - 1) * improved / 20
    )  # Clopper and Pearson's bound if all differ in one direction
    assert found["accuracy"].interval is not None
    assert found["accuracy"].interval[0] == pytest.approx(low)
    assert "AUC" not in found  # all labels are positive


def test_the_interval_of_a_mean_is_the_one_of_the_t_test() -> None:
    labels, after = np.zeros((4, 1)), np.array([[1.0], [2.0], [3.0], [4.0]])
    [error, _] = paired_metrics(REGRESSION, labels, np.zeros((4, 1)), after)
    half = 3.182446 * np.std(after, ddof=1) / 2  # the 97.5 % quantile of Student's t with 3 degrees of freedom
    assert error.interval == pytest.approx((2.5 - half, 2.5 + half), rel=1e-5)
    assert (error.name, error.before, error.after) == ("mean absolute error", 0, 2.5)


def test_classes_are_compared_by_accuracy_and_log_loss() -> None:
    labels = np.array([[0.0], [1.0], [2.0]])
    before = np.array([[0.5, 0.3, 0.2]] * 3)
    after = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    found = by_name(MULTICLASS, labels, before, after)
    assert list(found) == ["accuracy", "log loss"]
    assert (found["accuracy"].before, found["accuracy"].after) == (pytest.approx(1 / 3), 1)
    assert found["log loss"].before == pytest.approx(-np.log([0.5, 0.3, 0.2]).mean())
    assert not found["accuracy"].is_significant


def test_one_example_decides_nothing_and_other_tasks_have_no_metrics() -> None:
    [accuracy, loss] = paired_metrics(BINARY, np.ones((1, 1)), np.full((1, 1), 0.1), np.full((1, 1), 0.9))
    assert (accuracy.interval, loss.interval, accuracy.is_better, loss.is_better) == (None, None, None, None)
    assert PairedMetric.from_json(json.loads(json.dumps(loss.to_json()))) == loss
    assert paired_metrics(RANKING, LABELS, probabilities(1), probabilities(2)) == []
