"""How a number is distributed in each split, from the two histograms that TFDV keeps of it.

    splits = {"train": train.num_stats, "eval": evaluation.num_stats}
    drawn = drawn_of(splits)       # drawn.shares["train"]: twelve shares of its values, from drawn.low to drawn.high
    distance(*splits.values())     # 0.02

One histogram has ten stretches of equal width; a few values that are far out leave it with a single full one. The other
has ten with equally many values. In either, values are taken to be spread evenly over a stretch.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from tensorflow_metadata.proto.v0 import statistics_pb2

BARS = 12
_BY_WIDTH, _BY_COUNT = statistics_pb2.Histogram.STANDARD, statistics_pb2.Histogram.QUANTILES


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Bars of equal width from `low` to `high`; the outermost hold what lies beyond, too."""

    shares: dict[str, list[float]]
    low: float
    high: float


def drawn_of(splits: Mapping[str, statistics_pb2.NumericStatistics]) -> Drawn:
    """Returns the bars of all splits, over the range in which nine of ten values lie and somewhat more."""
    found = {split: _buckets(statistics, _BY_COUNT) for split, statistics in splits.items()}
    ranges = [_usual_range(buckets) for buckets in found.values() if buckets]
    low, high = min((one for one, _ in ranges), default=0.0), max((other for _, other in ranges), default=0.0)
    edges = [low + number * (high - low) / BARS for number in range(1, BARS)]
    return Drawn({split: _between(buckets, edges) for split, buckets in found.items()}, low, high)


def distance(one: statistics_pb2.NumericStatistics, other: statistics_pb2.NumericStatistics) -> float:
    """Returns about which share of values would have to be others for both distributions to be the same.

    It is computed from either pair of histograms. That values are spread evenly is not quite so, which makes
    distributions differ that do not: the smaller of the two results has less of that.
    """
    return min(_distance(_buckets(one, kind), _buckets(other, kind)) for kind in (_BY_WIDTH, _BY_COUNT))


def _distance(
    one: Sequence[statistics_pb2.Histogram.Bucket], other: Sequence[statistics_pb2.Histogram.Bucket]
) -> float:
    """Returns the largest difference of the cumulative distributions (Kolmogorov and Smirnov's)."""
    # Not at the ends: how the values of an outermost stretch are spread nobody knows, least of all with one far out.
    edges = {bucket.high_value for buckets in (one, other) for bucket in buckets[:-1]}
    return max((abs(_below(one, edge) - _below(other, edge)) for edge in edges), default=0.0)


def _buckets(statistics: statistics_pb2.NumericStatistics, kind: int) -> Sequence[statistics_pb2.Histogram.Bucket]:
    return next((list(one.buckets) for one in statistics.histograms if one.type == kind), [])


def _usual_range(buckets: Sequence[statistics_pb2.Histogram.Bucket]) -> tuple[float, float]:
    """Returns the range without outliers: as far from the median as the last tenth begins, and half of that more."""
    low, high = buckets[0].low_value, buckets[-1].high_value
    middle = buckets[len(buckets) // 2].low_value
    least = middle - 1.5 * (middle - buckets[0].high_value)
    most = middle + 1.5 * (buckets[-1].low_value - middle)
    return (max(low, least), min(high, most)) if least < most else (low, high)


def _between(buckets: Sequence[statistics_pb2.Histogram.Bucket], edges: Sequence[float]) -> list[float]:
    """Returns the shares of values up to the first edge, between each two, and beyond the last."""
    if not buckets:
        return [0.0] * (len(edges) + 1)
    below = [0.0, *(_below(buckets, edge) for edge in edges), 1.0]
    return [after - before for before, after in itertools.pairwise(below)]


def _below(buckets: Sequence[statistics_pb2.Histogram.Bucket], value: float) -> float:
    """Returns the share of values that are no larger than a value."""
    whole = sum(bucket.sample_count for bucket in buckets)
    return sum(bucket.sample_count * _part(bucket, value) for bucket in buckets) / whole if whole else 0.0


def _part(bucket: statistics_pb2.Histogram.Bucket, value: float) -> float:
    if value >= bucket.high_value:
        return 1.0
    width = bucket.high_value - bucket.low_value
    return float(max(0.0, (value - bucket.low_value) / width)) if width else 0.0
