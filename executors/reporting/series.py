"""Every scalar that a run logged, as curves: read from its event files, without TensorFlow.

for metric in read_metrics("out/model_run"):
    metric.name, metric.axis         # "loss", "epoch"
    metric.splits["eval"].values     # one for each of .steps
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os

from ..monitoring.event_files import scalars
from ..monitoring.metrics import event_files_below, split_of

POINTS = 500  # at most, of a curve: as many as a wide screen shows
_EPOCH, _STEP = "epoch", "step"


@dataclasses.dataclass(frozen=True)
class Curve:
    """A scalar's values in one split.

    Attributes:
      steps: Where they were logged, ascending: epochs or steps, as logged.
      values: As many; NaN and infinity are None.
      moments: When, in seconds since 1970.
      odd: At which steps it was NaN or infinite, all of them.
    """

    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    moments: tuple[float, ...]
    odd: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Metric:
    """A scalar by name and axis.

    Attributes:
      name: As TensorBoard shows it, without Keras's prefixes.
      axis: "epoch" or "step".
      splits: {"train": …, "eval": …}, or the folders' names where several of a split log the same.
    """

    name: str
    axis: str
    splits: dict[str, Curve]


def read_metrics(folder: str) -> list[Metric]:
    """Reads all scalars from the event files below a folder; a file is read up to where it breaks off.

    Of a training that was taken up again, a step that was done twice counts as it was done last. Curves of more than
    `POINTS` points keep the lowest and the highest of each stretch.
    """
    points: dict[tuple[str, str, str], list[tuple[float, int, float]]] = {}
    for name in event_files_below(folder):
        for moment, step, tag, value in scalars(os.path.join(folder, name)):
            metric, axis = _metric_of(tag)
            points.setdefault((metric, axis, os.path.dirname(name)), []).append((moment, step, value))
    metrics: dict[tuple[str, str], dict[str, Curve]] = {}
    for (metric, axis, place), found in sorted(points.items()):
        metrics.setdefault((metric, axis), {})[place] = _curve(found)
    by_split = {key: _by_split(curves) for key, curves in sorted(metrics.items(), key=_in_order)}
    return [Metric(name, axis, curves) for (name, axis), curves in _without_doubles(by_split).items()]


def _without_doubles(metrics: dict[tuple[str, str], dict[str, Curve]]) -> dict[tuple[str, str], dict[str, Curve]]:
    """Puts `loss_1` to `loss`: so an Estimator calls what it logs in training, and evaluation has the plain name."""
    for name, axis in list(metrics):
        plain = (name.removesuffix("_1"), axis)
        if name != plain[0] and plain in metrics and not metrics[plain].keys() & metrics[name, axis].keys():
            metrics[plain] = _train_first({**metrics[plain], **metrics.pop((name, axis))})
    return metrics


def _in_order(item: tuple[tuple[str, str], object]) -> tuple[bool, str, str]:
    (name, axis), _ = item
    return "loss" not in name, name, axis


def _metric_of(tag: str) -> tuple[str, str]:
    """Returns a tag's metric and axis: Keras logs `epoch_loss`, `evaluation_loss_vs_iterations`, `batch_loss`."""
    if tag.startswith("epoch_"):
        return tag.removeprefix("epoch_"), _EPOCH
    if tag.startswith("evaluation_") and tag.endswith("_vs_iterations"):
        return tag.removeprefix("evaluation_").removesuffix("_vs_iterations"), _STEP
    return tag.removeprefix("batch_"), _STEP


def _by_split(places: dict[str, Curve]) -> dict[str, Curve]:
    """Names curves by their split, those that would have the same name by their folder."""
    splits = {place: split_of(place) for place in places}
    names = list(splits.values())
    named = {split if names.count(split) == 1 else place or split: places[place] for place, split in splits.items()}
    return _train_first(named)


def _train_first(curves: dict[str, Curve]) -> dict[str, Curve]:
    return dict(sorted(curves.items(), key=lambda item: (item[0] != "train", item[0])))


def _curve(points: list[tuple[float, int, float]]) -> Curve:
    kept: list[tuple[float, int, float]] = []
    for point in sorted(points):
        while kept and kept[-1][1] >= point[1]:  # taken up again at an earlier checkpoint
            kept.pop()
        kept.append(point)
    odd = tuple(step for _, step, value in kept if not math.isfinite(value))
    kept = _thinned(kept)
    return Curve(
        tuple(step for _, step, _ in kept),
        tuple(value if math.isfinite(value) else None for *_, value in kept),
        tuple(moment for moment, *_ in kept),
        odd,
    )


def _thinned(points: list[tuple[float, int, float]]) -> list[tuple[float, int, float]]:
    """Keeps the lowest and the highest of each stretch, where there are more than `POINTS`; the ends always."""
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


def rate(curve: Curve) -> tuple[list[float], list[float | None]]:
    """Returns steps per second between a curve's points, over the seconds since the first of them."""
    seconds, rates = [], []
    pairs = list(zip(curve.moments, curve.steps, strict=True))
    for (begin, first), (end, last) in itertools.pairwise(pairs):
        if end > begin:
            seconds.append(round(end - pairs[0][0], 3))
            rates.append(float(f"{(last - first) / (end - begin):.5g}"))
    return seconds, list(rates)
