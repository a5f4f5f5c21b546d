"""Examples evaluated in the training process: written, read again, and analyzed by what their labels say."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from generic_trainer import FnArgs, InputError, TrainingOptions
from generic_trainer.executors.engines.training_request import TrainingRequest
from generic_trainer.executors.evaluation import evaluated_examples
from generic_trainer.executors.evaluation.error_analysis import ErrorAnalysis, analyze_evaluated
from generic_trainer.executors.evaluation.evaluated_examples import Batch, EvaluatedExamples
from generic_trainer.executors.evaluation.evidence import TrainingEvidence
from generic_trainer.executors.evaluation.plan import BINARY, MULTICLASS, REGRESSION, EvaluationPlan, OutputPlan
from generic_trainer.executors.evaluation.run_error_analysis import run_error_analysis
from generic_trainer.executors.examples_format import ExamplesFormat
from generic_trainer.executors.features.error_analysis.worker import Evidence
from generic_trainer.executors.modules.keras_version import KerasChoice
from generic_trainer.executors.modules.source import find_source
from generic_trainer.executors.reporting.document import Note
from generic_trainer.executors.reporting.prediction_sections import analysis_sections

from ...world.records import write_examples

LABELS = np.array([[0], [1], [1], [0]])
LOGITS = np.array([[-2.0], [3.0], [-1.0], [-4.0]], np.float32)
NAMES = {"city": np.array([b"Oslo", b"K\xc3\xb6ln", b"Rom", b"Bern"]), "size": np.arange(8.0).reshape(4, 2)}


def examples(labels: np.ndarray = LABELS, outputs: np.ndarray = LOGITS, is_complete: bool = True) -> EvaluatedExamples:
    return EvaluatedExamples(labels, {"output": outputs}, NAMES, is_complete)


def plan(task: str) -> EvaluationPlan:
    return EvaluationPlan("serving_default", outputs=(OutputPlan("output", task),))


def test_examples_are_the_same_after_writing_and_analyzed_in_another_process(tmp_path: pathlib.Path) -> None:
    examples(is_complete=False).write(str(tmp_path))
    read = evaluated_examples.read(str(tmp_path))
    assert read.labels.tolist() == LABELS.tolist()
    assert read.outputs["output"].dtype == np.float32
    assert read.features["city"].tolist() == NAMES["city"].tolist()
    state = run_error_analysis(plan(BINARY), "no model", FnArgs(model_run_dir=str(tmp_path)), seconds=1)
    found = ErrorAnalysis.from_json(state)
    assert json.dumps(found.to_json()) == json.dumps(analyze_evaluated(plan(BINARY), read).to_json())
    [first, *_] = analysis_sections(found, has_plots=False)
    [note] = [block for block in first.blocks if isinstance(block, Note) and "Compared" in block.text]
    assert note.text.endswith("The first 4 examples of the eval split.")
    evaluated_examples.delete(str(tmp_path))
    assert not evaluated_examples.are_in(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_logits_become_probabilities_and_the_largest_error_has_its_features() -> None:
    found = analyze_evaluated(plan(BINARY), examples())
    [output] = found.outputs
    assert (found.examples, found.total, found.problem) == (4, 4, "")
    assert output.errors.columns == ("label", "prediction", "probability of the label", "city", "size")
    assert output.errors.rows == [("1", "0", pytest.approx(0.2689, abs=1e-4), "Rom", "4, 5")]


def test_values_are_compared_as_they_are() -> None:
    [output] = analyze_evaluated(plan(REGRESSION), examples(np.array([1.5, 2.5, 3.5, 4.5]), 1.5 * LABELS)).outputs
    assert output.errors.rows[0][:3] == (4.5, 0.0, -4.5)


@pytest.mark.parametrize(
    ("labels", "outputs", "message"),
    [
        (np.array([0, 1, 2, 3]), np.eye(4, 3), "computed by the module has class 3, but output output has"),
        (np.array([b"a", b"b", b"a", b"b"]), np.eye(4, 3), "label computed by the module has string values"),
        (LABELS, LOGITS, "which does not match task multiclass"),
    ],
)
def test_labels_that_do_not_fit_are_reported(labels: np.ndarray, outputs: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        analyze_evaluated(plan(MULTICLASS), examples(labels, outputs))


def test_an_output_that_was_not_evaluated_is_reported() -> None:
    other = EvaluationPlan("serving_default", outputs=(OutputPlan("scores", BINARY),))
    with pytest.raises(InputError, match="evaluated no output 'scores', but output"):
        analyze_evaluated(other, examples())


def test_labels_are_evidence_of_the_task() -> None:
    evidence = TrainingEvidence().with_examples(examples().labels, examples().features)
    [output] = evidence.outputs
    assert output.label is not None
    assert output.label.is_binary
    assert output.label.shape == (1,)
    assert evidence.inputs == ("city", "size")


def collected(batches: Callable[[], Iterator[Batch]], seconds: float = 60.0) -> EvaluatedExamples | None:
    with evaluated_examples.collecting(lambda: seconds) as found:
        evaluated_examples.collect(batches)
    return found.examples


@pytest.mark.parametrize(
    ("payload", "name", "are_collected"),
    [("FORMAT_TF_EXAMPLE", "a", False), ("FORMAT_TF_EXAMPLE", "a.csv", True), ("FORMAT_PARQUET", "a.parquet", True)],
)
def test_all_but_tf_examples_are_evaluated_in_the_training(
    payload: str, name: str, are_collected: bool, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / name
    if name == "a":
        write_examples(path, [{"x": 1.0}])
    elif name == "a.csv":
        path.write_text("x\n" + "1.0\n" * 10)
    else:
        pq.write_table(pa.table({"x": [1.0]}), path)
    args = FnArgs(eval_files=[str(path)], examples_format=ExamplesFormat(payload), model_run_dir=str(tmp_path))
    (tmp_path / "module.py").touch()
    source, options = find_source(str(tmp_path / "module.py"), str(tmp_path)), TrainingOptions(analysis_seconds=5.0)
    evidence = Evidence(TrainingRequest(source, None, args, options, KerasChoice("3", "the test's")))

    with evidence.around():
        evaluated_examples.collect(lambda: iter([batch(1)]))
    evidence.result(None)

    assert evaluated_examples.are_in(str(tmp_path)) is are_collected


def batch(rows: int, **features: object) -> Batch:
    return (
        np.zeros(rows, np.int32),
        {"output": np.zeros((rows, 2))},
        {name: np.array(v) for name, v in features.items()},
    )


def test_batches_are_joined_without_features_that_do_not_fit_a_table() -> None:
    texts = np.array([b"a", b"bcd"], object)

    def batches() -> Iterator[Batch]:
        yield batch(2, text=texts, image=np.zeros((2, 65)), grows=[b"short", b"short"])
        yield batch(1, text=[b"e"], image=np.zeros((1, 65)), grows=[b"x" * 201])

    found = collected(batches)
    assert found is not None
    assert found.is_complete
    assert found.labels.shape == (3,)
    assert found.outputs["output"].shape == (3, 2)
    assert {name: values.tolist() for name, values in found.features.items()} == {"text": [b"a", b"bcd", b"e"]}


def test_an_endless_input_is_read_up_to_the_limit() -> None:
    found = collected(lambda: iter(lambda: batch(4000), None))
    assert found is not None
    assert (len(found.labels), found.is_complete) == (12_000, False)


def test_nothing_is_collected_without_labels_or_after_an_error() -> None:
    def fails() -> Iterator[Batch]:
        yield batch(1)
        raise ValueError("in the user's feed")

    assert collected(fails) is None
    assert collected(lambda: iter([(None, {}, {})])) is None
    assert collected(lambda: iter([])) is None


def test_batches_are_not_computed_if_they_are_not_wanted() -> None:
    evaluated_examples.collect(lambda: pytest.fail("called outside of a run"))
    assert collected(lambda: pytest.fail("called without time"), seconds=0) is None


def test_a_full_disk_does_not_fail_the_run(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    evaluated_examples.Collected(lambda: 1.0, examples()).save(str(tmp_path / "file" / "folder"))
    assert "There will be no analysis of the model's errors: " in caplog.text
