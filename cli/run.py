"""`generic-trainer run`: runs a whole pipeline on the local machine, from data to a pushed model."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
from typing import TYPE_CHECKING

import click
from absl import logging

from ..executors import run_context
from ..executors.dialects.needs import choose_keras
from ..executors.errors import NotPushedError
from ..executors.modules.pipeline_modules import find_modules
from ..executors.monitoring import display, run_record
from ..executors.runtime.files import file_io
from ..executors.runtime.files.raw_data_files import raw_data_files
from ..executors.runtime.logs.exceptions import add_note
from ..executors.saved_models.pushed_models import Pushed
from ..executors.training.after_publishing import warned_after_publishing
from ..executors.training.published_model import note_published_model
from ..pipelines.definition.options import PipelineKeywords, has_tuner_step, with_findings
from ..pipelines.definition.pipeline_root import convert_data_in_root
from . import run_check
from .history_flags import metadata_flag
from .pipeline_flags import pipeline_flags, pipeline_options
from .submitted_command import JobCommand, Submittable
from .summary import PipelineSummary, json_flag, print_summary, run_summary, summary_lines
from .tables import print_json, print_line
from .terminal import live_display, logs_of_pipeline, module_output, quiet_flag

if TYPE_CHECKING:
    from ..pipelines.local.outcome import Outcome

_UNCHECKED = (
    "--no-check skipped the check, which determines the examples, schema and Keras version that the module needs."
)


@click.command(cls=JobCommand, submittable=Submittable("module_file"))
@pipeline_flags
@click.option(
    "--runner", type=click.Choice(["beam", "local"]), default="beam", show_default=True, help="TFX runner to use."
)
@metadata_flag
@click.option(
    "--check/--no-check", default=True, show_default=True, help="Check module and data meanwhile, as `check` does."
)
@json_flag
@quiet_flag
def run(check: bool, as_json: bool, **flags: object) -> None:
    """Runs a pipeline on this machine, from data to a pushed model.

    The steps read, validate, transform, train, evaluate and push.

    \b
    Example:
      generic-trainer run --data taxi/ --module-file taxi_keras.py --label big_tip

    With --json an object with: model, model_run, report, metrics, metrics_of, hyperparameters, cluster, bad_records,
    not_checked, slices, evaluation, blessed, reason, pushed_model, already_pushed, metadata, cached.
    """  # noqa: D301 (click's mark of lines to keep)
    options = pipeline_options(flags)
    if not file_io.is_remote(options["data"]):
        raw_data_files(options["data"])  # reports problems before TFX is imported
    pushed = Pushed()
    with run_context.extended(pushed), note_published_model(lambda: pushed.place):
        outcome = _run_logged(options, check, as_json)
        with warned_after_publishing():
            _print_outcome(outcome, as_json)
    if options["push"] and outcome.pushed_model is None:
        raise NotPushedError(_not_pushed_message(outcome))


def _run_logged(options: PipelineKeywords, check: bool, as_json: bool) -> Outcome:
    outcome: Outcome | None = None
    with (
        warned_after_publishing(lambda: outcome is not None),
        logs_of_pipeline(options["pipeline_root"]) as started,
        module_output(as_json),
        live_display(),
    ):
        outcome = _run_pipeline(options, check, started)
    return outcome


def _run_pipeline(options: PipelineKeywords, check: bool, started: threading.Event) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="generic-trainer-", ignore_cleanup_errors=True) as scratch:
        modules = find_modules(options["module_file"], scratch, options["transform_module"], options["tuner_module"])
        # Transform loads its module in this process, so its Keras version must be set before TensorFlow is imported.
        first = modules.transform or modules.trainer
        keras = choose_keras(options["training"].keras, first.files, beside=modules.files)
        with display.current().phase("Reading the data"):
            data, changes = convert_data_in_root(options["data"], options["pipeline_root"])
        for change in changes:
            logging.info("%s", change)
        options = {**options, "data": data}
        os.environ.update(keras.environment())
        tunes = has_tuner_step(modules, options["tune"], options["tune_steps"], options["hyperparameters"])

        checking = run_check.start(options, modules, tunes) if check else None
        known = checking.known_findings if checking else run_check.recorded_findings(options, modules, tunes)
        with display.current().phase("Starting"):
            from ..pipelines.local.pipeline import LocalPipeline, run_with_modules  # imports TFX: seconds
        gc.freeze()  # no garbage collection scans the objects of the imported libraries again
        try:
            found = with_findings(LocalPipeline(**options), known or {})
            return run_with_modules(found, modules, checking if known is None else None, on_start=started.set)
        except Exception as error:
            if not check:
                add_note(error, _UNCHECKED)
            raise
        finally:
            if checking and started.is_set():
                checking.record()


def _print_outcome(outcome: Outcome, as_json: bool) -> None:
    record = run_record.read(outcome.model_run or "")
    summary = _summary(outcome, record)
    if as_json:
        print_json(vars(summary))
        return
    if outcome.cached:
        click.echo(f"From the cache: {', '.join(outcome.cached)}")
    places = {
        "Evaluated": summary.evaluation,
        "Already pushed" if summary.already_pushed else "Pushed model": summary.pushed_model,
        "Model": summary.model,
        "Report": summary.report,
        "TensorBoard": summary.model_run,
        "Metadata": summary.metadata,
    }
    print_summary({**places, **summary_lines(record)}, summary.metrics, summary.hyperparameters)
    for name, metrics in outcome.slices.items():
        own = (f"{metric} {value:.4g}" for metric, value in metrics.items() if not metric.endswith("_diff"))
        print_line(f"{name}: {', '.join(own)}")
    if outcome.blessed and outcome.reason:
        print_line(outcome.reason)


def _summary(outcome: Outcome, record: run_record.RunRecord) -> PipelineSummary:
    of_training = vars(run_summary(record, outcome.model, outcome.model_run))
    return PipelineSummary(
        **{**of_training, "metrics": outcome.metrics},
        slices=outcome.slices,
        evaluation=outcome.plan or None,
        blessed=outcome.blessed,
        reason=outcome.reason or None,
        pushed_model=outcome.pushed_model,
        already_pushed=outcome.already_pushed,
        metadata=outcome.metadata,
        cached=outcome.cached,
    )


def _not_pushed_message(outcome: Outcome) -> str:
    reason = outcome.reason or "its metrics do not meet the thresholds of the Evaluator's configuration"
    return f"The model was not pushed: {reason.rstrip('.')}. It is kept in {outcome.model}."
