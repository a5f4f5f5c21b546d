"""`generic-trainer predict`: runs batch inference with a SavedModel on files of examples."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import NoReturn

import click

from ..executors.evaluation.recorded_plan import recorded_plan_of
from ..executors.inputs.example_files import CSV
from ..executors.runtime.logs.setup import keep_logs
from ..executors.saved_models.prediction.request import OUTPUT_ENDINGS, STDOUT, PredictionRequest


@click.command()
@click.option(
    "--model",
    required=True,
    metavar="DIR",
    help="SavedModel, Model artifact, --output of `train`, or serving directory.",
)
@click.option("--examples", multiple=True, required=True, metavar="GLOB", help="Example files; may be repeated.")
@click.option(
    "--output",
    required=True,
    metavar="FILE",
    help=f"File with the extension {', '.join(OUTPUT_ENDINGS)}; - prints JSON lines.",
)
@click.option(
    "--signature", metavar="NAME", help="Signature to call (default: serving_default, predict, or the only one)."
)
@click.option("--batch-size", type=click.IntRange(1), default=512, show_default=True, help="Examples per batch.")
@click.option(
    "--op-package",
    "op_packages",
    multiple=True,
    metavar="PACKAGE",
    help="Package to import for custom ops of the model.",
)
def predict(model: str, examples: tuple[str, ...], output: str, **flags: object) -> None:
    """Runs batch inference with a SavedModel.

    \b
    Example:
      generic-trainer predict --model out --examples 'iris/eval/*' --output predictions.jsonl

    Examples are TFRecords of tf.Examples, CSV with a header (.csv; an empty cell is a missing value) or one JSON
    object per line (.jsonl, .json); each may be gzipped. The output has one prediction per example. In JSON lines
    output, "NaN" and "Infinity" are strings, and bytes that are not UTF-8 are {"b64": …}.
    """  # noqa: D301 (click's mark of lines to keep)
    request = PredictionRequest.of(model, examples, output, **flags)
    if not request.signature and (plan := recorded_plan_of(request.model)):
        request = dataclasses.replace(request, signature=plan.signature or None)
    keep_logs(os.devnull, native=True)

    from ..executors.saved_models.prediction.predict import predict as predict_all  # imports TensorFlow: seconds

    try:
        summary = predict_all(request)
    except BrokenPipeError:
        _end_like_a_filter()
    if not summary.count and any(file.kind == CSV for file in request.files):
        click.echo("The files have no examples. A CSV file needs rows below its header.", err=True)
    place = "standard output" if output == STDOUT else output
    click.echo(
        f"{summary.count} prediction{'s' * (summary.count != 1)} of the signature {summary.signature!r}: {place}",
        err=True,
    )


def _end_like_a_filter() -> NoReturn:
    """Exits silently with code 141, like a process terminated by SIGPIPE, as after `… | head`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(141)
