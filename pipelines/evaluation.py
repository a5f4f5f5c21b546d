"""The Evaluator's configuration for a model of which only the label and the module's source are known.

TFMA must be told what the label is, which metrics mean something for it, and which of the model's answers they are
computed from. A person reads the last two off the source; so do `task_of` and `predictions_of`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from google.protobuf import json_format
from tensorflow_model_analysis.proto import config_pb2

from ..executors.errors import InputError
from ..executors.estimator.eval_export import LABEL, LABEL_SIGNATURE
from ..executors.layouts import read_json_object
from ..executors.module_source import parsed
from .estimator_predictions import Predictions

TASKS = ("auto", "binary", "multiclass", "regression")

# Metric classes of TFMA; the first of each decides, with its direction, whether a model is blessed.
_METRICS = {
    "binary": ("AUC", "BinaryAccuracy", "BinaryCrossEntropy", "Calibration", "ExampleCount"),
    "multiclass": ("SparseCategoricalAccuracy", "SparseCategoricalCrossentropy", "ExampleCount"),
    "regression": ("MeanSquaredError", "MeanAbsoluteError", "ExampleCount"),
    "unknown": ("ExampleCount",),
}
_HIGHER_IS_BETTER = {"AUC": True, "SparseCategoricalAccuracy": True, "MeanSquaredError": False}
_SIGNS = {
    "multiclass": ("sparsecategorical", "sparse_categorical", "categoricalcrossentropy", "sparse_softmax"),
    "binary": ("binarycrossentropy", "binary_crossentropy", "sigmoid_cross_entropy", "binaryaccuracy", "auc"),
    "regression": ("meansquarederror", "mean_squared_error", "meanabsoluteerror", "mse", "huber", "poisson"),
}
_TRANSFORM_SIGNATURE = "transform_features"


def task_of(files: Sequence[str]) -> str:
    """Returns "binary", "multiclass", "regression" or "unknown", by the losses that source files name."""
    names = {name.lower() for file in files for name in _names_in(file)}
    for task, signs in _SIGNS.items():
        if any(name == sign if len(sign) < 5 else sign in name for name in names for sign in signs):
            return task
    return "unknown"


def exports_transform_signature(files: Sequence[str]) -> bool:
    """Returns whether the module gives its model a `transform_features` signature, as TFX's examples do."""
    return any(name == _TRANSFORM_SIGNATURE for file in files for name in _names_in(file))


def eval_config(
    label: str,
    task: str,
    *,
    transform_features: bool = False,
    estimator: Predictions | None = None,
    slice_by: Sequence[str] = (),
    worst_loss: float = 0.0,
) -> config_pb2.EvalConfig:
    """Returns a TFMA configuration: metrics for the task, and one threshold that blesses or refuses.

    Args:
      label: The label's feature name: in the raw examples, or among the transformed features.
      task: One of `TASKS` but "auto", or "unknown".
      transform_features: Whether TFMA gets features and label through the model's signature
        `transform_features`.
      estimator: What the module's Estimator predicts, if it has one.
      slice_by: Features; metrics are computed for each of their values as well.
      worst_loss: By how much the task's first metric may be worse than the last blessed model's.
    """
    if estimator is not None:
        model_spec = _estimator_spec(label, estimator)
    else:
        model_spec = config_pb2.ModelSpec(signature_name="serving_default", label_key=label)
        if transform_features:
            model_spec.preprocessing_function_names.append(_TRANSFORM_SIGNATURE)
    metrics = []
    for number, name in enumerate(_METRICS[task]):
        metric = config_pb2.MetricConfig(class_name=name)
        if number == 0 and name in _HIGHER_IS_BETTER:
            # A slice of few examples has an AUC by chance: slices inform, all examples together decide.
            over_all = config_pb2.PerSliceMetricThreshold(
                slicing_specs=[config_pb2.SlicingSpec()], threshold=_threshold(name, worst_loss)
            )
            metric.per_slice_thresholds.append(over_all)
        metrics.append(metric)
    slices = [config_pb2.SlicingSpec(feature_keys=[feature]) for feature in slice_by]
    return config_pb2.EvalConfig(
        model_specs=[model_spec],
        slicing_specs=[config_pb2.SlicingSpec(), *slices],
        metrics_specs=[config_pb2.MetricsSpec(metrics=metrics)],
    )


def read_eval_config(path: str) -> config_pb2.EvalConfig:
    """Reads an EvalConfig from a JSON file.

    Raises:
      InputError: When the file is missing or is no EvalConfig.
    """
    values = read_json_object(path, "--eval-config")
    try:
        return json_format.ParseDict(values, config_pb2.EvalConfig())
    except json_format.ParseError as error:
        raise InputError(f"--eval-config {path} is not a tfma.EvalConfig in JSON: {error}") from error


def _estimator_spec(label: str, estimator: Predictions) -> config_pb2.ModelSpec:
    """Returns where TFMA finds an Estimator's predictions and labels.

    Without a signature's name TFMA takes `predict` if the model has it, else `serving_default`. An Estimator that
    comes with a receiver for the evaluation is evaluated through it, as TFX has it: by the model in `Format-TFMA`.
    """
    if not estimator.labelled:
        return config_pb2.ModelSpec(label_key=label, prediction_key=estimator.key)
    return config_pb2.ModelSpec(
        model_type="tfma_eval",
        preprocessing_function_names=[LABEL_SIGNATURE],
        label_key=LABEL,
        prediction_key=estimator.key,
    )


def _threshold(name: str, worst_loss: float) -> config_pb2.MetricThreshold:
    """Not worse than the blessed model; and, where there is a natural bound, better than guessing."""
    higher = _HIGHER_IS_BETTER[name]
    direction = config_pb2.MetricDirection.Value("HIGHER_IS_BETTER" if higher else "LOWER_IS_BETTER")
    change = config_pb2.GenericChangeThreshold(direction=direction)
    change.absolute.value = -worst_loss if higher else worst_loss
    threshold = config_pb2.MetricThreshold(change_threshold=change)
    if name == "AUC":
        threshold.value_threshold.lower_bound.value = 0.5
    elif higher:
        threshold.value_threshold.lower_bound.value = 0.0
    else:
        threshold.value_threshold.upper_bound.value = 1e30
    return threshold


def _names_in(path: str) -> list[str]:
    names = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        elif isinstance(node, ast.Name):
            names.append(node.id)
        elif isinstance(node, ast.keyword) and node.arg:
            names.append(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 60:
            names.append(node.value)
    return names
