"""Describes the thresholds that a model missed in TFMA's validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow_model_analysis.proto.validation_result_pb2 import ValidationFailure


def missed_thresholds(folder: str) -> list[str]:
    """Returns a text such as "auc is 0.48, but must be at least 0.5" for each missed threshold; [] if none was missed.

    Args:
      folder: The folder with TFMA's results.
    """
    import tensorflow_model_analysis as tfma

    result = tfma.load_validation_result(folder)
    if result is None or result.validation_ok:
        return []
    failures = [failure for one in result.metric_validations_per_slice for failure in one.failures]
    return [text for failure in failures for text in _texts(failure)] or ["TFMA's validation failed"]


def _texts(failure: ValidationFailure) -> Iterator[str]:
    name = "/".join(filter(None, (failure.metric_key.output_name, failure.metric_key.name)))
    value = failure.metric_value.double_value.value
    if failure.metric_key.is_diff:
        change = f"{value:+.4g}{_bound_of_change(failure)}"
        yield f"{name.removesuffix('_diff')} differs from the baseline model's by {change}"
        return
    bounds = failure.metric_threshold.value_threshold
    if bounds.HasField("lower_bound") and not value >= bounds.lower_bound.value:
        yield f"{name} is {value:.4g}, but must be at least {bounds.lower_bound.value:g}"
    elif bounds.HasField("upper_bound") and not value <= bounds.upper_bound.value:
        yield f"{name} is {value:.4g}, but must be at most {bounds.upper_bound.value:g}"
    else:
        yield f"{name} is {value:.4g}: {failure.message.strip()}"


def _bound_of_change(failure: ValidationFailure) -> str:
    change = failure.metric_threshold.change_threshold
    if not change.HasField("absolute"):
        return ""
    return f" (limit: {change.absolute.value:+g})"
