"""`generic-trainer diff RUN RUN`: compares two runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ..executors.evaluation.model_comparison import ModelComparison, OutputComparison
from ..executors.evaluation.paired_metrics import PairedMetric
from ..executors.evaluation.plan import REGRESSION
from ..executors.runtime.logs.sanitize import printable
from ..executors.runtime.logs.setup import keep_logs
from ..pipelines.history.diff import MetricDifference, RunDifference, compare
from ..pipelines.history.drift import DataDrift, Distance, compare_data
from ..pipelines.history.prediction_changes import compare_predictions
from ..pipelines.history.runs import Run, find_run
from .history_flags import Locations, location_flags
from .run_name import RunName
from .tables import format_time, print_json, print_line, print_section, print_table

if TYPE_CHECKING:
    from rich.status import Status

_LISTED = 20  # features with drift, and anomalies
_NUMBERS = ("first", "second", "difference")
_VERDICTS = {True: "better", False: "worse", None: ""}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@click.argument("first", type=RunName())
@click.argument("second", type=RunName())
@location_flags
@click.option("--source/--no-source", default=True, show_default=True, help="Show the diff of the module's files.")
@click.option("--drift/--no-drift", default=True, show_default=True, help="Compare the statistics of the data.")
@click.option(
    "--predictions/--no-predictions",
    default=True,
    show_default=True,
    help="Compare both models on the second run's eval split.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the fields of RunDifference.")
def diff(
    first: str, second: str, source: bool, drift: bool, predictions: bool, as_json: bool, locations: Locations
) -> None:
    """Compares the arguments, code, data, metrics and predictions of two runs.

    Versions and times are compared too. FIRST and SECOND are given as RUN in `show`. A metric is marked better or worse
    if its name implies a direction. Data drift and predictions need TensorFlow, which takes seconds to load; --no-drift
    and --no-predictions leave them out.

    \b
    Example:
      generic-trainer diff 4f0c1a2b last

    With --json: runs (ids), arguments, same_code, files, source, data, metrics (before, after, difference, is_better),
    versions and phases; drift (the fields of DataDrift) and predictions (of ModelComparison), null if left out. Pairs
    are [first, second]; equal values are omitted, except in metrics and phases.
    """  # noqa: D301 (click's mark of lines to keep)
    runs = find_run(first, **locations), find_run(second, **locations)
    found = compare(*runs)
    if as_json:
        changes = {
            "drift": _drift(runs).to_json() if drift else None,
            "predictions": _predictions(runs).to_json() if predictions else None,
        }
        print_json({**found.to_json(), **changes})
        return
    _print_difference(found, source)
    if drift:
        print_drift(_drift(runs))
    if predictions:
        _print_predictions(_predictions(runs), is_same_data=not found.data)


def _drift(runs: tuple[Run, Run]) -> DataDrift:
    keep_logs(os.devnull, native=True)  # importing TFDV and TensorFlow
    with _status("Comparing the data"):
        return compare_data(*runs)


def _predictions(runs: tuple[Run, Run]) -> ModelComparison:
    with _status("Comparing the predictions"):
        return compare_predictions(*runs)


def _status(text: str) -> Status:
    """Returns a spinner with a text, for a terminal; elsewhere nothing is shown."""
    from rich.console import Console

    return Console(stderr=True).status(text)


def _print_difference(found: RunDifference, source: bool) -> None:
    for label, run in zip(("First: ", "Second:"), found.runs, strict=True):
        inside = f", {run.pipeline} {run.pipeline_run}" if run.pipeline else ""
        print_line(f"{label} {run.id[:8]}, {run.status}, {format_time(run.started)} UTC, {run.module}{inside}")
    _print_pairs("Arguments", found.arguments)
    _print_code(found, source)
    _print_pairs("Data", found.data)
    _print_metrics(found.metrics)
    _print_pairs("Versions", found.versions)
    _print_pairs("Seconds", {name: pair for name, pair in found.phases.items() if "/" not in name})


def _print_pairs(title: str, pairs: Mapping[str, tuple[object, object]]) -> None:
    print_section([title, "first", "second"], [[name, *map(_cell, pair)] for name, pair in pairs.items()])


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)


def _print_code(found: RunDifference, source: bool) -> None:
    click.echo()
    if found.same_code is None:
        click.echo("Code: not recorded for both runs.")
    elif found.same_code:
        click.echo("Code: identical.")
    elif not found.files:
        click.echo("Code: different; no diff is available because a run has no stored source.")
    else:
        click.echo(f"Code: {', '.join(f'{name} {became}' for name, became in found.files.items())}")
        for line in found.source.splitlines() if source else ():
            click.secho(printable(line.expandtabs(4)), fg=_COLOURS.get(line[:1]))


def _print_metrics(metrics: Mapping[str, MetricDifference]) -> None:
    rows = [[name, *_sides(metric), _VERDICTS[metric.is_better]] for name, metric in metrics.items()]
    print_section(["Metrics", *_NUMBERS, ""], rows, right=_NUMBERS)


def _sides(metric: MetricDifference | PairedMetric) -> list[object]:
    """Returns the values of a metric in both runs, and their difference."""
    sides = ["-" if value is None else value for value in (metric.before, metric.after)]
    return [*sides, None if metric.difference is None else f"{metric.difference:+.4g}"]


def print_drift(drift: DataDrift) -> None:
    """Prints the features with drift, and the anomalies."""
    click.echo()
    if drift.problem or drift.is_same:
        reason = "none, both runs have the same data" if drift.is_same else f"not compared: {drift.problem}"
        print_line(f"Data drift: {reason}.")
        return
    drifted = [distance for distance in drift.distances if distance.is_drift]
    counts = "; ".join(f"{split} {first:,} and {second:,}" for split, (first, second) in drift.examples.items())
    print_line(f"Data drift: {_summary(drift, drifted)} Examples: {counts}.")
    if drifted:
        numbers = ("distance", "threshold")
        rows = [
            [far.feature, far.split, f"{far.distance:.3f}", f"{far.threshold:.3f}", far.measure]
            for far in drifted[:_LISTED]
        ]
        print_table(["Drift", "split", *numbers, "measure"], rows, right=numbers)
        _print_rest(len(drifted))
    anomalies = [[anomaly.feature, anomaly.split, anomaly.anomaly, anomaly.details] for anomaly in drift.anomalies]
    print_section(["Anomalies", "split", "anomaly", "details"], anomalies[:_LISTED])
    _print_rest(len(anomalies))


def _summary(drift: DataDrift, drifted: Sequence[Distance]) -> str:
    if drifted:
        names = len({distance.feature for distance in drifted})
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


def _print_predictions(found: ModelComparison, *, is_same_data: bool) -> None:
    click.echo()
    if found.problem:
        print_line(f"Predictions: not compared: {found.problem}.")
        return
    click.echo(f"Predictions of both models on {_sample(found)} of the second run's eval split.")
    if not is_same_data:
        click.echo("The runs' data differs: the first model may have been trained on some of these examples.")
    for output in found.outputs:
        _print_paired_metrics(output, found.examples)
        _print_changes(output, found.examples)


def _sample(found: ModelComparison) -> str:
    if found.examples == found.total and found.is_complete:
        return f"all {found.total:,} examples"
    at_least = "" if found.is_complete else "at least "
    return f"{found.examples:,} of {at_least}{found.total:,} examples"


def _print_paired_metrics(output: OutputComparison, examples: int) -> None:
    rows = [[metric.name, *_sides(metric), _interval(metric), _VERDICTS[metric.is_better]] for metric in output.metrics]
    numbers = (*_NUMBERS, "95 % interval")
    print_section([f"Label {output.label}", *numbers, ""], rows, right=numbers)
    chance = [metric.name for metric in output.metrics if not metric.is_significant]
    if chance:
        click.echo(f"Not significant with {examples:,} examples: {', '.join(chance)}.")


def _interval(metric: PairedMetric) -> str:
    return "-" if metric.interval is None else " to ".join(f"{end:+.4g}" for end in metric.interval)


def _print_changes(output: OutputComparison, examples: int) -> None:
    is_regression = output.task == REGRESSION
    improved, worsened = ("closer to the label", "further from it") if is_regression else ("corrected", "made wrong")
    click.echo(
        f"Changed predictions: {output.changed:,} of {examples:,} ({100 * output.changed / examples:.1f} %); "
        f"{output.improved:,} {improved}, {output.worsened:,} {worsened}."
    )
    rows = []
    for change in output.changes:
        features = ", ".join(f"{name}={text}" for name, text in change.features.items())
        rows.append([change.label, change.before, change.after, features])
    print_section(["Label", "first", "second", "features"], rows)
