"""Data drift between two runs: distances of the features' distributions, and anomalies by TFDV.

    drift = compare_data(find_run("4f0c1a2b"), find_run("last"))
    [one.feature for one in drift.distances if one.is_drift]

Values are compared by TFDV's drift comparator, the L-infinity norm. Numbers are compared as in the report, by the
Kolmogorov-Smirnov statistic: TFDV's Jensen-Shannon divergence of histograms with ten buckets depends on outliers; it is
up to 0.7 for two random halves of the Chicago taxi data.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...executors.errors import InputError
from .data_statistics import SPLITS, find_statistics
from .distributions import distance
from .run import Run

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList as Statistics
    from tensorflow_metadata.proto.v0.statistics_pb2 import FeatureNameStatistics as Feature

THRESHOLD = 0.1  # distance that counts as drift if there are enough examples
NUMBERS, VALUES = "Kolmogorov-Smirnov", "L-infinity"
_CRITICAL = 1.95  # of the Kolmogorov-Smirnov test at the level of 0.1 %, as many features are tested


@dataclasses.dataclass(frozen=True)
class Distance:
    """The distance between a feature's distributions in two runs.

    Attributes:
      feature: The feature.
      split: The split.
      measure: NUMBERS (largest difference of the cumulative shares) or VALUES (largest difference of a value's share).
      distance: From 0 to 1.
      threshold: The distance above which it is drift: 0.1, or more for fewer than about 760 values.
    """

    feature: str
    split: str
    measure: str
    distance: float
    threshold: float

    @property
    def is_drift(self) -> bool:
        """Whether the distance is above the threshold."""
        return self.distance > self.threshold


@dataclasses.dataclass(frozen=True)
class Anomaly:
    """A way in which the second run's data does not match the schema of the first run's data."""

    feature: str
    split: str
    anomaly: str
    details: str


@dataclasses.dataclass(frozen=True)
class DataDrift:
    """The result of `compare_data`.

    Attributes:
      examples: {split: number of examples in the first and in the second run}, of the statistics.
      distances: By feature and split, the largest first.
      anomalies: New values, missing and new features, other types.
      is_same: Whether both runs have the same data, so that nothing was compared.
      problem: Why there is no comparison; "" if there is one.
    """

    examples: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    distances: Sequence[Distance] = ()
    anomalies: Sequence[Anomaly] = ()
    is_same: bool = False
    problem: str = ""

    def to_json(self) -> dict[str, object]:
        """Returns the drift as JSON values."""
        distances = [{**dataclasses.asdict(one), "is_drift": one.is_drift} for one in self.distances]
        return {**dataclasses.asdict(self), "distances": distances}


def compare_data(first: Run, second: Run) -> DataDrift:
    """Compares the statistics of two runs' data; if there are none, `problem` is the reason.

    TFDV is imported, which takes seconds, only if the runs' data differs and exists.
    """
    try:
        sources = [find_statistics(name, run) for name, run in (("first", first), ("second", second))]
        if sources[0] == sources[1]:
            return DataDrift(is_same=True)
        splits = [split for split in SPLITS if all(split in source.files for source in sources)]
        if not splits:
            raise InputError("the runs have no split in common")
        return _drift({split: (sources[0].read(split), sources[1].read(split)) for split in splits})
    except InputError as error:
        return DataDrift(problem=str(error))


def _drift(statistics: Mapping[str, tuple[Statistics, Statistics]]) -> DataDrift:
    from tensorflow_metadata.proto.v0.anomalies_pb2 import AnomalyInfo

    from ...executors.compat.tfdv import import_tfdv

    tfdv = import_tfdv()
    distances: list[Distance] = []
    anomalies: list[Anomaly] = []
    for split, (before, after) in statistics.items():
        schema = tfdv.infer_schema(before)
        types = {feature.name: feature for feature in schema.feature}
        for name, pair in _pairs(before, after).items():
            threshold = _threshold(pair)
            if all(feature.WhichOneof("stats") == "num_stats" for feature in pair):
                value = distance(*(feature.num_stats for feature in pair))
                distances.append(Distance(name, split, NUMBERS, value, threshold))
            elif name in types:
                types[name].drift_comparator.infinity_norm.threshold = threshold
        found = tfdv.validate_statistics(after, schema, previous_statistics=before)
        distances += [
            Distance(".".join(info.path.step), split, VALUES, measured.value, measured.threshold)
            for info in found.drift_skew_info
            for measured in info.drift_measurements
        ]
        anomalies += [
            Anomaly(name, split, reason.short_description, reason.description)
            for name, info in sorted(found.anomaly_info.items())
            for reason in info.reason
            if reason.type != AnomalyInfo.COMPARATOR_L_INFTY_HIGH  # is in the distances
        ]
    examples = {
        split: (int(before.datasets[0].num_examples), int(after.datasets[0].num_examples))
        for split, (before, after) in statistics.items()
    }
    return DataDrift(examples, sorted(distances, key=lambda one: -one.distance), anomalies)


def _pairs(before: Statistics, after: Statistics) -> dict[str, tuple[Feature, Feature]]:
    """Returns the statistics of the features that both runs have."""
    sides = [
        {".".join(feature.path.step): feature for feature in side.datasets[0].features} for side in (before, after)
    ]
    return {name: (sides[0][name], feature) for name, feature in sides[1].items() if name in sides[0]}


def _threshold(pair: tuple[Feature, Feature]) -> float:
    """Returns the threshold, above what chance alone causes: the critical value of the Kolmogorov-Smirnov test."""
    counts = [getattr(feature, feature.WhichOneof("stats")).common_stats.tot_num_values for feature in pair]
    return max(THRESHOLD, _CRITICAL * math.sqrt(sum(1 / max(count, 1) for count in counts)))
