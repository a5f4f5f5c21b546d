"""The Evaluator's configuration, read off a module's source."""

from __future__ import annotations

import pathlib

import pytest
from google.protobuf import json_format
from tensorflow_model_analysis.proto import config_pb2

from generic_trainer import InputError
from generic_trainer.pipelines import evaluation
from generic_trainer.pipelines.estimator_predictions import Predictions, predictions_of

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
        ("loss = tf.losses.mean_squared_error(y, p)\nmetrics = {'a': tf.metrics.auc(y, p)}", "binary"),
        ("responses = loss(y, y_)", "unknown"),
        ("def run_fn(:", "unknown"),
    ],
)
def test_the_task_is_read_off_the_loss(source: str, task: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.py").write_text(source)
    assert evaluation.task_of([str(tmp_path / "m.py")]) == task


def test_the_example_modules_are_understood() -> None:
    tasks = {name: evaluation.task_of([str(MODULES / f"{name}.py")]) for name in ("taxi_keras", "digits_custom_loop")}
    assert tasks == {"taxi_keras": "binary", "digits_custom_loop": "multiclass"}
    assert evaluation.task_of([str(MODULES / "iris_keras.py")]) == "multiclass"
    assert evaluation.exports_transform_signature([str(MODULES / "taxi_keras.py")])
    assert not evaluation.exports_transform_signature([str(MODULES / "iris_keras.py")])


@pytest.mark.parametrize(
    ("source", "predictions"),
    [
        ("tf.estimator.DNNLinearCombinedClassifier(columns)", ("binary", "logistic", False)),
        ("tf.estimator.LinearClassifier(columns, n_classes=2)", ("binary", "logistic", False)),
        ("N = 3\ntf.estimator.DNNClassifier([8], columns, n_classes=N)", ("multiclass", "probabilities", False)),
        ("tf.estimator.DNNClassifier([8], columns, n_classes=len(NAMES))", ("multiclass", "probabilities", False)),
        (
            "from tensorflow import estimator\nestimator.DNNRegressor([8], columns)",
            ("regression", "predictions", False),
        ),
        ("tf.compat.v1.estimator.LinearRegressor(columns)", ("regression", "predictions", False)),
        ("tf.estimator.DNNEstimator(tf.estimator.MultiClassHead(3), [8])", ("multiclass", "probabilities", False)),
        (
            "tf.estimator.Estimator(f)\npredictions = {'classes': c, 'probabilities': p}",
            ("unknown", "probabilities", False),
        ),
        ("tf.estimator.export.PredictOutput({'prob': p, 'score': s})", ("unknown", "score", False)),
        ("tf.keras.estimator.model_to_estimator(model)\ndef trainer_fn(a, b): ...", ("unknown", "", False)),
        (
            "def trainer_fn(a, b):\n  return {'estimator': tf.estimator.DNNClassifier(c), 'eval_input_receiver_fn': f}",
            ("binary", "logistic", True),
        ),
        (
            "class C:\n  classifier_class = tf.estimator.LinearClassifier\n  train_set = {}",
            ("binary", "logistic", False),
        ),
        (
            "class C:\n  train_set = {}\n  classifier_class = 'a.DNNClassifier'\n  params = {'n_classes': 3}",
            ("multiclass", "probabilities", False),
        ),
        (
            "class A(tf.estimator.DNNRegressor):\n  def __init__(self, *a): super().__init__(*a)",
            ("regression", "predictions", False),
        ),
        ("tf.estimator.DNNClassifier(c, n_classes=p['k'])\np = {'k': 2}", ("binary", "logistic", False)),
        ("p = {'n_classes': 3}\ntf.estimator.DNNClassifier(c, **p)", ("multiclass", "probabilities", False)),
        (
            "from deepctr.estimator import DeepFMEstimator\n"
            "class A(tf.estimator.Estimator):\n  f = DeepFMEstimator(wide, deep, task=params['task'])\n"
            "params = {'task': 'regression'}",
            ("regression", "pred", False),
        ),
        (
            "from deepctr.estimator.models import WDLEstimator\nf = WDLEstimator(w, config=tf.estimator.RunConfig())",
            ("binary", "pred", False),
        ),
        (
            "tf.estimator.DNNClassifier(c)\ntfma.export.export_eval_savedmodel(eval_input_receiver_fn=f)",
            ("binary", "logistic", True),
        ),
        (
            "def f(a, b):\n  return {'estimator': tf.estimator.DNNClassifier(c), 'eval_input_receiver_fn': None}",
            ("binary", "logistic", False),
        ),
    ],
)
def test_what_an_estimator_predicts_is_read_off_its_class(
    source: str, predictions: tuple[str, str, bool], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "m.py").write_text(source)
    assert predictions_of([str(tmp_path / "m.py")]) == Predictions(*predictions)


def test_modules_without_an_estimator_predict_as_they_always_did() -> None:
    assert predictions_of([str(MODULES / "taxi_keras.py")]) is None


def test_an_estimators_label_is_a_raw_feature_or_comes_from_its_receiver() -> None:
    raw = Predictions("binary", "logistic", labelled=False)
    [spec] = evaluation.eval_config("big_tip", "binary", estimator=raw).model_specs
    assert (spec.model_type, spec.signature_name, spec.label_key, spec.prediction_key) == (
        "",
        "",
        "big_tip",
        "logistic",
    )
    assert not spec.preprocessing_function_names
    received = Predictions("binary", "logistic", labelled=True)
    [spec] = evaluation.eval_config("big_tip", "binary", estimator=received).model_specs
    assert (spec.model_type, spec.label_key, spec.prediction_key) == ("tfma_eval", "label", "logistic")
    assert list(spec.preprocessing_function_names) == ["transform_features"]


def test_slices_are_beside_the_metrics_over_all() -> None:
    config = evaluation.eval_config("big_tip", "binary", slice_by=["trip_start_hour", "payment_type"])
    assert [list(spec.feature_keys) for spec in config.slicing_specs] == [[], ["trip_start_hour"], ["payment_type"]]


def test_the_first_metric_may_not_be_worse_than_the_blessed_models() -> None:
    config = evaluation.eval_config("big_tip", "binary", transform_features=True, worst_loss=0.01)
    [spec] = config.model_specs
    assert (spec.label_key, spec.signature_name) == ("big_tip", "serving_default")
    assert list(spec.preprocessing_function_names) == ["transform_features"]
    auc, *others = config.metrics_specs[0].metrics
    assert auc.class_name == "AUC"
    [over_all] = auc.per_slice_thresholds
    assert list(over_all.slicing_specs) == [config_pb2.SlicingSpec()]
    assert over_all.threshold.value_threshold.lower_bound.value == 0.5
    assert over_all.threshold.change_threshold.absolute.value == -0.01
    assert not any(metric.HasField("threshold") or metric.per_slice_thresholds for metric in [auc, *others][1:])
    error = evaluation.eval_config("price", "regression", worst_loss=0.1).metrics_specs[0].metrics[0]
    change = error.per_slice_thresholds[0].threshold.change_threshold
    assert change.direction == config_pb2.MetricDirection.Value("LOWER_IS_BETTER")
    assert change.absolute.value == 0.1
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
