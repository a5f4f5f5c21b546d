"""Puts metrics of this package in place of those of TFMA that return wrong numbers."""

from __future__ import annotations

from tensorflow_model_analysis.proto import config_pb2

from . import merged_metrics, ranked_metrics

_LIBRARIES = ("", "tensorflow_model_analysis", "tensorflow", "tf_keras", "keras", __name__.partition(".")[0])
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
    """Returns the configuration with the classes of `ranked_metrics` and `merged_metrics` in place of TFMA's.

    Classes of a user's own modules stay, whatever their name.
    """
    result = config_pb2.EvalConfig()
    result.CopyFrom(config)
    every = [metric for spec in result.metrics_specs for metric in spec.metrics]
    for metric in filter(is_of_library, every):
        if metric.class_name in _RANKED:
            metric.class_name, metric.module = f"{RANKED}{metric.class_name}", ranked_metrics.__name__
        elif metric.class_name in _MERGED:
            metric.class_name, metric.module = f"{MERGED}{metric.class_name}", merged_metrics.__name__
    return result


def is_of_library(metric: config_pb2.MetricConfig) -> bool:
    """Whether the class of a metric is one of TFMA, Keras or this package, rather than of a user's module."""
    return metric.module.partition(".")[0] in _LIBRARIES
