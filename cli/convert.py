"""`generic-trainer convert MODULE`: adds a `run_fn` to a module of an older dialect."""

from __future__ import annotations

import os
import sys

import click

from ..executors.dialects import conversion


@click.command()
@click.argument("module")
@click.option("--write", is_flag=True, help="Also write the change to the file.")
@click.option("--function", metavar="NAME", help="Function or conf class to train with, if the module has several.")
def convert(module: str, write: bool, function: str | None) -> None:
    """Shows a diff that adds a run_fn to MODULE.

    \b
    Example:
      generic-trainer convert taxi_estimator.py --write

    MODULE is a file or package.module with a trainer_fn, a model_fn, or a DLRover conf class. It is not executed.
    """  # noqa: D301 (click's mark of lines to keep)
    sys.path.insert(0, os.getcwd())
    converted = conversion.convert(module, function)
    click.echo(converted.diff(), nl=False)
    if write:
        converted.write()
        click.echo(f"Wrote {converted.path}.", err=True)
