"""The Evaluator with real artifacts: a model it cannot evaluate does not fail the step; its verdict has the reason."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from absl import logging
from google.protobuf import text_format
from sklearn.metrics import roc_auc_score
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.types import standard_artifacts

from generic_trainer.components.evaluator import Evaluator, EvaluatorExecutor
from generic_trainer.executors.evaluation.error_analysis import read_error_analysis
from generic_trainer.executors.evaluation.evidence import LabelEvidence, OutputEvidence, TrainingEvidence
from generic_trainer.executors.evaluation.label_mapping import LabelMapping
from generic_trainer.executors.evaluation.plan import (
    BINARY,
    LOGITS,
    PROBABILITIES,
    EvaluationPlan,
    OutputPlan,
    Overrides,
)
from generic_trainer.executors.evaluation.verdict import Verdict, read_verdict
from generic_trainer.executors.reporting.document import Chart
from generic_trainer.pipelines.history.evaluation_results import read_evaluation
from generic_trainer.pipelines.reporting.evaluation import evaluation_sections, prediction_sections

from ..world.models import save_model
from ..world.records import write_examples

SCHEMA = """
feature { name: "x" type: FLOAT presence { min_fraction: 1 } shape { dim { size: 1 } } }
feature { name: "y" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }
"""


class Step:
    """An Evaluator's artifacts in a folder, with 200 examples of `x` and `y`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.inputs = {
            "examples": [self._artifact(standard_artifacts.Examples, "examples")],
            "schema": [self._artifact(standard_artifacts.Schema, "schema")],
            "model": [self._artifact(standard_artifacts.Model, "model")],
        }
        self.inputs["examples"][0].split_names = '["train", "eval"]'
        split = folder / "examples" / "Split-eval"
        random = np.random.default_rng(0)
        rows = ({"x": x, "y": int(x + random.normal() > 0)} for x in random.normal(size=200))
        write_examples(split / "data.gz", rows)
        text_format.Parse(SCHEMA, schema_pb2.Schema())
        (folder / "schema" / "schema.pbtxt").write_text(SCHEMA)

    def save(self, function: Any, name: str = "model") -> str:
        """Saves a model that computes `score`, or a dict of outputs, from x."""

        def answer(features: dict[str, Any]) -> dict[str, Any]:
            outputs = function(features["x"])
            return outputs if isinstance(outputs, dict) else {"score": outputs}

        return save_model(answer, self.folder / name / "Format-Serving")

    def run(self, **properties: Any) -> tuple[Verdict, Any]:
        """Runs the executor; returns the verdict and the blessing."""
        outputs = {
            "evaluation": [self._artifact(standard_artifacts.ModelEvaluation, "evaluation")],
            "blessing": [self._artifact(standard_artifacts.ModelBlessing, "blessing")],
        }
        context = EvaluatorExecutor.Context(
            beam_pipeline_args=["--direct_running_mode=in_memory", "--sdk_container_image=none"],
            tmp_dir=str(self.folder / "tmp"),
            unique_id="1",
        )
        EvaluatorExecutor(context).Do(self.inputs, outputs, {"example_splits": "null", **properties})
        verdict = read_verdict(str(self.folder / "evaluation"))
        assert verdict is not None
        return verdict, outputs["blessing"][0]

    def _artifact(self, kind: Any, name: str) -> Any:
        artifact = kind()
        artifact.uri = str(self.folder / name)
        (self.folder / name).mkdir(exist_ok=True, parents=True)
        return artifact


@pytest.fixture
def step(tmp_path: pathlib.Path) -> Step:
    return Step(tmp_path)


def overrides(**values: Any) -> str:
    return json.dumps(values)


def texts_of(step: Step, blessed: bool) -> str:
    return str(evaluation_sections(read_evaluation(str(step.folder / "evaluation")), blessed))


