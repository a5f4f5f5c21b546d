"""Puts metrics of this package in place of those of TFMA that return wrong numbers."""

from __future__ import annotations

from tensorflow_model_analysis.proto import config_pb2

from . import merged_metrics, ranked_metrics

RANKED, MERGED = "Ranked", "Merged"  # in front of the name of TFMA's class
_RANKED = ("AUC", "AUCPrecisionRecall", "ConfusionMatrixPlot")
_MERGED = (
    "MeanSquaredError",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredLogarithmicError",
    "BinaryCrossEntropy",
    "CategoricalCrossEntropy",
)


def corrected(config: config_pb2.EvalConfig) -> config_pb2.EvalConfig:
    """Returns the configuration with the classes of `ranked_metrics` and `merged_metrics` in place of TFMA's."""
    result = config_pb2.EvalConfig()
    result.CopyFrom(config)
    for metric in (metric for spec in result.metrics_specs for metric in spec.metrics):
        if metric.class_name in _RANKED:
            metric.class_name, metric.module = f"{RANKED}{metric.class_name}", ranked_metrics.__name__
        elif metric.class_name in _MERGED:
            metric.class_name, metric.module = f"{MERGED}{metric.class_name}", merged_metrics.__name__
    return result
