"""`generic-trainer elasticdl prepare`: runs a model file's `prepare_data_for_a_single_file` on a folder of files."""

from __future__ import annotations

import os
from typing import Any

import click

from .....cli.number_type import NumberType
from .....cli.path_type import DIR
from ....number_range import POSITIVE, WORKERS
from ..prepare.command import FORMATS, TF_RECORD, PreparationJob
from ..prepare.command import prepare as prepare_data
from .flags import model_file


@click.command()
@click.option("--model_zoo", required=True, type=DIR, help="Directory of model files, or a zip archive of one.")
@click.option("--model_def", required=True, help="Model in the zoo: package.module.function_or_class.")
@click.option(
    "--input", "folder", required=True, type=DIR, help="Directory of the files to prepare, searched recursively."
)
@click.option("--output", required=True, type=DIR, help="Output directory of the shards.")
@click.option(
    "--records-per-shard", type=NumberType(POSITIVE), default=1024, show_default=True, help="Maximum records per shard."
)
@click.option(
    "--format", "kind", type=click.Choice(FORMATS), default=TF_RECORD, show_default=True, help="Format of the shards."
)
@click.option(
    "--max-bad",
    default="0.01",
    show_default=True,
    metavar="N|FRACTION",
    help="Files that may fail: a number such as 10, or a fraction.",
)
@click.option("--workers", type=NumberType(WORKERS), help="Local processes (default: one per core).")
@click.option(
    "--beam-arg", "beam_args", multiple=True, metavar="ARG", help="Additional Beam argument; may be repeated."
)
def prepare(model_zoo: str, model_def: str, folder: str, kind: str, workers: int | None, **flags: Any) -> None:
    """Converts files to records for training a model file.

    Calls the model file's prepare_data_for_a_single_file for each file.

    \b
    Example:
      generic-trainer elasticdl prepare --model_zoo=model_zoo --model_def=mnist.mnist.custom_model \\
          --input=images --output=records

    A rerun prepares only new files and files that failed before.
    """  # noqa: D301 (click's mark of lines to keep)
    path, _ = model_file(model_zoo, model_def)
    outcome = prepare_data(PreparationJob(path, folder, format=kind, workers=workers or 0, **flags))
    shards = os.path.join(flags["output"], f"data-*.{kind}")
    click.echo(f"{outcome.records:,} records in {outcome.shards:,} shards: {shards}")
    if outcome.prepared < outcome.files:
        click.echo(f"{outcome.files - outcome.prepared:,} of {outcome.files:,} files were already prepared.")
    if outcome.bad:
        click.echo(f"Files that could not be prepared: {outcome.bad:,}, see {outcome.bad_files}", err=True)
