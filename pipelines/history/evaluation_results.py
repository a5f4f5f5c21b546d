"""Reads TFMA's results as plain values: metrics over all examples and by slice, and missed thresholds."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...executors.evaluation.blessing import OVER_TRIVIAL
from ...executors.evaluation.plots import OutputPlots
from ...executors.evaluation.verdict import Verdict, read_verdict
from ...executors.monitoring.metrics import Metrics
from ...executors.runtime.files import file_io
from .evaluation_plots import read_plots

ALL = "all examples"


@dataclasses.dataclass(frozen=True)
class Measure:
    """A metric's value, with its confidence interval (lower, upper) if TFMA computed one."""

    value: float
    interval: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """TFMA's results of one evaluation.

    Attributes:
      slices: {slice: {metric: measure}}; "all examples" is the first.
      failures: Missed thresholds: (slice, metric, reason).
      verdict: This project's verdict with its reason; None for an evaluation by TFX's Evaluator.
      plots: Predictions compared with labels, for each output with plots.
    """

    slices: Mapping[str, Mapping[str, Measure]]
    failures: Sequence[tuple[str, str, str]] = ()
    verdict: Verdict | None = None
    plots: Sequence[OutputPlots] = ()

    @property
    def metrics(self) -> Metrics:
        """The metrics over all examples in the run record's form, {"eval": {name: value}}; {} if there are none."""
        overall = self.slices.get(ALL, {})
        return {"eval": {name: measure.value for name, measure in overall.items()}} if overall else {}


def read_evaluation(folder: str) -> Evaluation:
    """Reads a ModelEvaluation artifact.

    Imports TFMA unless there are no results, which takes seconds if TensorFlow is not imported yet.
    """
    verdict = read_verdict(folder)
    if not file_io.exists(os.path.join(folder, "eval_config.json")):
        return Evaluation({}, verdict=verdict)
    import tensorflow_model_analysis as tfma

    slices: dict[str, dict[str, Measure]] = {}
    for slice_key, outputs in tfma.load_eval_result(folder).slicing_metrics:
        found = slices.setdefault(_slice_name(slice_key), {})
        several = len(outputs) > 1
        for output, by_class in outputs.items():
            for sub_key, by_name in by_class.items():
                for name, value in by_name.items():
                    if OVER_TRIVIAL in name:  # the verdict has it in words
                        continue
                    label = "/".join(filter(None, (output if several else "", name, sub_key)))
                    if (measure := _measure(value)) is not None:
                        found[label] = measure
    ordered = dict(sorted(slices.items(), key=lambda item: _slice_sort_key(item[0])))
    return Evaluation(ordered, list(_failures(folder)), verdict, read_plots(folder))


def _slice_name(key: Iterable[tuple[str, object]]) -> str:
    return ", ".join(f"{feature}={_text(value)}" for feature, value in key) or ALL


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _slice_sort_key(name: str) -> tuple[bool, str, float, str]:
    """Sort key of slices: all examples first, numeric values by number (`hour=2` before `hour=10`)."""
    feature, _, value = name.rpartition("=")
    return name != ALL, feature, float(value) if value.isdecimal() else math.inf, value


def _measure(value: object) -> Measure | None:
    """Returns a metric that is a finite number; None for plots, matrices and undefined values."""
    if not isinstance(value, dict):
        return None
    bounded = value.get("boundedValue")
    numbers = [(bounded or {}).get(name, 0.0) for name in ("value", "lowerBound", "upperBound")]
    if bounded and all(map(_is_finite, numbers)):
        return Measure(float(numbers[0]), (float(numbers[1]), float(numbers[2])))
    number = value.get("doubleValue")
    return Measure(float(number)) if number is not None and _is_finite(number) else None


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _failures(folder: str) -> Iterator[tuple[str, str, str]]:
    import tensorflow_model_analysis as tfma

    try:
        result = tfma.load_validation_result(folder)
    except (FileNotFoundError, OSError, ValueError):  # no validation result: an evaluation without thresholds
        return
    for one in result.metric_validations_per_slice:
        key = [
            (single.column, single.WhichOneof("kind") and getattr(single, single.WhichOneof("kind")))
            for single in one.slice_key.single_slice_keys
        ]
        for failure in one.failures:
            name, message = failure.metric_key.name, failure.message
            if name.endswith(OVER_TRIVIAL):
                name, message = name.removesuffix(OVER_TRIVIAL), "not better than a trivial model"
            yield _slice_name(key), name, message
