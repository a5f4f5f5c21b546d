"""The report's section on the data: TensorFlow Data Validation's statistics, train versus eval, and anomalies.

Neither TFDV nor TensorFlow is imported: the files contain protos of tensorflow_metadata.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

from ...executors.reporting.document import (
    BAD,
    WARN,
    Block,
    Cell,
    Histogram,
    Note,
    Section,
    Table,
    Value,
)
from ...executors.reporting.quantities import share
from ...executors.reporting.values import code
from ...executors.runtime.files import file_io
from ..history.distributions import distance, make_bars

_STATISTICS_FILE, _ANOMALIES_FILE = "FeatureStats.pb", "SchemaDiff.pb"
_SPLIT = "Split-"
_TOP_VALUES, _TOP_LISTED = 12, 3
_SMALL_SHARE = 0.001
_LARGE_DISTANCE = 0.1  # distance of distributions from which a cell is highlighted
_Statistics = statistics_pb2.FeatureNameStatistics


def data_sections(statistics: str | None, anomalies: str | None) -> list[Section]:
    """Returns the section on the data; [] if there are neither statistics nor anomalies.

    Args:
      statistics: Folder of an ExampleStatistics artifact, as StatisticsGen writes it; None without one.
      anomalies: Folder of an ExampleAnomalies artifact, as ExampleValidator writes it; None without one.
    """
    blocks = [*_anomalies(anomalies or ""), *_features(_read_statistics(statistics or ""))]
    section = Section("data", "Data", blocks)
    return [section] if section else []


def _files(folder: str, name: str) -> Iterator[tuple[str, str]]:
    """Yields (split, path of its file), train first."""
    folders = file_io.listdir(folder) if folder and file_io.isdir(folder) else []
    splits = [one.removeprefix(_SPLIT) for one in folders if one.startswith(_SPLIT)]
    for split in sorted(splits, key=lambda split: (split != "train", split)):
        path = os.path.join(folder, f"{_SPLIT}{split}", name)
        if file_io.exists(path):
            yield split, path


def _anomalies(folder: str) -> Iterator[Block]:
    rows: list[Sequence[Value]] = []
    splits = []
    for split, path in _files(folder, _ANOMALIES_FILE):
        found = anomalies_pb2.Anomalies.FromString(file_io.read_bytes(path))
        splits.append(split)
        if found.data_missing:
            rows.append((Cell("(all)"), split, "", "No examples", ""))
        for name, info in sorted(found.anomaly_info.items()):
            is_error = info.severity == anomalies_pb2.AnomalyInfo.ERROR
            severity = Cell("error" if is_error else "warning", tone=BAD if is_error else WARN)
            rows.append((code(name), split, severity, info.short_description, info.description))
    yield Table("Anomalies", ("feature", "split", "severity", "anomaly", "details"), rows)
    if splits and not rows:
        yield Note(f"No anomalies in {' and '.join(splits)}: the data matches the schema.")


def _read_statistics(folder: str) -> dict[str, statistics_pb2.DatasetFeatureStatistics]:
    """Returns {split: statistics of all its examples}."""
    found = {}
    for split, path in _files(folder, _STATISTICS_FILE):
        datasets = statistics_pb2.DatasetFeatureStatisticsList.FromString(file_io.read_bytes(path)).datasets
        if datasets:
            found[split] = datasets[0]  # the others are slices
    return found


def _features(splits: Mapping[str, statistics_pb2.DatasetFeatureStatistics]) -> Iterator[Block]:
    by_name = {
        split: {_name(feature): feature for feature in statistics.features} for split, statistics in splits.items()
    }
    counts = {split: int(statistics.num_examples) for split, statistics in splits.items()}
    yield Table("Examples", ("split", "examples"), list(counts.items()))
    names = dict.fromkeys(name for features in by_name.values() for name in features)
    numbers: list[Sequence[Value]] = []
    texts: list[Sequence[Value]] = []
    for name in names:
        found = {split: features[name] for split, features in by_name.items() if name in features}
        first = next(iter(found.values()))
        kind = _Statistics.Type.Name(first.type).lower()
        missing = [_missing(found.get(split), counts[split]) for split in splits]
        if first.WhichOneof("stats") == "num_stats":
            numbers.append((code(name), *_numbers(found, kind, missing)))
        else:
            texts.append((code(name), *_texts(found, kind, missing)))
    bars, absent = " and ".join(splits), [f"missing ({split})" for split in splits]
    yield Table(
        "Numeric features", ("feature", bars, "distance", "type", *absent, "min", "median", "max", "mean"), numbers
    )
    yield Table(
        "Categorical and text features",
        ("feature", bars, "distance", "type", *absent, "distinct", "most frequent"),
        texts,
    )
    if len(splits) > 1:
        yield Note("Distance: the approximate share of values that would have to change to make both splits equal.")


def _name(feature: statistics_pb2.FeatureNameStatistics) -> str:
    return ".".join(feature.path.step) if feature.HasField("path") else str(feature.name)


def _common(feature: statistics_pb2.FeatureNameStatistics) -> statistics_pb2.CommonStatistics:
    kind = feature.WhichOneof("stats")
    return getattr(feature, kind).common_stats


def _missing(feature: statistics_pb2.FeatureNameStatistics | None, examples: int) -> Cell:
    """Returns the share of examples without a value; an empty list counts as missing if no list has several values."""
    if feature is None:
        return share(1.0)
    common = _common(feature)
    with_values = common.tot_num_values if common.max_num_values <= 1 else common.num_non_missing
    absent = 1 - with_values / examples if examples else 0.0
    if 0 < absent < _SMALL_SHARE:
        return Cell(f"< {100 * _SMALL_SHARE:g} %", is_number=True)
    return Cell(f"{100 * absent:.1f} %", is_number=True, tone=BAD if absent == 1 else WARN if absent else "")


def _numbers(
    found: Mapping[str, statistics_pb2.FeatureNameStatistics], kind: str, missing: Sequence[Cell]
) -> tuple[Value, ...]:
    splits = {split: feature.num_stats for split, feature in found.items()}
    first, *others = splits.values()
    bars = make_bars(splits)
    label = f"{', '.join(splits)}: shares of values from {bars.low:.4g} to {bars.high:.4g}"
    distance_cell = _distance_cell(distance(first, others[0])) if others else None
    values = (first.min, first.median, first.max, first.mean)
    return Histogram(bars.shares, label), distance_cell, kind, *missing, *values


def _texts(
    found: Mapping[str, statistics_pb2.FeatureNameStatistics], kind: str, missing: Sequence[Cell]
) -> tuple[Value, ...]:
    first = next(iter(found.values()))
    if first.WhichOneof("stats") != "string_stats":
        return None, None, kind, *missing, None, None
    ranks = {
        split: {one.value: one.frequency / max(1, _common(feature).tot_num_values) for one in _top(feature)}
        for split, feature in found.items()
    }
    values = list(dict.fromkeys(value for one in ranks.values() for value in one))[:_TOP_VALUES]
    shares = {split: [one.get(value, 0.0) for value in values] for split, one in ranks.items()}
    most_frequent = ", ".join(
        f"{one.value} {100 * ranks[next(iter(found))][one.value]:.0f} %" for one in _top(first)[:_TOP_LISTED]
    )
    label = f"{', '.join(shares)}: shares of the {len(values)} values that are most frequent"
    one, *others = shares.values()
    distance_cell = _distance_cell(sum(abs(a - b) for a, b in zip(one, others[0], strict=True)) / 2) if others else None
    return Histogram(shares, label), distance_cell, kind, *missing, int(first.string_stats.unique), most_frequent


def _top(feature: statistics_pb2.FeatureNameStatistics) -> list[statistics_pb2.StringStatistics.FreqAndValue]:
    return list(feature.string_stats.top_values)


def _distance_cell(value: float) -> Cell:
    return Cell(f"{100 * value:.1f} %", is_number=True, tone=WARN if value > _LARGE_DISTANCE else "")
