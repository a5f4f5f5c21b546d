"""Column statistics of a table: TFDV's statistics, missing values, and frequent and distinct values."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...executors.compat.tfdv import import_tfdv, statistics_of
from .reading import RawData

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import statistics_pb2

INT, FLOAT, TEXT, NOTHING, SEVERAL = "whole numbers", "numbers", "text", "no values", "several values per row"
_MAX_VALUES = 1000  # values kept per column


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Statistics of a numeric column over its present, finite values."""

    mean: float
    std: float
    smallest: float
    largest: float
    median: float


@dataclasses.dataclass(frozen=True)
class Column:
    """Type and statistics of a column.

    Attributes:
      name: The column's name.
      kind: INT, FLOAT or TEXT; NOTHING if all values are missing, SEVERAL if a row has more than one value.
      rows: Number of rows.
      missing: Number of rows without a value, or with NaN or an infinite number.
      distinct: Number of distinct values.
      frequent: The most frequent values with their counts, at most 1,000; text as str.
      numbers: Statistics of INT and FLOAT columns; else None.
      words: Mean number of words per value of a TEXT column; else 0.
      first_missing: Number of the first row without a value, counted from 1; 0 if there is none.
    """

    name: str
    kind: str
    rows: int
    missing: int
    distinct: int = 0
    frequent: tuple[tuple[Any, int], ...] = ()
    numbers: Numbers | None = None
    words: float = 0.0
    first_missing: int = 0

    @property
    def values(self) -> tuple[Any, ...]:
        """The most frequent values, most frequent first."""
        return tuple(value for value, _ in self.frequent)


def analyze_columns(raw: RawData) -> list[Column]:
    """Returns type and statistics of each column, in the data's order."""
    statistics = _statistics(raw)
    return [_column(name, array, statistics.get(name), raw.size) for name, array in raw.columns.items()]


def _statistics(raw: RawData) -> dict[str, statistics_pb2.FeatureNameStatistics]:
    with _silence_stderr():
        import_tfdv()
    batch = pa.RecordBatch.from_arrays(list(raw.columns.values()), names=list(raw.columns))
    statistics = statistics_of(batch, num_top_values=0)
    return {feature.path.step[0]: feature for feature in statistics.datasets[0].features}


@contextlib.contextmanager
def _silence_stderr() -> Iterator[None]:
    """Suppresses TensorFlow's C++ messages about processors and drivers on standard error during the block."""
    stderr = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _column(name: str, array: pa.ListArray, statistics: statistics_pb2.FeatureNameStatistics, rows: int) -> Column:
    if pa.types.is_null(array.type) or array.null_count == rows:
        return Column(name, NOTHING, rows, rows)
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    if pc.max(lengths).as_py() > 1:
        return Column(name, SEVERAL, rows, pc.sum(pc.equal(lengths, 0)).as_py())
    is_missing = _is_missing(array, lengths)
    values = pc.filter(array, pc.invert(is_missing)).flatten()
    if not len(values):
        return Column(name, NOTHING, rows, rows)
    is_text = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
    kind = TEXT if is_text else INT if pa.types.is_integer(values.type) else FLOAT
    counts = sorted(pc.value_counts(values).to_pylist(), key=lambda count: -count["counts"])
    frequent = tuple((_decode_value(count["values"]), count["counts"]) for count in counts[:_MAX_VALUES])
    return Column(
        name,
        kind,
        rows,
        pc.sum(is_missing).as_py(),
        len(counts),
        frequent,
        None if is_text else _numbers(statistics.num_stats),
        _mean_words(frequent) if is_text else 0.0,
        pc.index(is_missing, True).as_py() + 1,
    )


def _is_missing(array: pa.ListArray, lengths: pa.Array) -> pa.Array:
    """Returns a mask of the rows without a value, or with NaN or an infinite number; at most one value per row."""
    is_missing = np.array(pc.equal(lengths, 0))
    if pa.types.is_floating(array.type.value_type):
        is_missing[~is_missing] = ~np.isfinite(array.flatten().to_numpy(zero_copy_only=False))
    return pa.array(is_missing)


def _numbers(statistics: statistics_pb2.NumericStatistics) -> Numbers:
    return Numbers(statistics.mean, statistics.std_dev, statistics.min, statistics.max, statistics.median)


def _mean_words(frequent: tuple[tuple[str, int], ...]) -> float:
    words = sum(len(value.split()) * count for value, count in frequent)
    return words / sum(count for _, count in frequent)


def _decode_value(value: bytes | float) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
