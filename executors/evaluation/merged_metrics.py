"""TFMA metrics whose partial results are merged once.

TFMA's combiners of these metrics count the first of several partial results twice, so that their values are wrong if
several Beam workers evaluate, and in confidence intervals by jackknife.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import tensorflow_model_analysis as tfma


class _MergedOnce(tfma.metrics.Metric):  # type: ignore[misc]
    def computations(self, *arguments: object, **keywords: object) -> list[tfma.metrics.MetricComputation]:
        """Returns TFMA's computations with combiners that merge each accumulator once."""
        return [
            tfma.metrics.MetricComputation(one.keys, one.preprocessors, _OnceCombiner(one.combiner))
            for one in super().computations(*arguments, **keywords)
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
        return self._combiner.merge_accumulators(copy.deepcopy(one) for one in accumulators)

    def extract_output(self, accumulator: Any) -> Any:
        return self._combiner.extract_output(accumulator)
