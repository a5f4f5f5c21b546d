"""Collects numbers of all examples in one array, for TFMA metrics that need all examples at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma

Row: TypeAlias = "Sequence[float] | np.ndarray"

_PENDING = 1 << 12  # rows, before they become an array


def collected(
    key: tfma.metrics.MetricKey,
    rows: Callable[[tfma.metrics.StandardMetricInputs], Iterable[Row]],
    merged: Callable[[np.ndarray], np.ndarray] = lambda rows: rows,
) -> tfma.metrics.MetricComputation:
    """Returns a computation whose result is a list with an array [rows, numbers], or an empty list without rows.

    It is a list because TFMA tries to compute confidence intervals of arrays.

    Args:
      key: Key of the result.
      rows: Returns the rows of an example.
      merged: Returns fewer rows with the same meaning.
    """
    return tfma.metrics.MetricComputation([key], None, _Collector(key, rows, merged))


class _Collector(beam.CombineFn):  # type: ignore[misc]
    def __init__(
        self,
        key: tfma.metrics.MetricKey,
        rows: Callable[[tfma.metrics.StandardMetricInputs], Iterable[Row]],
        merged: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self._key, self._rows, self._merged = key, rows, merged

    def create_accumulator(self) -> list[Row]:
        return []

    def add_input(self, accumulator: list[Row], element: tfma.metrics.StandardMetricInputs) -> list[Row]:
        accumulator.extend(self._rows(element))
        # The first item may have all earlier rows: the more they are, the more new ones are worth merging them again.
        is_full = len(accumulator) >= _PENDING and len(accumulator) >= len(accumulator[0]) // 4
        return self.compact(accumulator) if is_full else accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Row]]) -> list[Row]:
        return self.compact([rows for accumulator in accumulators for rows in accumulator])

    def compact(self, accumulator: list[Row]) -> list[Row]:
        return [self._merged(np.vstack(accumulator))] if accumulator else []

    def extract_output(self, accumulator: list[Row]) -> dict[tfma.metrics.MetricKey, list[Row]]:
        return {self._key: self.compact(accumulator)}
