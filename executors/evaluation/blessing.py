"""Describes the thresholds that a model missed in TFMA's validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow_model_analysis.proto.config_pb2 import SlicingSpec
    from tensorflow_model_analysis.proto.validation_result_pb2 import MetricsValidationForSlice, ValidationFailure

    from .trivial_comparison import Comparison


OVER_TRIVIAL = "_over_trivial"  # suffix of the metric's name: its value minus that of the trivial model


def missed_thresholds(folder: str, comparisons: Mapping[str, Comparison]) -> list[str]:
    """Returns a text such as "auc is 0.48, but must be at least 0.5" for each missed threshold; [] if none was missed.

    Args:
      folder: The folder with TFMA's results.
      comparisons: The comparisons with trivial models; see `comparisons_in`.
    """
    import tensorflow_model_analysis as tfma

    result = tfma.load_validation_result(folder)
    if result is None or result.validation_ok:
        return []
    texts = [
        text
        for one in result.metric_validations_per_slice
        for failure in one.failures
        for text in _texts(failure, _slice(one), comparisons)
    ]
    texts += [f"no example is in the slice {_spec(spec)}, which has a threshold" for spec in result.missing_slices]
    return texts or ["TFMA's validation failed"]


def _slice(validation: MetricsValidationForSlice) -> str:
    """Returns a text such as " for hour=3"; "" for all examples."""
    keys = [(key.column, getattr(key, key.WhichOneof("kind"))) for key in validation.slice_key.single_slice_keys]
    values = [f"{name}={value.decode() if isinstance(value, bytes) else value}" for name, value in keys]
    return f" for {', '.join(values)}" if values else ""


def _spec(spec: SlicingSpec) -> str:
    """Returns a text such as "hour=3, day"."""
    return ", ".join([*(f"{name}={value}" for name, value in spec.feature_values.items()), *spec.feature_keys])


def _texts(failure: ValidationFailure, sliced: str, comparisons: Mapping[str, Comparison]) -> Iterator[str]:
    metric = "/".join(filter(None, (failure.metric_key.output_name, failure.metric_key.name)))
    if metric in comparisons:
        yield f"{comparisons[metric].text} (--allow-trivial pushes it anyway)"
        return
    name = f"{metric.removesuffix('_diff')}{sliced}"
    value = failure.metric_value.double_value.value
    if failure.metric_key.is_diff:
        change = f"{value:+.4g}{_bound_of_change(failure)}"
        yield f"{name} differs from the baseline model's by {change}"
        return
    bounds = failure.metric_threshold.value_threshold
    if failure.message:
        yield f"{name}: {failure.message.strip()}"
    elif bounds.HasField("lower_bound") and not value >= bounds.lower_bound.value:
        yield f"{name} is {value:.4g}, but must be at least {bounds.lower_bound.value:g}"
    elif bounds.HasField("upper_bound") and not value <= bounds.upper_bound.value:
        yield f"{name} is {value:.4g}, but must be at most {bounds.upper_bound.value:g}"
    else:
        yield f"{name} is {value:.4g}"


def _bound_of_change(failure: ValidationFailure) -> str:
    change = failure.metric_threshold.change_threshold
    if not change.HasField("absolute"):
        return ""
    return f" (limit: {change.absolute.value:+g})"
