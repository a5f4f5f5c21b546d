"""`generic-trainer run`: a whole pipeline on this machine, from data to a pushed model."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

import click

from ..executors import display, keras_version, run_record
from ..executors.module_source import find_source
from ..executors.printable import printable
from ..executors.report.writing import path_in
from ..pipelines.pipeline_options import tunes_with
from . import run_check
from .history_flags import metadata_flag
from .notify import notify_flag
from .pipeline_flags import pipeline_flags, pipeline_options
from .summary import hyperparameters_of, print_summary, told_of
from .terminal import live_display, logs_of_pipeline

if TYPE_CHECKING:
    from ..pipelines.outcome import Outcome


@click.command()
@pipeline_flags
@click.option("--runner", type=click.Choice(["beam", "local"]), default="beam", show_default=True, help="TFX's runner.")
@metadata_flag
@click.option(
    "--check/--no-check", default=True, show_default=True, help="Try module and data in seconds first, as `check` does."
)
@notify_flag
def run(check: bool, **flags: Any) -> dict[str, Any]:
    """Runs a pipeline: read, validate, transform, train, evaluate and push.

    \b
    Example:
      generic-trainer run --data taxi/ --module-file taxi_keras.py --label big_tip
    """  # noqa: D301 (click's mark of lines to keep)
    options = pipeline_options(flags)
    with logs_of_pipeline(options["pipeline_root"]), live_display():
        outcome = _outcome(options, check)
    _show(outcome)
    return {"model": outcome.model, "model_run": outcome.model_run, "metrics": outcome.metrics}


def _outcome(options: dict[str, Any], check: bool) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        source = find_source(options["module_file"], scratch)
        # Transform loads the module in this process: its tf.keras has to be the module's from the start.
        os.environ.update(keras_version.choose(options["training"].keras, source.files).environment())
        tunes = tunes_with(source, options["tune"], options["tune_steps"], options["hyperparameters"])

    checking = run_check.begin(options, tunes) if check else None
    with display.current().phase("Checking module and data" if checking else "Starting"):
        from ..pipelines.local import LocalPipeline, run_pipeline  # imports TensorFlow and TFX: seconds

        if checking:
            checking.require_passed()
    if checking is None:
        return run_pipeline(LocalPipeline(**options))
    try:
        return run_pipeline(LocalPipeline(**options))
    finally:
        checking.note()


def _show(outcome: Outcome) -> None:
    if outcome.cached:
        click.echo(f"From the cache: {', '.join(outcome.cached)}")
    places = {
        "Pushed model": outcome.pushed_model,
        "Model": outcome.model,
        "Report": path_in(outcome.model_run),
        "TensorBoard": outcome.model_run,
        "Metadata": outcome.metadata,
    }
    record = run_record.read(outcome.model_run) if outcome.model_run else {}
    print_summary({**places, **told_of(record)}, outcome.metrics, hyperparameters_of(record))
    for name, metrics in outcome.slices.items():
        own = (f"{metric} {value:.4g}" for metric, value in metrics.items() if not metric.endswith("_diff"))
        click.echo(printable(f"{name}: {', '.join(own)}"))
    if outcome.blessed is False:
        click.echo("The model was not blessed: it missed the Evaluator's threshold, so it was not pushed.", err=True)
