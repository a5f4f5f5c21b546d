"""`generic-trainer script FILE -- ARGS`: runs a training script as `python FILE ARGS` does, and checks its model.

A dotted name instead of the file, with or without `-m` before it, is run as `python -m NAME ARGS` does.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import click

from ..executors.dialects.script.dialect import ARGUMENTS, NAME, NEEDS_MODEL
from ..executors.fn_args import FnArgs
from ..executors.modules.archive import archive_in
from ..executors.modules.source import find_source
from ..executors.monitoring.report_file import path_in
from ..executors.runtime.files import file_io
from ..executors.training.run import train as run_training
from .path_type import DIR
from .submitted_command import JobCommand, Submittable
from .training_flags import options_from, training_flags
from .training_run import OnStart, on_start, output_folders, run_and_summarize


@click.command(cls=JobCommand, submittable=Submittable("file"))
@click.argument("file")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--output", required=True, type=DIR, help="Output directory of model/ and model_run/.")
@click.option("-m", is_flag=True, expose_value=False, help="FILE is the name of a module, as after python -m.")
@click.option("--model/--no-model", "needs_model", default=True, help="Fail if the script writes no SavedModel.")
@training_flags
def script(file: str, arguments: tuple[str, ...], output: str, needs_model: bool, **flags: Any) -> None:
    """Runs FILE as a training script and checks its SavedModel.

    The script gets ARGUMENTS, and is not modified. It can write its model anywhere: the last SavedModel that it writes
    is copied to DIR/model/Format-Serving, others to DIR/model/other_models. Without a SavedModel, the exit code is 3.

    \b
    Example:
      generic-trainer script mnist.py --output out -- --epochs 3 --learning_rate 0.1
      generic-trainer script -m trainer.task --output out -- --epochs 3
    """  # noqa: D301 (click's mark of lines to keep)
    if not file.endswith(".py"):
        file = _module_to_run(file)
    options = options_from({**flags, "dialect": NAME})
    root = file_io.absolute_path(output)  # the script may change the working directory
    fn_args = FnArgs(
        train_files=[],
        eval_files=[],
        **output_folders(root),
        custom_config={ARGUMENTS: list(arguments), NEEDS_MODEL: needs_model},
        seed=options.seed,
    )

    def places() -> dict[str, str | None]:
        folders = output_folders(output)
        model, model_run = folders["serving_model_dir"], folders["model_run_dir"]
        written = model if file_io.isdir(model) else "none: the script wrote none"
        return {"Model": written, "Report": path_in(model_run), "Record": model_run}

    start = on_start(fn_args.model_run_dir, (file,))
    run_and_summarize(fn_args, lambda: run_training(file, fn_args, options, callbacks=[OnStart(start)]), places)


def _module_to_run(name: str) -> str:
    """Returns the name of the module that `python -m` runs: of a package, that is its `__main__`."""
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    if archive_in(name):
        return name
    with tempfile.TemporaryDirectory() as scratch:
        path = find_source(name, scratch).path
    return f"{name}.__main__" if os.path.basename(path) == "__init__.py" else name
