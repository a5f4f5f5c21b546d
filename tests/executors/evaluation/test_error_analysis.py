"""Error analyses of SavedModels whose answers NumPy knows: plots, largest errors, and the importance of features."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from generic_trainer import FnArgs, InputError
from generic_trainer.executors.evaluation.error_analysis import (
    ErrorAnalysis,
    analyze_errors,
    read_error_analysis,
)
from generic_trainer.executors.evaluation.eval_sample import Sample, sample_of
from generic_trainer.executors.evaluation.inference import BATCH, ExampleReader, Scorer, score
from generic_trainer.executors.evaluation.plan import (
    BINARY,
    LOGITS,
    MULTICLASS,
    PROBABILITIES,
    RANKING,
    REGRESSION,
    EvaluationPlan,
    OutputPlan,
)
from generic_trainer.executors.evaluation.run_error_analysis import (
    delete_error_analysis,
    run_error_analysis,
    write_error_analysis,
)
from generic_trainer.executors.evaluation.unread_label import with_unread_label
from generic_trainer.executors.examples_format import ExamplesFormat
from generic_trainer.executors.kubeflow.classification import classification_metadata
from generic_trainer.executors.reporting.document import Chart, Note, Section, Table
from generic_trainer.executors.reporting.prediction_sections import analysis_sections

from ...world import records
from ...world.models import save_model

COUNT = 400
RANDOM = np.random.default_rng(3)
STRONG, WEAK, UNUSED = RANDOM.normal(size=(3, COUNT)).astype(np.float32)
LOGIT = 3 * STRONG + WEAK
LABEL = (LOGIT + RANDOM.logistic(size=COUNT) > 0).astype(np.int64)
NAMES = {"output": {"0": "stays", "1": "leaves"}}


def example(row: int, **more: Any) -> bytes:
    columns = {"strong": STRONG[row], "weak": WEAK[row], "unused": UNUSED[row], "city": f"city {row}"}
    return records.example(columns, **more)


EXAMPLES = [example(row, label=float(LABEL[row]), price=float(LOGIT[row])) for row in range(COUNT)]


@pytest.fixture(scope="module")
def save(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Any], Any]], str]:
    def saved(answer: Callable[[Any], Any]) -> str:
        def outputs(features: dict[str, Any]) -> dict[str, Any]:
            return {"output": answer(3 * features["strong"] + features["weak"] + 0 * features["unused"])}

        return save_model(outputs, tmp_path_factory.mktemp("model"), ("strong", "weak", "unused"))

    return saved


def analyzed(model: str, output: OutputPlan, seconds: float = 5.0, **more: Any) -> ErrorAnalysis:
    plan = EvaluationPlan("serving_default", outputs=(output,))
    sample = Sample(EXAMPLES, COUNT)
    found = analyze_errors(Scorer(plan, model, ExampleReader(None)), sample, seconds=seconds, **more)
    return ErrorAnalysis.from_json(json.loads(json.dumps(found.to_json())))


def blocks(sections: list[Section], kind: type) -> list[Any]:
    return [block for section in sections for block in section.blocks if isinstance(block, kind) and block]


def test_a_binary_model(save: Any) -> None:
    found = analyzed(save(lambda x: x), OutputPlan("output", BINARY, "label", scores=LOGITS), names=NAMES)
    [output] = found.outputs
    probability = 1 / (1 + np.exp(-LOGIT.astype(np.float64)))
    for one in output.plots.thresholds:
        predicted = probability >= one.threshold - 1e-9
        assert one.confusion[1, 1] == (predicted & (LABEL == 1)).sum()
        assert one.confusion[0, 1] == (predicted & (LABEL == 0)).sum()
        assert sum(one.confusion.values()) == COUNT
    assert len(output.plots.ranges) == 10
    assert sum(one.examples for one in output.plots.ranges) == COUNT

    chances = [row[2] for row in output.errors.rows]
    of_label = np.where(LABEL == 1, probability, 1 - probability)
    assert chances == pytest.approx(np.sort(of_label)[: len(chances)], rel=1e-3)
    assert all({row[0], row[1]} == {"stays", "leaves"} for row in output.errors.rows)
    assert "label" not in output.errors.columns[3:]
    worst = int(np.argmin(of_label))
    assert f"city {worst}" in output.errors.rows[0]

    importance = found.importance
    assert importance is not None
    assert (importance.metric, importance.examples) == ("AUC", COUNT)
    drops = {one.name: one.drop for one in importance.features}
    assert [one.name for one in importance.features][:2] == ["strong", "weak"]
    assert drops["strong"] > 0.2
    assert drops["unused"] == 0
    assert {"label", "city"}.isdisjoint(drops)  # the label, and what the signature does not read


def test_the_report_of_a_binary_model(save: Any) -> None:
    found = analyzed(save(lambda x: x), OutputPlan("output", BINARY, "label", scores=LOGITS), names=NAMES)
    sections = analysis_sections(found, has_plots=False)
    assert [section.title for section in sections] == ["Predictions and labels", "Errors", "Importance of features"]
    assert [chart.title for chart in blocks(sections, Chart)] == ["ROC curve", "Precision and recall", "Calibration"]
    notes = [note.text for note in blocks(sections, Note)]
    assert notes[0].startswith("Compared: binary: output (logits) against label label; signature serving_default, ")
    assert notes[0].endswith(" All 400 examples of the eval split.")
    assert "How much worse AUC gets" in notes[-1]
    captions = [table.caption for table in blocks(sections, Table)]
    assert captions[-2:] == ["Largest errors", "Permutation importance"]
    sections = analysis_sections(found, has_plots=True)
    assert not blocks(sections, Chart)  # the Evaluator's are on the page
    assert blocks(sections, Note)[0].text == "All 400 examples of the eval split."


def test_a_multiclass_model(save: Any) -> None:
    model = save(lambda x: tf.nn.softmax(tf.concat([-x, x, x * 0 - 9], 1)))
    found = analyzed(model, OutputPlan("output", MULTICLASS, "label", classes=3, scores=PROBABILITIES))
    [output] = found.outputs
    predicted = (LOGIT > 0).astype(int)
    expected = {
        (label, one): float(((label == LABEL) & (predicted == one)).sum()) for label in (0, 1) for one in (0, 1)
    }
    assert output.plots.confusion == expected
    assert found.importance is not None
    assert found.importance.metric == "accuracy"
    assert found.importance.value == pytest.approx((predicted == LABEL).mean())


def test_a_regression_model(save: Any) -> None:
    found = analyzed(save(lambda x: x + 0.5), OutputPlan("output", REGRESSION, "price"))
    [output] = found.outputs
    assert [one.error for one in output.plots.ranges] == pytest.approx([0.5] * 10, rel=1e-3)
    assert sum(examples for _, examples in output.plots.residuals) == COUNT
    assert [row[2] for row in output.errors.rows] == pytest.approx([0.5] * 20, rel=1e-3)
    titles = [chart.title for chart in blocks(analysis_sections(found, has_plots=False), Chart)]
    assert titles == ["Residuals", "Error by range", "Calibration"]
    assert found.importance is not None
    assert found.importance.value == pytest.approx(0.5, rel=1e-3)
    assert found.importance.features[0].name == "strong"


def test_a_task_without_plots_has_no_sections(save: Any) -> None:
    found = analyzed(save(lambda x: x), OutputPlan("output", RANKING, "label"))
    assert not any(analysis_sections(found, has_plots=False))
    assert classification_metadata(found) == {}


def test_examples_without_a_label_are_left_out(save: Any) -> None:
    plan = EvaluationPlan("serving_default", outputs=(OutputPlan("output", BINARY, "label", scores=LOGITS),))
    scorer = Scorer(plan, save(lambda x: x), ExampleReader(None))
    records = [*EXAMPLES[:50], *map(example, range(5)), *EXAMPLES[50:]]
    found = analyze_errors(scorer, Sample(records, 1_000_000), seconds=0)
    assert (found.examples, found.sampled, found.importance) == (COUNT, COUNT + 5, None)
    [note, *_] = blocks(analysis_sections(found, has_plots=False), Note)
    assert note.text.endswith(
        " A random sample of 405 of the 1,000,000 examples of the eval split; 5 without a label or prediction are left "
        "out."
    )
    with pytest.raises(InputError, match="'label'"):
        analyze_errors(scorer, Sample(list(map(example, range(5))), 5), seconds=0)


def test_batches_without_a_label_are_left_out(save: Any) -> None:
    plan = EvaluationPlan("serving_default", outputs=(OutputPlan("output", BINARY, "label", scores=PROBABILITIES),))
    scorer = Scorer(plan, save(lambda x: x), ExampleReader(None))
    unlabeled, unparsed = [example(0)] * BATCH, [records.example({"city": "no number"}, label=1.0)] * BATCH
    sample = [*unlabeled, *unparsed, *EXAMPLES]
    found = analyze_errors(scorer, Sample(sample, len(sample)), seconds=0)
    assert (found.examples, found.sampled) == (COUNT, 2 * BATCH + COUNT)
    assert "output (logits)" in found.plan_line
    with pytest.raises(InputError, match="'label'"):
        score(sample, [scorer])


def test_importance_is_measured_as_far_as_time_allows(save: Any) -> None:
    found = analyzed(save(lambda x: x), OutputPlan("output", BINARY, "label", scores=LOGITS), seconds=1e-6).importance
    assert found is not None
    assert (list(found.features), found.unmeasured) == ([], ["strong", "unused", "weak"])
    assert "There was no time for 3 more features" in str(
        analysis_sections(ErrorAnalysis(importance=found), has_plots=True)
    )


def test_a_sample_is_uniform_and_bounded(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [str(tmp_path / name) for name in ("a.tfrecord", "b.tfrecord")]
    for number, file in enumerate(files):
        records.write_records(file, (b"%06d" % (number * 2000 + record) for record in range(2000)))
    assert sample_of(files, 60).total == 4000
    monkeypatch.setattr("generic_trainer.executors.evaluation.eval_sample._EXAMPLES", 400)
    found = sample_of(files, 60)
    assert (len(found.records), found.total, found.is_complete) == (400, 4000, True)
    assert 150 < sum(int(record) < 2000 for record in found.records) < 250
    assert found == sample_of(files, 60)
    monkeypatch.setattr("generic_trainer.executors.evaluation.eval_sample._BYTES", 600)
    assert len(sample_of(files, 60).records) == 100  # large examples: fewer
    assert not sample_of(files, 0).is_complete


def test_the_payload_format_and_not_the_name_decides_how_a_sample_is_read(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "rows.csv")
    pq.write_table(pa.table({"x": [0.5, 1.5]}), path)

    assert sample_of([path], 60, "FORMAT_PARQUET").total == 2
    with pytest.raises(InputError, match=r"rows\.csv"):
        sample_of([path], 60)


def test_kubeflow_gets_curve_and_matrix(save: Any) -> None:
    found = analyzed(save(lambda x: x), OutputPlan("output", BINARY, "label", scores=LOGITS), names=NAMES)
    metadata: Any = classification_metadata(found)
    points = metadata["confidenceMetrics"]
    assert (points[0]["recall"], points[-1]["recall"]) == (0.0, 1.0)
    assert points[0]["confidenceThreshold"] > points[-1]["confidenceThreshold"]
    matrix = metadata["confusionMatrix"]
    assert [one["displayName"] for one in matrix["annotationSpecs"]] == ["stays", "leaves"]
    assert np.sum([one["row"] for one in matrix["rows"]]) == COUNT


@pytest.mark.parametrize("damage", ["no task", "no label", "another format", "no files", "a broken model"])
def test_an_analysis_that_is_impossible_says_why(save: Any, tmp_path: pathlib.Path, damage: str) -> None:
    path = tmp_path / "eval.tfrecord"
    records.write_records(path, EXAMPLES)
    plan = EvaluationPlan("serving_default", outputs=(OutputPlan("output", BINARY, "label", scores=LOGITS),))
    fn_args, model = FnArgs(eval_files=[str(path)]), save(lambda x: x)
    expected = {
        "no task": "no output of the model has a known task",
        "no label": "the label is unknown: of the features that the model does not read, several features fit: ",
        "another format": "the eval split is not of tf.Examples, but FORMAT_PROTO",
        "no files": "there is no eval split",
        "a broken model": "--model ",
    }[damage]
    if damage == "no task":
        plan = EvaluationPlan("serving_default", outputs=(OutputPlan("output"),))
    elif damage == "no label":
        plan = EvaluationPlan("serving_default", outputs=(OutputPlan("output", REGRESSION),))
        records.write_records(path, (example(row, price=1.5, cost=2.5) for row in range(COUNT)))
    elif damage == "another format":
        fn_args = FnArgs(eval_files=[str(path)], examples_format=ExamplesFormat("FORMAT_PROTO"))
    elif damage == "no files":
        fn_args = FnArgs(eval_files=[])
    else:
        (pathlib.Path(model) / "saved_model.pb").write_bytes(b"damaged")
    state = run_error_analysis(plan, model, fn_args, seconds=1)
    write_error_analysis(state, str(tmp_path))
    found = ErrorAnalysis.from_json(state)
    assert found.problem.startswith(expected)
    assert read_error_analysis(str(tmp_path)) == found
    delete_error_analysis(str(tmp_path))
    assert read_error_analysis(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("output", "values"),
    [
        (OutputPlan("output", BINARY, scores=LOGITS), {"label": 1.0, "price": 0.5}),
        (OutputPlan("output", REGRESSION), {"cost": 0.5}),
        (OutputPlan("output", REGRESSION), {"cost": 0.5, "target": 0.5}),  # a usual name
    ],
)
def test_the_label_is_what_the_model_does_not_read(output: OutputPlan, values: dict[str, float]) -> None:
    plan = EvaluationPlan("serving_default", outputs=(output,))
    records = [example(row, **values) for row in range(9)]
    found = with_unread_label(plan, records, {"strong", "weak", "unused"})
    assert found.outputs[0].label == ("target" if "target" in values else next(iter(values)))
    with pytest.raises(InputError, match="so are the features that the model reads"):
        with_unread_label(plan, records, None)
    with pytest.raises(InputError, match="no unread feature fits"):
        with_unread_label(plan, records, {"strong", "weak", "unused", *values})


def test_labels_of_several_outputs_are_not_guessed() -> None:
    plan = EvaluationPlan("serving_default", outputs=(OutputPlan("a", REGRESSION), OutputPlan("b", REGRESSION)))
    with pytest.raises(InputError, match="labels of the model's outputs are unknown"):
        with_unread_label(plan, [example(0, cost=0.5)], {"strong"})


def test_a_one_hot_label_is_found() -> None:
    records = []
    for row in range(9):
        found = tf.train.Example.FromString(example(row))
        found.features.feature["species"].float_list.value.extend(np.eye(3)[row % 3])
        records.append(found.SerializeToString())
    plan = EvaluationPlan("serving_default", outputs=(OutputPlan("output", MULTICLASS, classes=3),))
    [output] = with_unread_label(plan, records, {"strong", "weak", "unused"}).outputs
    assert (output.label, output.label_is_one_hot) == ("species", True)
