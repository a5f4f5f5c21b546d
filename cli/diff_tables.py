"""Prints data drift and changes of predictions, for `generic-trainer diff`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..executors.evaluation.model_comparison import ChangedExample, ModelComparison, OutputComparison
from ..executors.evaluation.paired_metrics import PairedMetric
from ..executors.evaluation.plan import REGRESSION
from ..executors.runtime.logs.sanitize import printable
from ..pipelines.history.drift import DataDrift, Distance
from .tables import Column, format_number, print_table

_LISTED = 20  # features with drift, and anomalies


def print_drift(drift: DataDrift) -> None:
    """Prints the features with drift, and the anomalies."""
    click.echo()
    if drift.problem or drift.is_same:
        reason = "none, both runs have the same data" if drift.is_same else f"not compared: {printable(drift.problem)}"
        click.echo(f"Data drift: {reason}.")
        return
    drifted = [one for one in drift.distances if one.is_drift]
    counts = "; ".join(f"{split} {first:,} and {second:,}" for split, (first, second) in drift.examples.items())
    click.echo(printable(f"Data drift: {_summary(drift, drifted)} Examples: {counts}."))
    if drifted:
        right = [Column(name, right=True) for name in ("distance", "threshold")]
        heads = [Column("Drift"), Column("split"), *right, Column("measure")]
        rows = [[one.feature, one.split, f"{one.distance:.3f}", f"{one.threshold:.3f}", one.measure] for one in drifted]
        print_table(heads, rows[:_LISTED])
        _print_rest(len(rows))
    if drift.anomalies:
        click.echo()
        anomalies = [[one.feature, one.split, one.anomaly, one.details] for one in drift.anomalies]
        print_table([Column("Anomalies"), Column("split"), Column("anomaly"), Column("details")], anomalies[:_LISTED])
        _print_rest(len(anomalies))


def _summary(drift: DataDrift, drifted: Sequence[Distance]) -> str:
    if drifted:
        names = len({one.feature for one in drifted})
        return f"{names} feature{'s' * (names != 1)}."
    if not drift.distances:
        return "no feature could be compared."
    largest = drift.distances[0]
    return (
        f"none. The largest distance is {largest.distance:.3f} ({largest.feature}, {largest.split}, "
        f"{largest.measure}); the threshold is {largest.threshold:.2g}."
    )


def _print_rest(count: int) -> None:
    if count > _LISTED:
        click.echo(f"… and {count - _LISTED} more")


def print_predictions(found: ModelComparison, *, is_same_data: bool) -> None:
    """Prints the metrics of both models on the same examples, and the predictions that changed.

    Args:
      found: The comparison.
      is_same_data: Whether both runs had the same data.
    """
    click.echo()
    if found.problem:
        click.echo(f"Predictions: not compared: {printable(found.problem)}.")
        return
    click.echo(f"Predictions of both models on {_sample(found)} of the second run's eval split.")
    if not is_same_data:
        click.echo("The runs' data differs: the first model may have been trained on some of these examples.")
    for one in found.outputs:
        click.echo()
        _print_metrics(one, found.examples)
        _print_changes(one, found.examples)


def _sample(found: ModelComparison) -> str:
    if found.examples == found.total and found.is_complete:
        return f"all {found.total:,} examples"
    at_least = "" if found.is_complete else "at least "
    return f"{found.examples:,} of {at_least}{found.total:,} examples"


def _print_metrics(one: OutputComparison, examples: int) -> None:
    right = [Column(name, right=True) for name in ("first", "second", "difference", "95 % interval")]
    print_table([Column(f"Label {one.label}"), *right, Column("")], [_metric_row(metric) for metric in one.metrics])
    chance = [metric.name for metric in one.metrics if not metric.is_significant]
    if chance:
        click.echo(f"Not significant with {examples:,} examples: {', '.join(chance)}.")


def _metric_row(metric: PairedMetric) -> list[str]:
    interval = "-" if metric.interval is None else " to ".join(f"{end:+.4g}" for end in metric.interval)
    verdict = {True: "better", False: "worse", None: ""}[metric.is_better]
    values = [format_number(value) for value in (metric.before, metric.after)]
    return [metric.name, *values, f"{metric.difference:+.4g}", interval, verdict]


def _print_changes(one: OutputComparison, examples: int) -> None:
    directions = ("closer to the label", "further from it") if one.task == REGRESSION else ("corrected", "made wrong")
    share = 100 * one.changed / examples
    click.echo(
        f"Changed predictions: {one.changed:,} of {examples:,} ({share:.1f} %); {one.improved:,} {directions[0]}, "
        f"{one.worsened:,} {directions[1]}."
    )
    if one.changes:
        click.echo()
        heads = [Column("Label"), Column("first"), Column("second"), Column("features")]
        print_table(heads, [_change_row(change) for change in one.changes])


def _change_row(change: ChangedExample) -> list[str]:
    features = ", ".join(f"{name}={text}" for name, text in change.features.items())
    return [change.label, change.before, change.after, features]