def test_a_model_is_blessed_with_a_plan_derived_from_it(step: Step) -> None:
    step.save(tf.sigmoid)
    verdict, blessing = step.run(overrides=overrides(labels={"": "y"}), analysis_seconds=1.0)
    assert (verdict.blessed, verdict.has_threshold, verdict.reason) == (True, True, "")
    assert verdict.plan_line.startswith("binary: score (probabilities) against label y")
    assert blessing.get_int_custom_property("blessed") == 1
    assert (step.folder / "blessing" / "BLESSED").exists()
    evaluation = read_evaluation(str(step.folder / "evaluation"))
    assert evaluation.metrics["eval"]["auc"] > 0.6
    errors = read_error_analysis(str(step.folder / "evaluation"))
    assert errors is not None
    assert (errors.examples, errors.split) == (200, "eval")
    [section] = prediction_sections(evaluation)
    charts = [block.title for block in section.blocks if isinstance(block, Chart)]
    assert charts == ["ROC curve", "Precision and recall", "Calibration"]


@pytest.mark.thorough
def test_an_existing_plan_is_kept_if_it_fits(step: Step) -> None:
    step.save(lambda x: 2.0 * x)
    plan = EvaluationPlan("serving_default", outputs=(OutputPlan("score", BINARY, "y", scores=LOGITS),))
    verdict, _ = step.run(plan=json.dumps(plan.to_json()))
    assert EvaluationPlan.from_json(verdict.plan) == plan
    other = EvaluationPlan("serving_default", outputs=(OutputPlan("logits", BINARY, "y", scores=LOGITS),))
    verdict, _ = step.run(plan=json.dumps(other.to_json()), overrides=overrides(labels={"": "y"}, task="binary"))
    assert verdict.plan["outputs"][0]["output"] == "score"


def test_values_of_a_converted_label_are_those_of_the_training_not_of_a_sample(step: Step) -> None:
    """`y` is converted by the module: 1 to 0 and 0 to 1."""
    step.save(lambda x: tf.sigmoid(-x))

    def recorded(folder: str, *pairs: tuple[int, int]) -> Any:
        artifact = step._artifact(standard_artifacts.ModelRun, folder)
        label = LabelEvidence("int64", (), mappings=(LabelMapping("y", pairs, rows=200),))
        evidence = TrainingEvidence((OutputEvidence(loss="binary_crossentropy", label=label),), ("x",))
        record = {"status": "succeeded", "evaluation_evidence": evidence.to_json()}
        (step.folder / folder / "run.json").write_text(json.dumps(record))
        return artifact

    step.inputs["model_run"] = [recorded("model_run", (1, 0), (0, 1))]
    sampled = OutputPlan("score", BINARY, "y", scores=PROBABILITIES, label_values=((1, 0),))
    plan = json.dumps(EvaluationPlan("serving_default", outputs=(sampled,)).to_json())
    verdict, _ = step.run(plan=plan, overrides=overrides(labels={"": "y"}))
    assert (verdict.blessed, verdict.class_names) == (True, {"score": {"0": "1", "1": "0"}})
    evaluation = read_evaluation(str(step.folder / "evaluation"))
    assert evaluation.metrics["eval"]["auc"] > 0.6

    recorded("baselines/model_run/1", (0, 0), (1, 1))
    step.save(tf.sigmoid, "baselines/model/1")
    baseline = standard_artifacts.Model()
    baseline.uri = str(step.folder / "baselines/model/1")
    step.inputs["baseline_model"] = [baseline]
    verdict, _ = step.run(overrides=overrides(labels={"": "y"}))
    assert "excluded from the comparison: its targets of the label's values differ" in verdict.notes[0]


def test_a_missed_threshold_is_reported(step: Step) -> None:
    step.save(lambda x: tf.sigmoid(-x))
    verdict, blessing = step.run(overrides=overrides(labels={"": "y"}))
    assert not verdict.blessed
    assert verdict.reason.startswith("auc is 0.")
    assert ", and 0.5 for a model that always predicts the base rate: the model is not better" in verdict.reason
    assert blessing.get_int_custom_property("blessed") == 0
    assert (step.folder / "blessing" / "NOT_BLESSED").exists()
    assert f"so it was not pushed: {verdict.reason}." in texts_of(step, blessed=False)


