"""Reads TFMA's plots as plain values: predictions compared with labels, over all examples.

for plots in read_plots(folder):
    max(plots.thresholds, key=lambda one: one.f1).threshold
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ...executors.evaluation.plots import MAX_RANGES, SMALLEST_RANGE, OutputPlots, Range, Threshold

if TYPE_CHECKING:
    from tensorflow_model_analysis.proto import metrics_for_slice_pb2

Bucket: TypeAlias = "metrics_for_slice_pb2.CalibrationHistogramBuckets.Bucket"
Matrix: TypeAlias = "metrics_for_slice_pb2.ConfusionMatrixAtThresholds.ConfusionMatrixAtThreshold"


def read_plots(folder: str) -> list[OutputPlots]:
    """Reads the candidate's plots over all examples from a ModelEvaluation artifact; [] if there are none."""
    import tensorflow_model_analysis as tfma

    return [
        _plots(one.key.output_name, one.value)
        for sliced in tfma.load_plots(folder)
        if not sliced.slice_key.single_slice_keys and not sliced.HasField("cross_slice_key")
        for one in sliced.plot_keys_and_values
        if one.key.model_name in ("", tfma.CANDIDATE_KEY) and not one.key.HasField("sub_key")
    ]


def _plots(output: str, data: metrics_for_slice_pb2.PlotData) -> OutputPlots:
    matrices = data.multi_class_confusion_matrix_at_thresholds.matrices
    return OutputPlots(
        output,
        [_threshold(matrix) for matrix in data.confusion_matrix_at_thresholds.matrices],
        list(_ranges(data.calibration_histogram_buckets.buckets)),
        {
            (one.actual_class_id, one.predicted_class_id): one.num_weighted_examples
            for matrix in matrices[:1]
            for one in matrix.entries
        },
    )


def _threshold(matrix: Matrix) -> Threshold:
    counts = {
        (0, 0): matrix.true_negatives,
        (0, 1): matrix.false_positives,
        (1, 0): matrix.false_negatives,
        (1, 1): matrix.true_positives,
    }
    rates = (matrix.precision, matrix.recall, matrix.false_positive_rate, matrix.f1)
    return Threshold(matrix.threshold, *rates, counts)


def _ranges(buckets: Iterable[Bucket]) -> Iterator[Range]:
    """Merges TFMA's buckets of equal width to at most 10 ranges with about the same number of examples, at least 20."""
    filled = [(bucket, bucket.num_weighted_examples.value) for bucket in buckets if bucket.num_weighted_examples.value]
    total = sum(examples for _, examples in filled)
    count = max(1, min(MAX_RANGES, int(total / SMALLEST_RANGE)))
    ends = itertools.accumulate(examples for _, examples in filled)
    middles = [(end - examples / 2) / total for end, (_, examples) in zip(ends, filled, strict=True)]
    numbered = zip((int(middle * count) for middle in middles), filled, strict=True)
    for _, group in itertools.groupby(numbered, key=lambda pair: pair[0]):
        yield _merged([bucket for _, (bucket, _) in group])


def _merged(buckets: Sequence[Bucket]) -> Range:
    examples = sum(bucket.num_weighted_examples.value for bucket in buckets)
    return Range(
        buckets[0].lower_threshold_inclusive,
        buckets[-1].upper_threshold_exclusive,
        examples,
        sum(bucket.total_weighted_refined_prediction.value for bucket in buckets) / examples,
        sum(bucket.total_weighted_label.value for bucket in buckets) / examples,
    )
