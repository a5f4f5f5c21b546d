"""`generic-trainer runs`: lists past runs, newest first."""

from __future__ import annotations

import os

import click

from ..executors.number_range import STEPS
from ..executors.runtime.quantities import duration_text
from ..pipelines.history.run import STATUSES
from ..pipelines.history.runs import Run, find_runs, metric_of
from .history_flags import Locations, store_flags
from .number_type import NumberType
from .tables import format_time, print_json, print_table

_COMMON_METRICS = ("auc", "accuracy", "loss")
_MAX_METRICS = 3  # metrics per line
_ID_LENGTH = 8  # characters of an ID; more if these are not unique


@click.command()
@click.argument("places", nargs=-1, metavar="[PLACE]...")
@store_flags
@click.option("--module", default="", metavar="NAME", help="Only runs of this module: part of its name, or a pattern.")
@click.option("--status", type=click.Choice(STATUSES), help="Only runs with this status.")
@click.option("--sort", metavar="METRIC", help="Sort by a metric such as auc or train/loss, best first.")
@click.option(
    "--limit", type=NumberType(STEPS), default=20, show_default=True, help="Maximum number of runs; 0 for all."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list with the fields of Run.")
def runs(module: str, status: str | None, sort: str | None, limit: int, as_json: bool, locations: Locations) -> None:
    """Lists the training runs of `train` and of pipelines.

    PLACE is a pipeline root, an --output of train, a directory above them (default: the current directory), or an ML
    Metadata store. Failed, running and interrupted runs are listed as well, and cached pipeline steps.

    \b
    Example:
      generic-trainer runs experiments/ --module taxi_keras --sort auc

    With --json a list, each with: id, status, started (UTC), seconds, module, fingerprint, dialect, metrics, model_run,
    model, pushed_model, blessed, evaluation, error, pipeline, pipeline_run, metadata, execution, model_artifact.
    """  # noqa: D301 (click's mark of lines to keep)
    more = limit and limit + 1
    found = find_runs(**locations, module=module, status=status or "", sort=sort or "", limit=more)
    shown = found[: limit or None]
    if as_json:
        print_json([run.to_json() for run in shown])
    elif not found:
        click.echo("No runs found. Use `generic-trainer runs PLACE` to search elsewhere.")
    else:
        _print(shown, sort)
        if len(found) > len(shown):
            click.echo(f"Only the first {limit} runs are shown; use --limit 0 to show all.", err=True)


def _print(found: list[Run], sort: str | None) -> None:
    metrics = _columns_of(found, sort)
    heads = ["run", "started (UTC)", "status", "duration", "module"]
    heads += [*metrics, "blessed", "pushed", "pipeline", "folder"]
    length = next((n for n in range(_ID_LENGTH, 32) if len({run.id[:n] for run in found}) == len(found)), 32)
    print_table(heads, [_row(run, run.id[:length], metrics) for run in found], right=["duration", *metrics])


def _row(run: Run, name: str, metrics: list[str]) -> list[object]:
    return [
        name,
        format_time(run.started),
        run.status,
        None if run.seconds is None else duration_text(run.seconds),
        os.path.basename(run.module.partition("@")[0]),  # the name in "name@archive.zip"
        *(metric_of(run, metric) for metric in metrics),
        {True: "yes", False: "no", None: None}[run.blessed],
        "yes" if run.pushed_model else None,
        run.pipeline,
        _shortened(run.model_run or ""),
    ]


def _shortened(folder: str) -> str:
    """Returns a path relative to the current folder if it is below it, else unchanged."""
    here = os.getcwd() + os.sep
    return folder[len(here) :] if folder.startswith(here) else folder


def _columns_of(found: list[Run], sort: str | None) -> list[str]:
    """Returns up to 3 metrics to show: the one to sort by, and the most common ones."""
    counts: dict[str, int] = {}
    for run in found:
        for name in {name for split in ("eval", "train") for name in run.metrics.get(split, {})}:
            counts[name] = counts.get(name, 0) + 1
    usual = sorted(
        counts,
        key=lambda name: (
            -counts[name],
            _COMMON_METRICS.index(name) if name in _COMMON_METRICS else len(_COMMON_METRICS),
            name,
        ),
    )
    return list(dict.fromkeys([*([sort] if sort else []), *usual]))[:_MAX_METRICS]