@pytest.mark.thorough
def test_a_model_of_an_unknown_task_is_blessed_without_a_threshold(step: Step) -> None:
    step.save(lambda x: tf.abs(x) * 3.0)
    verdict, _ = step.run(overrides=overrides(labels={"": "y"}, task="unknown"))
    assert (verdict.blessed, verdict.has_threshold) == (True, False)
    assert verdict.reason == "No quality threshold: the task is unknown"
    assert read_evaluation(str(step.folder / "evaluation")).metrics == {"eval": {"example_count": 200}}
    assert "No quality threshold: the task is unknown." in texts_of(step, blessed=True)


def test_a_plan_with_a_problem_skips_the_evaluation(step: Step) -> None:
    step.save(tf.sigmoid)
    verdict, blessing = step.run(overrides=overrides(labels={"": "z"}))
    assert verdict.reason.startswith("No quality threshold: the model was not evaluated: ")
    assert "no label feature 'z'" in verdict.reason
    assert blessing.get_int_custom_property("blessed") == 1
    assert read_evaluation(str(step.folder / "evaluation")).metrics == {}


def test_a_label_that_does_not_match_the_outputs_skips_the_evaluation(step: Step) -> None:
    step.save(lambda x: tf.sigmoid(tf.concat([x, x, x], 1)))
    verdict, blessing = step.run(overrides=overrides(labels={"": "y"}, task="multilabel"))
    assert verdict.reason.startswith("No quality threshold: the model was not evaluated: label y has 1 values")
    assert blessing.get_int_custom_property("blessed") == 1


def test_a_failed_evaluation_keeps_the_model_and_is_retried(step: Step, caplog: pytest.LogCaptureFixture) -> None:
    def fails(x: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(x, -100.0, "too large")]):
            return tf.sigmoid(x)

    logging.use_absl_handler()
    step.save(fails)
    verdict, blessing = step.run(overrides=overrides(labels={"": "y"}))
    assert (verdict.blessed, verdict.failed) == (False, True)
    assert verdict.reason.startswith("The evaluation failed: SignatureError: ")
    assert "too large" in verdict.reason
    assert "\n" not in verdict.reason
    assert blessing.get_int_custom_property("blessed") == 0
    assert not (step.folder / "blessing").exists()  # so that TFX does not take the step from the cache
    assert "The evaluation failed: " in texts_of(step, blessed=False)
    shown = [record for record in caplog.records if not getattr(record, "kept_only", False)]
    assert not any(record.exc_info for record in shown)


@pytest.mark.thorough
def test_a_baseline_with_other_signatures_is_ignored(step: Step) -> None:
    step.save(tf.sigmoid)
    (step.folder / "baseline").mkdir()
    baseline = standard_artifacts.Model()
    baseline.uri = str(step.folder / "baseline")
    step.inputs["baseline_model"] = [baseline]
    verdict, _ = step.run(overrides=overrides(labels={"": "y"}))
    assert verdict.blessed
    assert verdict.notes[0].startswith(f"The baseline model {baseline.uri} was excluded from the comparison: ")
    step.save(lambda x: tf.sigmoid(-x), "baseline")
    verdict, _ = step.run(overrides=overrides(labels={"": "y"}))
    assert verdict.notes == ()
    assert "auc_diff" in read_evaluation(str(step.folder / "evaluation")).metrics["eval"]


