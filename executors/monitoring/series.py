"""Reads all scalars that a run logged from its event files, as curves, without importing TensorFlow.

for metric in read_metrics("out/model_run"):
    metric.name, metric.axis         # "loss", "epoch"
    metric.splits["eval"].values     # one for each of its .steps
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os

from .event_files import scalars
from .metrics import event_files_below, split_name, split_of

POINTS = 500  # maximum number of points of a curve, enough for a wide screen
EPOCH, STEP = "epoch", "step"


@dataclasses.dataclass(frozen=True)
class Curve:
    """The values of a scalar in one split.

    Attributes:
      steps: Epochs or steps at which the values were logged, ascending.
      values: A value for each step; None for NaN and infinity.
      moments: Time of each value, in seconds since 1970.
      nonfinite_steps: All steps at which the value was NaN or infinite.
    """

    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    moments: tuple[float, ...]
    nonfinite_steps: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Metric:
    """A scalar, identified by name and axis.

    Attributes:
      name: Name as in TensorBoard, without Keras's prefixes.
      axis: "epoch" or "step".
      splits: {"train": …, "eval": …}; with the folders as keys if several folders of one split log the same scalar.
    """

    name: str
    axis: str
    splits: dict[str, Curve]


def read_metrics(folder: str) -> list[Metric]:
    """Reads all scalars from the event files below a folder; a truncated file is read up to the truncation.

    If a training was resumed and repeated steps, their last values are used. Curves of more than `POINTS` points are
    reduced to the minimum and maximum of each interval.
    """
    points: dict[tuple[str, str, str], list[tuple[float, int, float]]] = {}
    for name in event_files_below(folder):
        for moment, step, tag, value in scalars(os.path.join(folder, name)):
            metric, axis = _metric_of(tag)
            points.setdefault((metric, axis, os.path.dirname(name)), []).append((moment, step, value))
    metrics: dict[tuple[str, str], dict[str, Curve]] = {}
    for (metric, axis, folder), found in sorted(points.items(), key=lambda item: (item[0][0].startswith("test"), item)):
        split, plain = split_name(metric)
        place = os.path.join(folder, "eval") if split == "eval" else folder
        is_taken = place in metrics.get((plain, axis), {})  # by a scalar without the prefix, or of a validation
        metrics.setdefault((metric if is_taken else plain, axis), {})[place] = _curve(found)
    by_split = {key: _by_split(curves) for key, curves in sorted(metrics.items(), key=_sort_key)}
    return [Metric(name, axis, curves) for (name, axis), curves in _without_duplicates(by_split).items()]


def _without_duplicates(metrics: dict[tuple[str, str], dict[str, Curve]]) -> dict[tuple[str, str], dict[str, Curve]]:
    """Merges `loss_1` into `loss`: an Estimator logs training scalars with this suffix, and evaluation without it."""
    for name, axis in list(metrics):
        plain = (name.removesuffix("_1"), axis)
        if name != plain[0] and plain in metrics and not metrics[plain].keys() & metrics[name, axis].keys():
            metrics[plain] = _train_first({**metrics[plain], **metrics.pop((name, axis))})
    return metrics


def _sort_key(item: tuple[tuple[str, str], object]) -> tuple[bool, str, str]:
    (name, axis), _ = item
    return "loss" not in name, name, axis


def _metric_of(tag: str) -> tuple[str, str]:
    """Returns the metric and axis of a tag: Keras logs `epoch_loss`, `evaluation_loss_vs_iterations`, `batch_loss`."""
    if tag.startswith("epoch_"):
        return tag.removeprefix("epoch_"), EPOCH
    if tag.startswith("evaluation_") and tag.endswith("_vs_iterations"):
        return tag.removeprefix("evaluation_").removesuffix("_vs_iterations"), STEP
    return tag.removeprefix("batch_"), STEP


def _by_split(places: dict[str, Curve]) -> dict[str, Curve]:
    """Returns the curves by split; if several have the same split, by folder."""
    splits = {place: split_of(place) for place in places}
    names = list(splits.values())
    named = {split if names.count(split) == 1 else place or split: places[place] for place, split in splits.items()}
    return _train_first(named)


def _train_first(curves: dict[str, Curve]) -> dict[str, Curve]:
    return dict(sorted(curves.items(), key=lambda item: (item[0] != "train", item[0])))


def _curve(points: list[tuple[float, int, float]]) -> Curve:
    kept: list[tuple[float, int, float]] = []
    for point in sorted(points):
        while kept and kept[-1][1] >= point[1]:  # resumed from an earlier checkpoint
            kept.pop()
        kept.append(point)
    nonfinite_steps = tuple(step for _, step, value in kept if not math.isfinite(value))
    kept = _downsampled(kept)
    return Curve(
        tuple(step for _, step, _ in kept),
        tuple(value if math.isfinite(value) else None for *_, value in kept),
        tuple(moment for moment, *_ in kept),
        nonfinite_steps,
    )


def _downsampled(points: list[tuple[float, int, float]]) -> list[tuple[float, int, float]]:
    """Reduces more than `POINTS` points to the minimum and maximum of each interval, and the first and last point."""
    if len(points) <= POINTS:
        return points
    inner, stretches = points[1:-1], (POINTS - 2) // 2
    kept = [points[0]]
    for number in range(stretches):
        stretch = inner[number * len(inner) // stretches : (number + 1) * len(inner) // stretches]
        kept += sorted({min(stretch, key=_value), max(stretch, key=_value)})
    return [*kept, points[-1]]


def _value(point: tuple[float, int, float]) -> float:
    return point[2] if math.isfinite(point[2]) else 0.0


def step_rates(curve: Curve) -> tuple[list[float], list[float | None]]:
    """Returns steps per second between a curve's points, and the seconds since the first point for each."""
    seconds, rates = [], []
    pairs = list(zip(curve.moments, curve.steps, strict=True))
    for (begin, first), (end, last) in itertools.pairwise(pairs):
        if end > begin:
            seconds.append(round(end - pairs[0][0], 3))
            rates.append(float(f"{(last - first) / (end - begin):.5g}"))
    return seconds, list(rates)
