"""`generic-trainer report RUN`: writes an HTML report on a run, or a comparison of several runs."""

from __future__ import annotations

import os
import pathlib
import webbrowser
from collections.abc import Sequence

import click

from ..executors.errors import InputError
from ..executors.reporting.writing import write_report
from ..executors.runtime.files.output_file import STDOUT, write_output
from ..executors.runtime.logs.setup import keep_logs
from ..pipelines.history.metric_comparison import is_higher_better
from ..pipelines.history.runs import Run, find_run
from .history_flags import Locations, location_flags
from .path_type import FILE
from .run_name import RunName

_COMPARISON = "comparison.html"


@click.command()
@click.argument("run", type=RunName())
@click.option(
    "--compare", "others", type=RunName(), multiple=True, metavar="RUN", help="Run to compare with; may be repeated."
)
@click.option(
    "--output",
    type=FILE,
    help="Report file; - prints it (default: report.html in the model run; comparison.html with --compare).",
)
@click.option("--open", "opened", is_flag=True, help="Open the report in the browser.")
@location_flags
def report(run: str, others: Sequence[str], output: str | None, opened: bool, locations: Locations) -> None:
    """Writes an HTML report on one RUN, or a comparison of several.

    RUN is `last`, a run id or a prefix of one, the name of a pipeline run, or a directory: an --output of train, a
    pipeline root, a model run, a model or a pushed model. The report is one self-contained file; its path is printed.

    \b
    Example:
      generic-trainer report last --open
      generic-trainer report out --compare out.before --output comparison.html
    """  # noqa: D301 (click's mark of lines to keep)
    if opened and output == STDOUT:
        raise click.UsageError("--open needs a file. Omit it, or --output -.")
    names = (run, *others)
    runs = [find_run(name, **locations) for name in names]
    folders = [_folder_of(found, name) for found, name in zip(runs, names, strict=True)]
    path = output or (_COMPARISON if others else "")
    try:
        written = _write_comparison(runs, folders, path) if others else _write_report(runs[0], folders[0], path)
    except OSError as error:
        place, reason = path or folders[0], error.strerror or type(error).__name__
        raise InputError(f"{place}: cannot write there ({reason}). Choose another file with --output.") from error
    if written != STDOUT:
        click.echo(written)
    if opened:
        webbrowser.open(pathlib.Path(written).absolute().as_uri())


def _folder_of(run: Run, name: str) -> str:
    """Returns the folder of the run's ModelRun; raises InputError if it has no `run.json`."""
    if not run.model_run or not run.record.id:
        raise InputError(
            f"{name}: the run {run.id[:12]} ({run.status}) has no run.json to report on. TFX deletes the outputs of a "
            "failed step; the records of the last ten failed runs are kept in `model_run/.failed` in the pipeline root."
        )
    return run.model_run


def _write_report(run: Run, folder: str, path: str) -> str:
    keep_logs(os.devnull, native=True)  # reading evaluation results imports TFMA and TensorFlow
    from ..pipelines.reporting.sections import make_pipeline_parts

    return write_report(folder, run.record, make_pipeline_parts(run), path)


def _write_comparison(runs: Sequence[Run], folders: Sequence[str], path: str) -> str:
    from ..executors.reporting.comparison import comparison
    from ..executors.reporting.page import html_of

    records = [run.record for run in runs]
    page = html_of(comparison(list(zip(folders, records, strict=True)), higher_is_better=is_higher_better))
    write_output(path, page)
    return path
