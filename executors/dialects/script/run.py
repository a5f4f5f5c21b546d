"""Executes a script as `__main__`, and copies the SavedModels that it wrote; see `dialect.py`."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from types import ModuleType

from absl import logging

from ...compat.absl import flags_unparsed
from ...errors import InputError, ModelCheckError, TrainingProcessError
from ...fn_args import FnArgs
from ...runtime.files import file_io
from ...runtime.observers import observed_by
from ...saved_models.locations import OTHER_MODELS
from .exports import ExportWatch
from .written_models import written_models


def run_script(module: ModuleType, fn_args: FnArgs, arguments: object, is_model_needed: bool) -> None:
    """Executes a script and copies the SavedModels that it wrote.

    Args:
      module: The script, which has not been executed: its `__file__`, and its `__name__` if it is in a package.
      fn_args: The last SavedModel is copied to `serving_model_dir`, the others to the folder `other_models` beside it.
      arguments: `custom_config["script_args"]`: the script's arguments, as a list of strings.
      is_model_needed: Whether the run fails without a SavedModel.

    Raises:
      InputError: When the arguments are not a list of strings.
      TrainingProcessError: When the script exits with another code than 0.
      ModelCheckError: When it wrote no SavedModel.
      Exception: Any exception that the script raises.
    """
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        raise InputError(f"custom_config: script_args={arguments!r}: give the script's arguments as a list of strings.")
    path = str(module.__file__)
    before, folder = sys.argv, os.getcwd()
    sys.argv = [path, *arguments]
    watch = observed_by(ExportWatch(path)) if is_model_needed else contextlib.nullcontext()
    try:
        with written_models() as models, watch, flags_unparsed():
            _execute(module.__name__, path)
    finally:
        sys.argv = before
        with contextlib.suppress(PermissionError):  # this user may not enter it again
            os.chdir(folder)
    written = models.existing()
    if not written and not is_model_needed:
        logging.info("The script wrote no SavedModel.")
        return
    if not written:
        raise ModelCheckError(
            f"{path} wrote no SavedModel. Export the model in the script: with model.export(folder) of Keras, for "
            "example, or export_saved_model of an Estimator. A script that writes none needs --no-model."
        )
    *others, last = written
    logging.info("The script's last SavedModel is the model of the run: %s", last)
    file_io.copytree(last, fn_args.serving_model_dir)
    folder = os.path.join(file_io.parent(fn_args.serving_model_dir), OTHER_MODELS)
    for number, other in enumerate(others, 1):
        file_io.copytree(other, os.path.join(folder, f"{number}-{os.path.basename(other)}"))


def _execute(name: str, path: str) -> None:
    try:
        if "." in name:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(path, run_name="__main__")
    except SystemExit as error:  # `app.run` and `sys.exit(main())` end a script that has succeeded, too
        if error.code not in (None, 0):
            raise TrainingProcessError(f"The script {path} ended with sys.exit({error.code!r}).") from error
