"""`generic-trainer diff RUN RUN`: compares two runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from ..executors.evaluation.model_comparison import ModelComparison
from ..executors.runtime.logs.sanitize import printable
from ..executors.runtime.logs.setup import keep_logs
from ..pipelines.history.diff import MetricDifference, RunDifference, compare
from ..pipelines.history.drift import DataDrift, compare_data
from ..pipelines.history.prediction_changes import compare_predictions
from ..pipelines.history.runs import Run, find_run
from .diff_tables import print_drift, print_predictions
from .history_flags import Locations, location_flags
from .run_name import RunName
from .tables import Column, format_number, format_time, print_json, print_table

if TYPE_CHECKING:
    from rich.status import Status

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
        print_predictions(_predictions(runs), is_same_data=not found.data)


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
    heads = [_heading(run) for run in found.runs]
    click.echo(f"First:  {heads[0]}\nSecond: {heads[1]}")
    _print_pairs("Arguments", found.arguments)
    _print_code(found, source)
    _print_pairs("Data", found.data)
    _print_metrics(found.metrics)
    _print_pairs("Versions", found.versions)
    _print_pairs("Seconds", {name: pair for name, pair in found.phases.items() if "/" not in name})


def _heading(run: Run) -> str:
    inside = f", {run.pipeline} {run.pipeline_run}" if run.pipeline else ""
    return printable(f"{run.id[:8]}, {run.status}, {format_time(run.started)} UTC, {run.module}{inside}")


def _print_pairs(title: str, pairs: Mapping[str, tuple[object, object]]) -> None:
    if pairs:
        rows = [[name, _cell(before), _cell(after)] for name, (before, after) in pairs.items()]
        click.echo()
        print_table([Column(title), Column("first"), Column("second")], rows)


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


def _print_metrics(metrics: dict[str, MetricDifference]) -> None:
    if metrics:
        heads = [
            Column("Metrics"),
            *(Column(name, right=True) for name in ("first", "second", "difference")),
            Column(""),
        ]
        click.echo()
        print_table(heads, [_metric_row(name, metric) for name, metric in metrics.items()])


def _metric_row(name: str, metric: MetricDifference) -> list[str]:
    sides = ["-" if value is None else format_number(value) for value in (metric.before, metric.after)]
    change = "" if metric.difference is None else f"{metric.difference:+.4g}"
    return [name, *sides, change, {True: "better", False: "worse", None: ""}[metric.is_better]]
