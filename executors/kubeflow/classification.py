"""An error analysis as the metadata of Kubeflow's ClassificationMetrics, which its page draws.

The keys are those that `kfp.dsl.ClassificationMetrics` writes: `confidenceMetrics` and `confusionMatrix`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..evaluation.error_analysis import ErrorAnalysis
from ..evaluation.plots import Confusion, Threshold

_CLASSES = 100  # most classes of a confusion matrix: its size in the metadata grows with their square


def classification_metadata(analysis: ErrorAnalysis | None) -> dict[str, object]:
    """Returns the ROC curve and the confusion matrix of the first output; {} for other tasks than classification.

    The matrix of a binary task is the one at the threshold 0.5.
    """
    if analysis is None or not analysis.outputs:
        return {}
    output = analysis.outputs[0]
    plots = output.plots
    metadata: dict[str, object] = {}
    confusion: Confusion = plots.confusion
    if plots.thresholds:
        confusion = min(plots.thresholds, key=lambda one: abs(one.threshold - 0.5)).confusion
        if all(sum(confusion.get((label, one), 0) for one in (0, 1)) for label in (0, 1)):
            metadata["confidenceMetrics"] = list(map(_point, reversed(plots.thresholds)))
    if confusion and (matrix := _matrix(confusion, output.class_names)):
        metadata["confusionMatrix"] = matrix
    return metadata


def _point(one: Threshold) -> dict[str, float]:
    return {
        "confidenceThreshold": one.threshold,
        "recall": one.recall,
        "falsePositiveRate": one.false_positive_rate,
    }


def _matrix(confusion: Confusion, names: Mapping[str, str]) -> dict[str, object]:
    classes: Sequence[int] = sorted({number for pair in confusion for number in pair})
    if len(classes) > _CLASSES:
        return {}
    rows = [{"row": [confusion.get((label, one), 0.0) for one in classes]} for label in classes]
    return {"annotationSpecs": [{"displayName": names.get(str(one), str(one))} for one in classes], "rows": rows}
