"""The report's section on predictions compared with labels: curves, confusion matrices and calibration, from TFMA."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ...executors.reporting.document import GOOD, Block, Cell, Chart, Note, Rows, Section, Table
from ..history.evaluation_plots import Confusion, OutputPlots, Range, Threshold
from ..history.evaluation_results import Evaluation

_SHOWN_CLASSES = 20  # more do not fit on the page as a matrix
_LISTED = 100  # most classes or confused pairs in a table
_SMALLEST_MOVE = 0.005  # distance between the points of a curve


Names: TypeAlias = "Mapping[str, str]"  # {class index: name}


def prediction_sections(evaluation: Evaluation) -> list[Section]:
    """Returns the section on predictions and labels over all examples; [] without plots."""
    names = dict(evaluation.verdict.class_names) if evaluation.verdict else {}
    names.setdefault("", next(iter(names.values()), {}))  # TFMA's plots of a single output do not have its name
    blocks = [block for one in evaluation.plots for block in _blocks(one, names.get(one.output, {}))]
    section = Section("predictions", "Predictions and labels", blocks)
    return [section] if section else []


def _blocks(plots: OutputPlots, names: Names) -> Iterator[Block]:
    prefix = f"{plots.output}: " if plots.output else ""
    if plots.thresholds:
        yield from _binary(plots.thresholds, names, prefix)
    if plots.confusion:
        yield _matrix(plots.confusion, names, f"{prefix}Confusion matrix")
        yield _scores(plots.confusion, names, f"{prefix}Classes")
    yield from _calibration(plots.ranges, prefix)


def _binary(thresholds: Sequence[Threshold], names: Names, prefix: str) -> Iterator[Block]:
    confusion = thresholds[0].confusion
    positives, negatives = (confusion[label, 0] + confusion[label, 1] for label in (1, 0))
    if not positives or not negatives:
        yield Note(f"{prefix}All labels are {_name(int(positives > 0), names)}, so there are no curves.")
        return
    best = max(thresholds, key=lambda one: (one.f1, -abs(one.threshold - 0.5)))
    at = f"threshold {best.threshold:.3g}"
    roc = _thinned(sorted((one.false_positive_rate, one.recall) for one in thresholds))
    yield Chart(
        f"{prefix}ROC curve",
        "false positive rate",
        [x for x, _ in roc],
        {"true positive rate": [y for _, y in roc], "chance": [x for x, _ in roc]},
        dashed=["chance"],
        mark=best.false_positive_rate,
        mark_label=at,
    )
    predicted = [one for one in reversed(thresholds) if one.confusion[0, 1] + one.confusion[1, 1]]
    curve = _thinned([(one.recall, one.precision) for one in predicted])
    yield Chart(
        f"{prefix}Precision and recall",
        "recall",
        [x for x, _ in curve],
        {"precision": [y for _, y in curve], "chance": [positives / (positives + negatives)] * len(curve)},
        dashed=["chance"],
        mark=best.recall,
        mark_label=at,
    )
    yield Note(f"Marked: {at}, which has the highest F1 on these examples ({best.f1:.3g}).")
    yield _matrix(best.confusion, names, f"{prefix}Confusion matrix at {at}")
    yield _scores(best.confusion, names, f"{prefix}Classes at {at}")


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leaves out points that are hardly visible between their neighbours."""
    kept = [points[0]]
    for point in points[1:-1]:
        if math.dist(point, kept[-1]) >= _SMALLEST_MOVE:
            kept.append(point)
    return [*kept, points[-1]] if len(points) > 1 else kept


def _matrix(confusion: Confusion, names: Names, caption: str) -> Table:
    """Returns the confusion matrix, or its most frequent errors if it is too large for the page."""
    classes = _classes(confusion)
    if len(classes) <= _SHOWN_CLASSES:
        rows: Rows = [(_name(one, names), *(_count(confusion, one, other) for other in classes)) for one in classes]
        return Table(caption, ("label ↓ prediction →", *(_name(one, names) for one in classes)), rows)
    errors = sorted(((examples, pair) for pair, examples in confusion.items() if pair[0] != pair[1]), reverse=True)
    confused = [(*(_name(one, names) for one in pair), _plain(examples)) for examples, pair in errors[:_LISTED]]
    return Table(f"{caption}: most frequent errors", ("label", "predicted", "examples"), confused, folded=True)


def _scores(confusion: Confusion, names: Names, caption: str) -> Table:
    """Returns precision, recall and F1 of each class."""
    labels, predictions = (dict.fromkeys(_classes(confusion), 0.0) for _ in range(2))
    for (label, prediction), examples in confusion.items():
        labels[label] += examples
        predictions[prediction] += examples
    correct = {one: confusion.get((one, one), 0.0) for one in labels}
    f1 = {one: 2 * correct[one] / (labels[one] + predictions[one]) for one in labels}
    shown = list(f1)
    if len(shown) > _LISTED:
        shown = sorted(shown, key=f1.__getitem__)[:_LISTED]
        caption += f": the {_LISTED} with the lowest F1"
    rows = [
        (
            _name(one, names),
            _plain(labels[one]),
            _rounded(correct[one] / predictions[one] if predictions[one] else None),
            _rounded(correct[one] / labels[one] if labels[one] else None),
            _rounded(f1[one]),
        )
        for one in shown
    ]
    return Table(caption, ("class", "examples", "precision", "recall", "F1"), rows, folded=len(f1) > _SHOWN_CLASSES)


def _name(number: int, names: Names) -> str:
    return names.get(str(number), str(number))


def _classes(confusion: Confusion) -> list[int]:
    return sorted({number for pair in confusion for number in pair})


def _count(confusion: Confusion, label: int, prediction: int) -> Cell:
    examples = confusion.get((label, prediction), 0.0)
    return Cell(f"{_plain(examples):,}", is_number=True, tone=GOOD if label == prediction and examples else "")


def _rounded(value: float | None) -> Cell | None:
    return None if value is None else Cell(f"{value:.4g}", is_number=True)


def _plain(examples: float) -> int | float:
    return int(examples) if examples.is_integer() else examples


def _calibration(ranges: Sequence[Range], prefix: str) -> Iterator[Block]:
    found = [one for one in ranges if math.isfinite(one.prediction) and math.isfinite(one.label)]
    if len(found) > 1:
        predictions = [one.prediction for one in found]
        series = {"mean label": [one.label for one in found], "calibrated": predictions}
        yield Chart(f"{prefix}Calibration", "mean prediction", predictions, series, dashed=["calibrated"])
    rows = [(_bounds(one), _plain(one.examples), _rounded(one.prediction), _rounded(one.label)) for one in found]
    columns = ("prediction", "examples", "mean prediction", "mean label")
    yield Table(f"{prefix}Labels by range of the prediction", columns, rows)


def _bounds(one: Range) -> str:
    if math.isinf(one.low):
        return "all" if math.isinf(one.high) else f"below {one.high:.4g}"
    return f"from {one.low:.4g}" if math.isinf(one.high) else f"{one.low:.4g} to {one.high:.4g}"
