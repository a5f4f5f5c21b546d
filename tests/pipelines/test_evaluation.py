"""The Evaluator's configuration, read off a module's source."""

from __future__ import annotations

import pathlib

import pytest
from google.protobuf import json_format
from tensorflow_model_analysis.proto import config_pb2

from generic_trainer import InputError
from generic_trainer.pipelines import evaluation

MODULES = pathlib.Path(__file__).resolve().parent.parent.parent / "module_files"


@pytest.mark.parametrize(
    ("source", "task"),
    [
        ("model.compile(loss='binary_crossentropy')", "binary"),
        ("loss = keras.losses.BinaryCrossentropy(from_logits=True)", "binary"),
        ("loss=tf.keras.losses.SparseCategoricalCrossentropy()", "multiclass"),
        ("tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)", "multiclass"),
        ("model.compile(loss='mse')", "regression"),
        ("loss = tf.keras.losses.MeanSquaredError()", "regression"),
        ("responses = loss(y, y_)", "unknown"),
        ("def run_fn(:", "unknown"),
    ],
)
def test_the_task_is_read_off_the_loss(source: str, task: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.py").write_text(source)
    assert evaluation.task_of([str(tmp_path / "m.py")]) == task


def test_the_example_modules_are_understood() -> None:
    tasks = {path.stem: evaluation.task_of([str(path)]) for path in MODULES.glob("*_*.py") if path.stem[0] != "_"}
    assert tasks == {"taxi_keras": "binary", "iris_keras": "multiclass", "digits_custom_loop": "multiclass"}
    assert evaluation.exports_transform_signature([str(MODULES / "taxi_keras.py")])
    assert not evaluation.exports_transform_signature([str(MODULES / "iris_keras.py")])


def test_the_first_metric_may_not_be_worse_than_the_blessed_models() -> None:
    config = evaluation.eval_config("big_tip", "binary", transform_features=True, worst_loss=0.01)
    [spec] = config.model_specs
    assert (spec.label_key, spec.signature_name) == ("big_tip", "serving_default")
    assert list(spec.preprocessing_function_names) == ["transform_features"]
    auc, *others = config.metrics_specs[0].metrics
    assert auc.class_name == "AUC"
    assert auc.threshold.value_threshold.lower_bound.value == 0.5
    assert auc.threshold.change_threshold.absolute.value == -0.01
    assert not any(metric.HasField("threshold") for metric in others)
    error = evaluation.eval_config("price", "regression", worst_loss=0.1).metrics_specs[0].metrics[0]
    assert error.threshold.change_threshold.direction == config_pb2.MetricDirection.Value("LOWER_IS_BETTER")
    assert error.threshold.change_threshold.absolute.value == 0.1
    assert [m.class_name for m in evaluation.eval_config("x", "unknown").metrics_specs[0].metrics] == ["ExampleCount"]


def test_a_configuration_of_ones_own(tmp_path: pathlib.Path) -> None:
    config = evaluation.eval_config("big_tip", "binary")
    (tmp_path / "eval.json").write_text(json_format.MessageToJson(config))
    assert evaluation.read_eval_config(str(tmp_path / "eval.json")) == config
    wrong = {"{": "is not JSON", '{"metric": 1}': "is not a tfma.EvalConfig in JSON", "[]": "must hold a JSON object"}
    for broken, text in wrong.items():
        (tmp_path / "eval.json").write_text(broken)
        with pytest.raises(InputError, match=f"eval.json {text}"):
            evaluation.read_eval_config(str(tmp_path / "eval.json"))
