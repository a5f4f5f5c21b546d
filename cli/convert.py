"""`generic-trainer convert MODULE`: adds a `run_fn` to a module of an older dialect."""

from __future__ import annotations

import os
import sys

import click

from ..executors.dialects import conversion


@click.command()
@click.argument("module")
@click.option("--write", is_flag=True, help="Change the file, too.")
@click.option("--function", metavar="NAME", help="The function or conf class to train with, if it is not clear.")
def convert(module: str, write: bool, function: str | None) -> None:
    """Shows the lines that give MODULE a run_fn, as a diff.

    \b
    Example:
      generic-trainer convert taxi_estimator.py --write

    MODULE is a file or package.module with a trainer_fn, a model_fn, or a conf class of DLRover's. It is not executed.
    """  # noqa: D301 (click's mark of lines to keep)
    sys.path.insert(0, os.getcwd())
    converted = conversion.convert(module, function)
    click.echo(converted.diff(), nl=False)
    if write:
        converted.write()
        click.echo(f"Wrote {converted.path}.", err=True)
