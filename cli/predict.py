"""`generic-trainer predict`: runs batch inference with a SavedModel on files of examples."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from ..executors.evaluation.plan import BINARY, LOGITS, MARGINS, MULTICLASS, PROBABILITIES, UNKNOWN, EvaluationPlan
from ..executors.evaluation.recorded_plan import recorded_plan_of
from ..executors.number_range import POSITIVE
from ..executors.runtime.files import file_io
from ..executors.runtime.files.output_file import STDOUT
from ..executors.runtime.logs.setup import keep_logs
from ..executors.runtime.process.surroundings import require_tensorflow_can_run
from ..executors.saved_models.prediction.request import OUTPUT_ENDINGS, PredictionRequest
from .number_type import NumberType
from .path_type import DIR, FILE, GLOB


@click.command()
@click.option(
    "--model", required=True, type=DIR, help="SavedModel, Model artifact, --output of `train`, or serving directory."
)
@click.option("--examples", multiple=True, required=True, type=GLOB, help="Example files; may be repeated.")
@click.option(
    "--output",
    required=True,
    type=FILE,
    help=f"File with the extension {', '.join(OUTPUT_ENDINGS)}; - prints JSON lines.",
)
@click.option(
    "--signature", metavar="NAME", help="Signature to call (default: serving_default, predict, or the only one)."
)
@click.option("--batch-size", type=NumberType(POSITIVE), default=512, show_default=True, help="Examples per batch.")
@click.option(
    "--op-package",
    "op_packages",
    multiple=True,
    metavar="PACKAGE",
    help="Package to import for custom ops of the model.",
)
@click.option(
    "--id",
    "ids",
    multiple=True,
    metavar="COLUMN",
    help="Column or feature of the examples to write with each prediction; may be repeated.",
)
@click.option(
    "--escape-formulas",
    is_flag=True,
    help="Quote texts in CSV that a spreadsheet would run as a formula: '=1+1 in place of =1+1.",
)
@click.option("--with-inputs", is_flag=True, help="Write all columns or features of the examples with each prediction.")
def predict(model: str, examples: tuple[str, ...], output: str, **flags: object) -> None:
    """Runs batch inference with a SavedModel.

    \b
    Example:
      generic-trainer predict --model out --examples 'iris/eval/*' --output predictions.jsonl

    Examples are TFRecords of tf.Examples, CSV with a header (.csv; an empty cell is a missing value) or one JSON
    object per line (.jsonl, .json), each of which may be gzipped, or Parquet (.parquet). The output has one prediction
    per example, with the predicted class beside scores of classes. In JSON lines output, "NaN" and "Infinity" are
    strings, and bytes that are not UTF-8 are {"b64": …}.
    """  # noqa: D301 (click's mark of lines to keep)
    request = PredictionRequest.of(model, examples, output, **flags)
    if plan := recorded_plan_of(request.model):
        request = dataclasses.replace(
            request,
            signature=request.signature or plan.signature or None,
            thresholds=_thresholds(plan),
            class_names={one.output: one.class_names() for one in plan.outputs if one.label_values},
        )
    keep_logs(os.devnull, native=True)
    require_tensorflow_can_run()

    from ..executors.saved_models.prediction.predict import predict as predict_all  # imports TensorFlow: seconds

    try:
        with _progress(request) as progress:
            summary = predict_all(request, progress)
    except BrokenPipeError:
        _end_like_a_filter()
    with_header = next((file.form for file in request.files if file.form.header), None)
    if not summary.count and with_header:
        click.echo(f"The files have no examples. A {with_header.name} file needs rows below its header.", err=True)
    place = "standard output" if output == STDOUT else output
    click.echo(
        f"{summary.count} prediction{'s' * (summary.count != 1)} of the signature {summary.signature!r}: {place}",
        err=True,
    )


def _thresholds(plan: EvaluationPlan) -> dict[str, float] | None:
    """Returns {output with scores of classes: threshold for a single score}; None if no task is known."""
    known = {PROBABILITIES: 0.5, LOGITS: 0.0, MARGINS: 0.0}
    if all(one.task == UNKNOWN for one in plan.outputs):
        return None
    return {
        one.output: known[one.scores]
        for one in plan.outputs
        if one.task in (BINARY, MULTICLASS) and one.scores in known
    }


@contextlib.contextmanager
def _progress(request: PredictionRequest) -> Iterator[Callable[[str, float], None]]:
    """Shows a progress bar with the time left if standard error is a terminal; yields the function that updates it."""
    console = Console(stderr=True)
    is_shown = console.is_terminal and not (request.output == STDOUT and sys.stdout.isatty())
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    total = sum(file_io.size_of(file.path) for file in request.files) if is_shown else 0
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as bar:

        def update(task: str, position: float) -> None:
            if task not in tasks:
                tasks[task] = bar.add_task(task, total=total)
            bar.update(tasks[task], completed=position)

        yield update


def _end_like_a_filter() -> NoReturn:
    """Exits silently with code 141, like a process terminated by SIGPIPE, as after `… | head`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(141)
