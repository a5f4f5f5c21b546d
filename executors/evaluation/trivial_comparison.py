"""Compares a model with the trivial model on the deciding metrics; a threshold keeps models back that are no better.

compared, notes = with_comparisons(config, allow_trivial=False)
…  # TFMA evaluates with the configuration
for comparison in comparisons_in(folder, compared).values():
    print(comparison.text)
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping

import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.metrics.metric_specs import metric_instance
from tensorflow_model_analysis.proto import config_pb2

from .blessing import OVER_TRIVIAL
from .corrected_metrics import MERGED, RankedAUCPrecisionRecall
from .over_trivial import OverTrivial
from .trivial_models import TRIVIAL_MODELS, TrivialModel

_OFF = {"from_logits": False, "label_smoothing": 0.0, "class_id": None, "top_k": None}  # unsupported options of metrics
_OVERALL = config_pb2.SlicingSpec()


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A metric of a model and of the trivial model over all examples.

    Attributes:
      metric: The metric, such as "price/auc".
      value: The model's value.
      difference: The model's value minus the trivial model's.
      interval: The 95 % interval of the difference; None if it is not known.
      trivial: The trivial model.
    """

    metric: str
    value: float
    difference: float
    interval: tuple[float, float] | None
    trivial: TrivialModel

    @property
    def is_better(self) -> bool:
        """Whether the model is better than the trivial model."""
        return self.difference > 0 if self.trivial.higher_is_better else self.difference < 0

    @property
    def text(self) -> str:
        """Both values with the conclusion; "" if the model is better beyond chance, as far as is known."""
        values = (
            f"{self.metric} is {self.value:.4g}, and {self.value - self.difference:.4g} for a model that always "
            f"predicts {self.trivial.name}"
        )
        if self.trivial.needs_both_labels and self.value == self.difference == 0:
            return f"{self.metric} is not defined: the labels of all evaluated examples are equal"
        if not self.is_better:
            return f"{values}: the model is not better than that"
        if self.interval is None or not self.interval[0] <= 0 <= self.interval[1]:
            return ""
        low, high = self.interval
        return f"{values}: the 95 % interval of the difference, {low:.4g} to {high:.4g}, includes 0"


def with_comparisons(
    config: config_pb2.EvalConfig, *, allow_trivial: bool
) -> tuple[config_pb2.EvalConfig, tuple[str, ...]]:
    """Returns a user's configuration with a comparison for each metric that has a threshold.

    Also returns a sentence for each of these metrics without a comparison.

    Args:
      config: The configuration, after `corrected`.
      allow_trivial: Whether models that are no better are blessed.
    """
    compared = config_pb2.EvalConfig()
    compared.CopyFrom(config)
    notes: list[str] = []
    for spec in compared.metrics_specs:
        for metric in [metric for metric in spec.metrics if _has_threshold(metric, spec)]:
            comparison = comparison_of(metric, allow_trivial=allow_trivial)
            has_overall = _OVERALL in (config.slicing_specs or [_OVERALL])
            if comparison is None or not _is_simple(spec) or not has_overall:
                name = metric_instance(metric).name
                why = f"whose {name} is not known" if has_overall else f"as no {name} of all examples is computed"
                notes.append(f"The model was not compared with a trivial model, {why}")
            else:
                spec.metrics.append(comparison)
    return compared, tuple(notes)


def comparison_of(metric: config_pb2.MetricConfig, *, allow_trivial: bool) -> config_pb2.MetricConfig | None:
    """Returns the metric that compares a metric with its trivial value; None if that is not known.

    Args:
      metric: The metric, after `corrected`.
      allow_trivial: Whether models that are no better are blessed.
    """
    instance = metric_instance(metric)
    options = instance.get_config()
    is_pr = str(options.get("curve")).upper() == "PR"
    name = RankedAUCPrecisionRecall.__name__ if is_pr else metric.class_name.removeprefix(MERGED)
    if name not in TRIVIAL_MODELS or any(options.get(option) not in (None, off) for option, off in _OFF.items()):
        return None
    config: dict[str, object] = {"metric": name, "name": f"{instance.name}{OVER_TRIVIAL}"}
    if isinstance(options.get("threshold"), float):
        config["threshold"] = options["threshold"]
    comparison = config_pb2.MetricConfig(
        class_name=OverTrivial.__name__, module=OverTrivial.__module__, config=json.dumps(config)
    )
    if not allow_trivial:
        threshold = config_pb2.MetricThreshold(value_threshold=_better_than_zero(TRIVIAL_MODELS[name]))
        comparison.per_slice_thresholds.add(slicing_specs=[_OVERALL], threshold=threshold)
    return comparison


def comparisons_in(folder: str, config: config_pb2.EvalConfig) -> dict[str, Comparison]:
    """Returns {"output/metric_over_trivial": comparison}, from TFMA's results in a folder.

    Args:
      folder: The folder.
      config: The configuration of the evaluation, with comparisons.
    """
    metrics = [metric for spec in config.metrics_specs for metric in spec.metrics]
    options = [json.loads(metric.config) for metric in metrics if metric.class_name == OverTrivial.__name__]
    trivial = {one["name"]: TRIVIAL_MODELS[one["metric"]] for one in options}
    overall = [outputs for key, outputs in tfma.load_eval_result(folder).slicing_metrics if not key]
    return {
        "/".join(filter(None, (output, name))): _comparison(output, name, values, trivial[name])
        for outputs in overall
        for output, by_class in outputs.items()
        for values in by_class.values()
        for name in values
        if name in trivial
    }


def _comparison(
    output: str, name: str, values: Mapping[str, Mapping[str, object]], trivial: TrivialModel
) -> Comparison:
    metric = name.removesuffix(OVER_TRIVIAL)
    (value, _), (difference, interval) = _measured(values[metric]), _measured(values[name])
    return Comparison("/".join(filter(None, (output, metric))), value, difference, interval, trivial)


def _measured(state: Mapping[str, object]) -> tuple[float, tuple[float, float] | None]:
    bounded = state.get("boundedValue")
    if not isinstance(bounded, Mapping):
        return float(str(state.get("doubleValue"))), None
    value, low, high = (float(str(bounded.get(name, 0.0))) for name in ("value", "lowerBound", "upperBound"))
    return value, (low, high)


def _better_than_zero(trivial: TrivialModel) -> config_pb2.GenericValueThreshold:
    bounds, smallest = config_pb2.GenericValueThreshold(), sys.float_info.min
    if trivial.higher_is_better:
        bounds.lower_bound.value = smallest
    else:
        bounds.upper_bound.value = -smallest
    return bounds


def _has_threshold(metric: config_pb2.MetricConfig, spec: config_pb2.MetricsSpec) -> bool:
    own = metric.HasField("threshold") or metric.per_slice_thresholds or metric.cross_slice_thresholds
    of_spec = {*spec.thresholds, *spec.per_slice_thresholds, *spec.cross_slice_thresholds}
    return bool(own) or metric_instance(metric).name in of_spec


def _is_simple(spec: config_pb2.MetricsSpec) -> bool:
    """Whether a metric is one number for each output, computed from single examples."""
    return not (spec.query_key or spec.output_weights or spec.HasField("aggregate") or spec.HasField("binarize"))
