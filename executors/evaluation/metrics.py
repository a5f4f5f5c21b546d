"""Makes TFMA's EvalConfig for a plan: metrics and plots for each task, and the threshold for blessing a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
from google.protobuf import json_format
from tensorflow_model_analysis.metrics.metric_specs import metric_thresholds_from_metrics_specs
from tensorflow_model_analysis.proto import config_pb2

from ..errors import InputError
from ..runtime.files.artifact_files import read_json_object
from .corrected_metrics import corrected
from .plan import (
    BINARY,
    MULTICLASS,
    MULTILABEL,
    REGRESSION,
    EvaluationPlan,
    OutputPlan,
)
from .trivial_comparison import comparison_of

EXAMPLE_COUNT = "example_count"

# Metric classes of TFMA and Keras; the threshold for blessing is on the first one of the task.
_METRICS = {
    BINARY: ("AUC", "BinaryAccuracy", "BinaryCrossentropy", "Calibration"),
    MULTICLASS: ("SparseCategoricalAccuracy", "SparseCategoricalCrossentropy"),
    MULTILABEL: ("AUC", "BinaryAccuracy"),
    REGRESSION: ("MeanSquaredError", "MeanAbsoluteError"),
}
# Plot classes of TFMA, with its defaults: 1,000 thresholds or buckets, and one threshold for several classes.
_PLOTS = {BINARY: ("ConfusionMatrixPlot", "CalibrationPlot"), MULTICLASS: ("MultiClassConfusionMatrixPlot",)}
_HIGHER_IS_BETTER = {"AUC": True, "SparseCategoricalAccuracy": True, "MeanSquaredError": False}


def has_threshold(plan: EvaluationPlan) -> bool:
    """Whether the first output has a label and a task with metrics, so that a threshold decides about blessing."""
    return not plan.problem and any(_has_metrics(one) for one in plan.outputs[:1])


def has_thresholds(config: config_pb2.EvalConfig) -> bool:
    """Whether a configuration, with TFMA's defaults for whether there is a baseline, has a threshold."""
    return bool(metric_thresholds_from_metrics_specs(config.metrics_specs, eval_config=config))


def eval_config(
    plan: EvaluationPlan,
    *,
    slice_by: Sequence[str] = (),
    max_degradation: float = 0.0,
    allow_trivial: bool = False,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> config_pb2.EvalConfig:
    """Returns a TFMA configuration; see `corrected`.

    It has metrics and plots for each output, a threshold on the first output's first metric, and one for each output's
    first metric that the model must be better than the trivial model.

    Args:
      plan: The evaluation plan.
      slice_by: Features; metrics are computed for each of their values too.
      max_degradation: How much worse than the last blessed model's the first metric may be, as an absolute difference.
      allow_trivial: Whether models that are no better than the trivial model are blessed.
      ranges: {output of a REGRESSION task: range of its values, see `value_ranges`}; others have no calibration plot.
    """
    several = len(plan.outputs) > 1
    specs = [config_pb2.MetricsSpec(metrics=[config_pb2.MetricConfig(class_name="ExampleCount")])]
    for number, one in enumerate(plan.outputs):
        if _has_metrics(one):
            metrics = [config_pb2.MetricConfig(class_name=name) for name in _METRICS[one.task]]
            if number == 0:
                # Only the overall slice has a threshold: metrics of slices with few examples are too noisy.
                threshold = config_pb2.PerSliceMetricThreshold(
                    slicing_specs=[config_pb2.SlicingSpec()],
                    threshold=_threshold(metrics[0].class_name, max_degradation),
                )
                metrics[0].per_slice_thresholds.append(threshold)
            metrics += _plots(one, ranges or {})
            specs.append(config_pb2.MetricsSpec(output_names=[one.output] if several else [], metrics=metrics))
    slices = [config_pb2.SlicingSpec(feature_keys=[feature]) for feature in slice_by]
    config = config_pb2.EvalConfig(
        model_specs=[config_pb2.ModelSpec(signature_name=plan.signature)],
        slicing_specs=[config_pb2.SlicingSpec(), *slices],
        metrics_specs=specs,
    )
    result = corrected(config)
    for spec in result.metrics_specs[1:]:
        if comparison := comparison_of(spec.metrics[0], allow_trivial=allow_trivial):
            spec.metrics.append(comparison)
    return result


def value_ranges(plan: EvaluationPlan, scores: Mapping[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """Returns {output of a REGRESSION task: range for its calibration plot} from the values for some examples.

    The range is three times as wide as that of the values, because other examples can have other values. Outputs with
    only one value or with infinite values are left out.
    """
    ranges = {}
    for one in plan.outputs:
        low, high = float(scores[one.output].min()), float(scores[one.output].max())
        width = high - low
        if one.task == REGRESSION and 0 < width < np.inf:
            ranges[one.output] = (low - width, high + width)
    return ranges


def read_eval_config(path: str) -> config_pb2.EvalConfig:
    """Reads an EvalConfig from a JSON file.

    Raises:
      InputError: If the file is missing or is not an EvalConfig.
    """
    values = read_json_object(path, "--eval-config")
    try:
        return json_format.ParseDict(values, config_pb2.EvalConfig())
    except json_format.ParseError as error:
        raise InputError(f"--eval-config {path} is not a tfma.EvalConfig in JSON: {error}") from error


def _has_metrics(one: OutputPlan) -> bool:
    return bool(one.label) and one.task in _METRICS


def _plots(one: OutputPlan, ranges: Mapping[str, tuple[float, float]]) -> list[config_pb2.MetricConfig]:
    if one.output in ranges:
        left, right = ranges[one.output]
        config = json.dumps({"left": left, "right": right})
        return [config_pb2.MetricConfig(class_name="CalibrationPlot", config=config)]
    return [config_pb2.MetricConfig(class_name=name) for name in _PLOTS.get(one.task, ())]


def _threshold(name: str, max_degradation: float) -> config_pb2.MetricThreshold:
    """Returns a threshold that allows the metric to be worse than the blessed model's by at most `max_degradation`.

    The value bound is always met, but without one TFMA does not validate a first model.
    """
    higher = _HIGHER_IS_BETTER[name]
    direction = config_pb2.MetricDirection.Value("HIGHER_IS_BETTER" if higher else "LOWER_IS_BETTER")
    change = config_pb2.GenericChangeThreshold(direction=direction)
    change.absolute.value = -max_degradation if higher else max_degradation
    threshold = config_pb2.MetricThreshold(change_threshold=change)
    if higher:
        threshold.value_threshold.lower_bound.value = 0.0
    else:
        threshold.value_threshold.upper_bound.value = 1e30
    return threshold
