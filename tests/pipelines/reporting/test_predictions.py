"""The section on predictions and labels, from plots as TFMA computes them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from generic_trainer.executors.evaluation.plots import OutputPlots, Range, Threshold
from generic_trainer.executors.evaluation.verdict import Verdict
from generic_trainer.executors.reporting.document import Chart, Note, Report, Table, as_cell
from generic_trainer.executors.reporting.page import html_of
from generic_trainer.pipelines.history.evaluation_results import Evaluation
from generic_trainer.pipelines.reporting.evaluation import prediction_sections


def threshold(at: float, tn: float, fp: float, fn: float, tp: float) -> Threshold:
    precision, recall = tp / max(1, tp + fp), tp / max(1, tp + fn)
    confusion = {(0, 0): float(tn), (0, 1): float(fp), (1, 0): float(fn), (1, 1): float(tp)}
    return Threshold(at, precision, recall, fp / max(1, fp + tn), 2 * tp / (2 * tp + fp + fn), confusion)


def blocks(plots: OutputPlots, kind: type, names: dict[str, str] | None = None) -> list[Any]:
    verdict = Verdict(True, class_names={"output_0": names} if names else {})
    found = prediction_sections(Evaluation({}, verdict=verdict, plots=[plots]))
    return [block for section in found for block in section.blocks if isinstance(block, kind)]


def texts(table: Table) -> list[list[str]]:
    return [[as_cell(value).text for value in row] for row in table.rows]


THRESHOLDS = (
    threshold(-1e-6, 0, 60, 0, 40),
    threshold(0.25, 40, 20, 10, 30),
    threshold(0.5, 50, 10, 10, 30),
    threshold(0.75, 58, 2, 30, 10),
    threshold(1.0, 60, 0, 40, 0),
)


def test_a_binary_output_has_curves_with_the_best_threshold_marked() -> None:
    roc, precision = blocks(OutputPlots("click", THRESHOLDS), Chart)
    assert (roc.title, precision.title) == ("click: ROC curve", "click: Precision and recall")
    assert list(roc.x) == pytest.approx([0, 2 / 60, 10 / 60, 20 / 60, 1])
    assert roc.series["true positive rate"] == pytest.approx([0, 0.25, 0.75, 0.75, 1])
    assert (roc.mark, roc.mark_label) == (pytest.approx(10 / 60), "threshold 0.5")
    assert list(precision.x) == [0.25, 0.75, 0.75, 1]  # without a predicted 1 there is no precision
    assert precision.series["chance"] == [0.4] * 4
    assert precision.mark == 0.75
    assert precision.description.endswith("Marked at recall 0.75: threshold 0.5.")
    [note] = blocks(OutputPlots("click", THRESHOLDS), Note)
    assert note.text == "Marked: threshold 0.5, which has the highest F1 on these examples (0.75)."


def test_the_confusion_matrix_is_that_of_the_marked_threshold() -> None:
    matrix, classes = (table for table in blocks(OutputPlots("", THRESHOLDS), Table) if table)
    assert matrix.caption == "Confusion matrix at threshold 0.5"
    assert texts(matrix) == [["0", "50", "10"], ["1", "10", "30"]]
    assert texts(classes) == [["0", "60", "0.8333", "0.8333", "0.8333"], ["1", "40", "0.75", "0.75", "0.75"]]


@pytest.mark.parametrize(("label", "examples"), [(0, (7, 3, 0, 0)), (1, (0, 0, 7, 3))])
def test_labels_of_one_class_have_no_curves(label: int, examples: Sequence[int]) -> None:
    plots = OutputPlots("", [threshold(0.5, *examples)])
    assert blocks(plots, Chart) == []
    assert blocks(plots, Note) == [Note(f"All labels are {label}, so there are no curves.")]


def test_several_classes_have_precision_and_recall_each() -> None:
    confusion = {(0, 0): 3.0, (0, 2): 1.0, (2, 2): 2.0, (1, 2): 0.5}
    matrix, classes = (table for table in blocks(OutputPlots("", confusion=confusion), Table) if table)
    assert matrix.columns == ("label ↓ prediction →", "0", "1", "2")
    assert texts(matrix) == [["0", "3", "0", "1"], ["1", "0", "0", "0.5"], ["2", "0", "0", "2"]]
    assert texts(classes) == [
        ["0", "4", "1", "0.75", "0.8571"],
        ["1", "0.5", as_cell(None).text, "0", "0"],
        ["2", "2", "0.5714", "1", "0.7273"],
    ]


def test_known_classes_have_names() -> None:
    plots = OutputPlots("", confusion={(0, 0): 3.0, (0, 1): 1.0, (2, 2): 2.0})
    matrix, classes = (table for table in blocks(plots, Table, {"0": "setosa", "1": "virginica"}) if table)
    assert matrix.columns == ("label ↓ prediction →", "setosa", "virginica", "2")
    assert [row[0] for row in classes.rows] == [row[0] for row in matrix.rows] == ["setosa", "virginica", "2"]


def test_many_classes_have_their_most_frequent_errors_instead_of_a_matrix() -> None:
    confusion = dict.fromkeys(itertools.product(range(200), repeat=2), 1.0) | {(7, 9): 300.0}
    errors, classes = (table for table in blocks(OutputPlots("", confusion=confusion), Table) if table)
    assert errors.caption == "Confusion matrix: most frequent errors"
    assert texts(errors)[0] == ["7", "9", "300"]
    assert classes.caption == "Classes: the 100 with the lowest F1"
    assert [row[0] for row in texts(classes)[:2]] == ["7", "9"]
    assert len(errors.rows) == len(classes.rows) == 100
    assert errors.folded
    assert classes.folded


def test_calibration_has_the_mean_label_of_each_range() -> None:
    infinite = float("inf")
    plots = OutputPlots("", ranges=[Range(-infinite, 0.1, 20.0, 0.05, 0.25), Range(0.1, infinite, 30.0, 0.5, 0.4)])
    [chart], [table] = blocks(plots, Chart), [table for table in blocks(plots, Table) if table]
    assert (list(chart.x), chart.series["mean label"]) == ([0.05, 0.5], [0.25, 0.4])
    assert texts(table) == [["below 0.1", "20", "0.05", "0.25"], ["from 0.1", "30", "0.5", "0.4"]]
    assert blocks(OutputPlots("", ranges=[Range(0.0, 1.0, 20.0, infinite, 0.2)]), Chart) == []


def test_names_of_outputs_are_escaped() -> None:
    plots = OutputPlots("<img>", THRESHOLDS, confusion={(0, 0): 1.0})
    page = html_of(Report("x", "", (), prediction_sections(Evaluation({}, plots=[plots]))))
    assert "<img" not in page.partition("<script>")[0]
