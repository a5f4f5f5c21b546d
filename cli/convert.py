"""`generic-trainer convert MODULE`: adds a `run_fn` to a module of an older dialect."""

from __future__ import annotations

import os
import sys

import click

from ..executors.dialects import conversion
from ..executors.dialects.converted_import import require_importable
from .path_type import MODULE_NAME


@click.command()
@click.argument("module", type=MODULE_NAME)
@click.option("--write", is_flag=True, help="Also write the change to the file.")
@click.option("--function", metavar="NAME", help="Function, Estimator or conf class to use, if the module has several.")
def convert(module: str, write: bool, function: str | None) -> None:
    """Shows a diff that makes MODULE a module for TFX's own Trainer, by adding a run_fn.

    \b
    Example:
      generic-trainer convert taxi_estimator.py --write

    MODULE is a file or package.module with a trainer_fn, a model_fn or an Estimator, or a conf class. With the change
    it must be importable. What it still lacks is listed, with the lines to add.
    """  # noqa: D301 (click's mark of lines to keep)
    sys.path.insert(0, os.getcwd())
    converted = conversion.convert(module, function)
    require_importable(converted)
    click.echo(converted.diff(), nl=False)
    for part in converted.lacks:
        click.echo(f"{converted.path}: {part}", err=True)
    if write:
        converted.write()
        click.echo(f"Wrote {converted.path}.", err=True)
