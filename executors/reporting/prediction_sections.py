"""Report sections on predictions compared with labels: curves, confusion matrices, errors, importance of features."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ..evaluation.error_analysis import ErrorAnalysis
from ..evaluation.permutation_importance import Importance
from ..evaluation.plots import Confusion, OutputPlots, Range, Threshold, thinned
from .document import GOOD, Block, Cell, Chart, Note, Rows, Section, Table

PREDICTIONS = "predictions"  # id of the section with plots
_SHOWN_CLASSES = 20  # more do not fit on the page as a matrix
_LISTED = 100  # most classes or confused pairs in a table
_FEATURES = 25  # most features in the table of importance that is not folded
_SMALLEST_MOVE = 0.005  # distance between the points of a curve


Names: TypeAlias = "Mapping[str, str]"  # {class index: name}


def plots_section(plots: Sequence[OutputPlots], names: Mapping[str, Names], note: str = "") -> Section:
    """Returns the section with the plots of all outputs.

    Args:
      plots: The plots of each output.
      names: {output: names of its classes}.
      note: On which examples.
    """
    blocks: list[Block] = [block for one in plots for block in _blocks(one, names.get(one.output, {}))]
    return Section(PREDICTIONS, "Predictions and labels", [*_notes(note), *blocks] if any(blocks) else [])


def analysis_sections(analysis: ErrorAnalysis, *, has_plots: bool) -> list[Section]:
    """Returns the sections on an error analysis; the plots only if the report does not already have others."""
    where = _sample_line(analysis)
    sections = []
    if not has_plots:
        names = {one.plots.output: one.class_names for one in analysis.outputs}
        compared = f"Compared: {analysis.plan_line}. {where}"
        sections.append(plots_section([one.plots for one in analysis.outputs], names, compared))
    return [*sections, _errors(analysis, where if has_plots else "", has_plots), _importance(analysis.importance)]


def _notes(text: str) -> list[Note]:
    return [Note(text)] if text else []


def _sample_line(analysis: ErrorAnalysis) -> str:
    skipped = analysis.sampled - analysis.examples
    left = f"; {skipped:,} without a label or prediction are left out" if skipped else ""
    if analysis.sampled == analysis.total and analysis.is_complete:
        return f"All {analysis.total:,} examples of the {analysis.split} split{left}."
    if analysis.sampled == analysis.total:
        return f"The first {analysis.total:,} examples of the {analysis.split} split{left}."
    of = "examples" if analysis.is_complete else "first examples"
    return (
        f"A random sample of {analysis.sampled:,} of the {analysis.total:,} {of} of the {analysis.split} split{left}."
    )


def _errors(analysis: ErrorAnalysis, note: str, with_residuals: bool) -> Section:
    charts = [block for one in analysis.outputs for block in _residuals(one.plots)] if with_residuals else []
    tables = [
        Table(
            f"{one.plots.output}: largest errors" if one.plots.output else "Largest errors",
            list(one.errors.columns),
            list(one.errors.rows),
            folded=len(one.errors.rows) > _SHOWN_CLASSES,
        )
        for one in analysis.outputs
    ]
    return Section("errors", "Errors", [*_notes(note), *charts, *tables] if any(tables) else [])


def _importance(importance: Importance | None) -> Section:
    if importance is None:
        return Section("importance", "Importance of features", [])
    largest = max((one.drop for one in importance.features), default=0.0)
    rows: Rows = [
        (
            one.name,
            Cell(f"{one.drop:.4g}", is_number=True, share=max(0.0, one.drop / largest) if largest > 0 else 0.0),
            Cell("" if one.spread is None else f"±{one.spread:.2g}", is_number=True),
        )
        for one in importance.features
    ]
    unmeasured = len(importance.unmeasured)
    note = (
        f"How much worse {importance.metric} gets if the values of one feature are shuffled among "
        f"{importance.examples:,} examples; unchanged it is {importance.value:.4g}. Correlated features can replace "
        "each other, so each of them may look unimportant."
        + (f" There was no time for {unmeasured:,} more features: raise analysis_seconds." if unmeasured else "")
    )
    columns = ("feature", f"deterioration of {importance.metric}", "standard deviation")
    tables = [
        Table("Permutation importance", columns, rows[:_FEATURES]),
        Table("Further features", columns, rows[_FEATURES:], folded=True),
    ]
    return Section("importance", "Importance of features", [Note(note), *tables])


def _blocks(plots: OutputPlots, names: Names) -> Iterator[Block]:
    prefix = f"{plots.output}: " if plots.output else ""
    if plots.thresholds:
        yield from _binary(plots.thresholds, names, prefix)
    if plots.confusion:
        yield _matrix(plots.confusion, names, f"{prefix}Confusion matrix")
        yield _scores(plots.confusion, names, f"{prefix}Classes")
    yield from _residuals(plots)
    yield from _calibration(plots.ranges, prefix)


def _binary(thresholds: Sequence[Threshold], names: Names, prefix: str) -> Iterator[Block]:
    confusion = thresholds[0].confusion
    positives, negatives = (sum(confusion.get((label, predicted), 0.0) for predicted in (0, 1)) for label in (1, 0))
    if not positives or not negatives:
        yield Note(f"{prefix}All labels are {_name(int(positives > 0), names)}, so there are no curves.")
        return
    best = max(thresholds, key=lambda one: (one.f1, -abs(one.threshold - 0.5)))
    at = f"threshold {best.threshold:.3g}"
    roc = _curve(sorted((one.false_positive_rate, one.recall) for one in thresholds))
    yield Chart(
        f"{prefix}ROC curve",
        "false positive rate",
        [x for x, _ in roc],
        {"true positive rate": [y for _, y in roc], "chance": [x for x, _ in roc]},
        dashed=["chance"],
        mark=best.false_positive_rate,
        mark_label=at,
    )
    predicted = [one for one in reversed(thresholds) if any(one.confusion.get((label, 1)) for label in (0, 1))]
    curve = _curve([(one.recall, one.precision) for one in predicted])
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


def _curve(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [points[index] for index in thinned(points, _SMALLEST_MOVE)]


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


def _residuals(plots: OutputPlots) -> Iterator[Block]:
    """Yields the charts of errors, which TFMA's plots lack."""
    if not plots.residuals:
        return
    prefix = f"{plots.output}: " if plots.output else ""
    middles, examples = zip(*plots.residuals, strict=True)
    yield Chart(
        f"{prefix}Residuals", "prediction minus label", middles, {"examples": examples}, mark=0.0, mark_label="no error"
    )
    with_errors = [one for one in plots.ranges if one.error is not None]
    if len(with_errors) > 1:
        series = {"mean absolute error": [one.error for one in with_errors]}
        yield Chart(f"{prefix}Error by range", "mean prediction", [one.prediction for one in with_errors], series)


def _calibration(ranges: Sequence[Range], prefix: str) -> Iterator[Block]:
    found = [one for one in ranges if math.isfinite(one.prediction) and math.isfinite(one.label)]
    if len(found) > 1:
        predictions = [one.prediction for one in found]
        series = {"mean label": [one.label for one in found], "calibrated": predictions}
        yield Chart(f"{prefix}Calibration", "mean prediction", predictions, series, dashed=["calibrated"])
    has_errors = any(one.error is not None for one in found)
    rows = [
        (
            _bounds(one),
            _plain(one.examples),
            _rounded(one.prediction),
            _rounded(one.label),
            *([_rounded(one.error)] if has_errors else ()),
        )
        for one in found
    ]
    columns = (
        "prediction",
        "examples",
        "mean prediction",
        "mean label",
        *(["mean absolute error"] if has_errors else ()),
    )
    yield Table(f"{prefix}Labels by range of the prediction", columns, rows)


def _bounds(one: Range) -> str:
    if math.isinf(one.low):
        return "all" if math.isinf(one.high) else f"below {one.high:.4g}"
    return f"from {one.low:.4g}" if math.isinf(one.high) else f"{one.low:.4g} to {one.high:.4g}"