def configured(metric: dict[str, Any]) -> str:
    """Returns the execution property of a `tfma.EvalConfig` with one metric."""
    return json.dumps({"model_specs": [{"label_key": "y"}], "metrics_specs": [{"metrics": [metric]}]})


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ({"class_name": "BinaryAccuracy"}, "it has none"),
        pytest.param(
            {
                "class_name": "Calibration",
                "threshold": {"change_threshold": {"absolute": 0.0, "direction": "HIGHER_IS_BETTER"}},
            },
            "none applies without a baseline model",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_model_is_blessed_by_an_eval_config_without_thresholds(metric: dict[str, Any], why: str, step: Step) -> None:
    step.save(tf.sigmoid)
    verdict, blessing = step.run(eval_config=configured(metric))
    assert (verdict.blessed, verdict.has_threshold) == (True, False)
    assert verdict.reason == f"No quality threshold in the EvalConfig: {why}"
    assert blessing.get_int_custom_property("blessed") == 1
    assert (step.folder / "blessing" / "BLESSED").exists()


AT_MOST_9 = {"value_threshold": {"upper_bound": 9.0}}


@pytest.mark.parametrize(
    ("function", "properties", "metric", "trivial"),
    [
        (lambda x: 0.0 * x + 0.5, {"task": "regression"}, "mean_squared_error", "the mean"),
        (
            lambda x: 0.0 * x + 0.5,
            {"eval_config": {"class_name": "MeanAbsoluteError", "threshold": AT_MOST_9}},
            "mean_absolute_error",
            "the median",
        ),
        pytest.param(
            lambda x: tf.sigmoid(tf.abs(x) + 3.0),
            {"eval_config": {"class_name": "BinaryAccuracy", "threshold": {"value_threshold": {"lower_bound": 0.1}}}},
            "binary_accuracy",
            "the majority class",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_trivial_model_is_blessed_only_if_that_is_allowed(
    function: Any, properties: dict[str, Any], metric: str, trivial: str, step: Step
) -> None:
    step.save(function)
    if "eval_config" in properties:
        properties = {"eval_config": configured(properties["eval_config"])}
    else:
        properties = {"overrides": overrides(labels={"": "y"}, **properties)}
    for allowed in (False, True):
        verdict, blessing = step.run(**properties, allow_trivial=int(allowed))
        assert verdict.blessed == allowed
        assert blessing.get_int_custom_property("blessed") == int(allowed)
        [text] = verdict.notes if allowed else [verdict.reason]
        assert text.startswith(f"{metric} is ")
        assert f"for a model that always predicts {trivial}: the model is not better than that" in text
    assert list(read_evaluation(str(step.folder / "evaluation")).metrics["eval"])[-1] != f"{metric}_over_trivial"


def test_a_threshold_on_a_slice_without_examples_is_named(step: Step) -> None:
    step.save(tf.sigmoid)
    slices = [{"feature_values": {"x": "none"}}]
    threshold = {"slicing_specs": slices, "threshold": {"value_threshold": {"lower_bound": 0.1}}}
    config = json.loads(configured({"class_name": "AUC", "per_slice_thresholds": [threshold]}))
    verdict, _ = step.run(eval_config=json.dumps({**config, "slicing_specs": slices}))
    assert (verdict.blessed, verdict.reason) == (False, "no example is in the slice x=none, which has a threshold")
    assert verdict.notes == ("The model was not compared with a trivial model, as no auc of all examples is computed",)


def test_a_difference_from_the_trivial_model_within_chance_is_a_warning(step: Step) -> None:
    step.save(lambda x: 0.55 + 0.02 * x)
    verdict, _ = step.run(overrides=overrides(labels={"": "y"}, task="regression"))
    assert verdict.blessed
    [note] = verdict.notes
    assert "for a model that always predicts the mean: the 95 % interval of the difference, -0.0" in note
    assert note.endswith(", includes 0")


def test_the_auc_of_an_eval_config_is_by_rank(step: Step) -> None:
    step.save(lambda x: tf.sigmoid(2.0 * x + 12.0))  # between the last two of TFMA's thresholds
    columns = [
        tf.train.Example.FromString(one.numpy()).features.feature
        for one in tf.data.TFRecordDataset(str(step.folder / "examples" / "Split-eval" / "data.gz"), "GZIP")
    ]
    labels = [one["y"].int64_list.value[0] for one in columns]
    x = np.array([one["x"].float_list.value[0] for one in columns], np.float32)
    area = roc_auc_score(labels, tf.sigmoid(2.0 * x + 12.0).numpy())
    for lowest, missed in (
        (area - 1e-3, ""),
        (area + 1e-3, f"auc is {area:.4g}, but must be at least {area + 1e-3:g}"),
    ):
        threshold = {"value_threshold": {"lower_bound": lowest}}
        verdict, blessing = step.run(eval_config=configured({"class_name": "AUC", "threshold": threshold}))
        assert (verdict.blessed, verdict.reason) == (not missed, missed)
        assert blessing.get_int_custom_property("blessed") == int(not missed)


def test_a_guessed_output_is_evaluated_but_not_blessed(step: Step) -> None:
    step.save(lambda x: {"level": tf.sigmoid(x), "high": tf.sigmoid(x + 1.0)})
    verdict, blessing = step.run(overrides=overrides(labels={"": "y"}))
    assert (verdict.blessed, blessing.get_int_custom_property("blessed")) == (False, 0)
    text = "the evaluated output high is a guess: nothing shows which of the outputs high, level the training fitted"
    assert verdict.reason == f"{text}; set --eval-output"
    assert "auc" in read_evaluation(str(step.folder / "evaluation")).metrics["eval"]
    verdict, _ = step.run(overrides=overrides(labels={"": "y"}, output="level"))
    assert (verdict.blessed, verdict.plan["outputs"][0]["output"]) == (True, "level")


ABOVE_CHANCE = {"class_name": "AUC", "threshold": {"value_threshold": {"lower_bound": 0.5}}}


@pytest.mark.parametrize(
    "properties", [{"overrides": overrides(labels={"": "y"})}, {"eval_config": configured(ABOVE_CHANCE)}]
)
def test_a_model_whose_answers_depend_on_the_batch_is_no_baseline(properties: dict[str, str], step: Step) -> None:
    step.save(tf.sigmoid)
    step.inputs["model"][0].set_string_custom_property("batch_dependence", "found that y is 1 alone, but 2 in a batch")
    blessings = step.folder / "blessing"
    for allowed in (0, 1):
        verdict, blessing = step.run(**properties, allow_batch_dependent=allowed)
        assert (verdict.blessed, blessing.get_int_custom_property("blessed")) == (bool(allowed), allowed)
        assert [path.name for path in blessings.iterdir()] == ["BLESSED" if allowed else "NOT_BLESSED"]
        assert ("found that y is 1 alone, but 2 in a batch. If the" in verdict.reason) == (not allowed)


def test_all_reasons_to_keep_a_model_back_are_given(step: Step) -> None:
    step.save(lambda x: tf.sigmoid(-x))
    step.inputs["model"][0].set_string_custom_property("batch_dependence", "found that y is 1 alone, but 2 in a batch")
    verdict, _ = step.run(overrides=overrides(labels={"": "y"}))
    assert not verdict.blessed
    assert verdict.reason.startswith("auc is ")
    assert "; the model's check found that y is 1 alone" in verdict.reason


def test_the_component_accepts_the_inputs_of_a_plan() -> None:
    from tfx.types import Channel

    evaluator = Evaluator(
        Channel(type=standard_artifacts.Examples),
        Channel(type=standard_artifacts.Model),
        model_run=Channel(type=standard_artifacts.ModelRun),
        overrides=Overrides({"": "y"}, task="binary"),
        slice_by=["hour"],
        threshold_slack=0.01,
    )
    assert evaluator.id == "Evaluator"
    assert set(evaluator.inputs) == {"examples", "model", "model_run"}
    assert set(evaluator.outputs) == {"evaluation", "blessing"}
    assert json.loads(evaluator.exec_properties["overrides"])["task"] == "binary"
    assert json.loads(evaluator.exec_properties["slice_by"]) == ["hour"]
