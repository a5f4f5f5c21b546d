"""Distributions from TFDV's own histograms: outliers do not hide them, and equal ones are not told apart."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from generic_trainer.pipelines.history.distributions import BARS, distance, make_bars


def statistics_of(values: Any) -> statistics_pb2.NumericStatistics:
    """Computes what TFDV keeps: ten buckets of equal width, and ten of equally many values."""
    found = statistics_pb2.NumericStatistics(min=min(values), max=max(values))
    standard = found.histograms.add(type=statistics_pb2.Histogram.STANDARD)
    counts, edges = np.histogram(values, 10)
    for (low, high), count in zip(itertools.pairwise(edges), counts, strict=True):
        standard.buckets.add(low_value=low, high_value=high, sample_count=count)
    quantiles = found.histograms.add(type=statistics_pb2.Histogram.QUANTILES)
    edges = np.quantile(values, np.linspace(0, 1, 11))
    for low, high in itertools.pairwise(edges):
        quantiles.buckets.add(low_value=low, high_value=high, sample_count=len(values) / 10)
    return found


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def test_two_samples_of_one_distribution_are_close_whatever_lies_far_out(random: np.random.Generator) -> None:
    fares = random.exponential(10, 12_000)
    train, evaluation = fares[:8000].copy(), fares[8000:]
    train[0] = 5000.0  # one trip to the moon, in one split only
    assert distance(statistics_of(train), statistics_of(evaluation)) < 0.02


def test_whole_numbers_of_one_distribution_are_close(random: np.random.Generator) -> None:
    hours = random.integers(0, 24, 12_000)
    assert distance(statistics_of(hours[:8000]), statistics_of(hours[8000:])) < 0.05


def test_a_shift_is_seen(random: np.random.Generator) -> None:
    train, evaluation = random.normal(0, 1, 8000), random.normal(1, 1, 4000)
    # Of two normal distributions one standard deviation apart, 2 * Phi(0.5) - 1 = 0.383.
    assert distance(statistics_of(train), statistics_of(evaluation)) == pytest.approx(0.383, abs=0.04)


def test_bars_show_where_the_values_are_and_not_the_outlier(random: np.random.Generator) -> None:
    values = random.uniform(0, 10, 8000)
    values[0] = 1e6
    drawn = make_bars({"train": statistics_of(values)})
    shares = drawn.shares["train"]
    assert len(shares) == BARS
    assert sum(shares) == pytest.approx(1)
    assert drawn.high < 20
    assert min(shares[:8]) > 0.04  # the uniform part is spread over most of the bars


def test_a_number_that_never_changes_and_one_that_is_never_there_have_bars() -> None:
    same, never = statistics_of([3.0] * 50), statistics_pb2.NumericStatistics()
    assert sum(make_bars({"train": same}).shares["train"]) == pytest.approx(1)
    assert make_bars({"train": never}).shares["train"] == [0.0] * BARS
    assert distance(same, same) == distance(never, never) == 0
