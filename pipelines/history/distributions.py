"""Distribution of a numeric feature in each split, from the two histograms in TFDV's statistics.

    splits = {"train": train.num_stats, "eval": evaluation.num_stats}
    bars = make_bars(splits)       # bars.shares["train"]: shares of values in twelve bars from bars.low to bars.high
    distance(*splits.values())     # 0.02

One histogram has ten buckets of equal width; with outliers almost all values fall into one bucket. The other has ten
buckets with equal counts (quantiles). In both, values are assumed to be uniformly distributed within a bucket.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from tensorflow_metadata.proto.v0 import statistics_pb2

BARS = 12
_BY_WIDTH, _BY_COUNT = statistics_pb2.Histogram.STANDARD, statistics_pb2.Histogram.QUANTILES


@dataclasses.dataclass(frozen=True)
class Bars:
    """Shares of values by split, in 12 bars of equal width from `low` to `high`; the end bars include outliers."""

    shares: dict[str, list[float]]
    low: float
    high: float


def make_bars(splits: Mapping[str, statistics_pb2.NumericStatistics]) -> Bars:
    """Returns the bars of all splits over a common range that leaves out outliers; see `_usual_range`."""
    found = {split: _buckets(statistics, _BY_COUNT) for split, statistics in splits.items()}
    ranges = [_usual_range(buckets) for buckets in found.values() if buckets]
    low, high = min((one for one, _ in ranges), default=0.0), max((other for _, other in ranges), default=0.0)
    edges = [low + number * (high - low) / BARS for number in range(1, BARS)]
    return Bars({split: _shares_between(buckets, edges) for split, buckets in found.items()}, low, high)


def distance(one: statistics_pb2.NumericStatistics, other: statistics_pb2.NumericStatistics) -> float:
    """Returns the distance of two distributions, from 0 to 1: the Kolmogorov-Smirnov statistic.

    It is roughly the share of values that would have to change to make the distributions equal. The statistic is
    computed from both kinds of histograms. The assumption of uniform buckets overestimates it, so the smaller result is
    returned.
    """
    return min(_distance(_buckets(one, kind), _buckets(other, kind)) for kind in (_BY_WIDTH, _BY_COUNT))


def _distance(
    one: Sequence[statistics_pb2.Histogram.Bucket], other: Sequence[statistics_pb2.Histogram.Bucket]
) -> float:
    """Returns the largest difference of the cumulative distributions (the Kolmogorov-Smirnov statistic)."""
    # Not at the upper ends: outliers make the distribution within the last bucket far from uniform.
    edges = {bucket.high_value for buckets in (one, other) for bucket in buckets[:-1]}
    return max((abs(_cumulative_share(one, edge) - _cumulative_share(other, edge)) for edge in edges), default=0.0)


def _buckets(statistics: statistics_pb2.NumericStatistics, kind: int) -> Sequence[statistics_pb2.Histogram.Bucket]:
    return next((list(one.buckets) for one in statistics.histograms if one.type == kind), [])


def _usual_range(buckets: Sequence[statistics_pb2.Histogram.Bucket]) -> tuple[float, float]:
    """Returns the range without outliers: 1.5 times the distance from the median to the outermost buckets' edges."""
    low, high = buckets[0].low_value, buckets[-1].high_value
    middle = buckets[len(buckets) // 2].low_value
    least = middle - 1.5 * (middle - buckets[0].high_value)
    most = middle + 1.5 * (buckets[-1].low_value - middle)
    return (max(low, least), min(high, most)) if least < most else (low, high)


def _shares_between(buckets: Sequence[statistics_pb2.Histogram.Bucket], edges: Sequence[float]) -> list[float]:
    """Returns the shares of values up to the first edge, between consecutive edges, and above the last edge."""
    if not buckets:
        return [0.0] * (len(edges) + 1)
    below = [0.0, *(_cumulative_share(buckets, edge) for edge in edges), 1.0]
    return [after - before for before, after in itertools.pairwise(below)]


def _cumulative_share(buckets: Sequence[statistics_pb2.Histogram.Bucket], value: float) -> float:
    """Returns the share of values less than or equal to a value (the cumulative distribution)."""
    whole = sum(bucket.sample_count for bucket in buckets)
    return sum(bucket.sample_count * _share_of_bucket(bucket, value) for bucket in buckets) / whole if whole else 0.0


def _share_of_bucket(bucket: statistics_pb2.Histogram.Bucket, value: float) -> float:
    if value >= bucket.high_value:
        return 1.0
    width = bucket.high_value - bucket.low_value
    return float(max(0.0, (value - bucket.low_value) / width)) if width else 0.0
