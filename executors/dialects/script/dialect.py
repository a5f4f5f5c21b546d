"""Scripts: files that train and export when they are run, as `python FILE ARGS` does.

The script is not imported, but executed as `__main__`, with its arguments in `sys.argv`. A module of a package, such as
`trainer.task`, is executed as `python -m trainer.task` does. The script chooses itself where it writes; the last
SavedModel that it wrote becomes the run's model, and the others are published beside it.

Usage:

    fn_args.custom_config = {"script_args": ["--epochs", "3"]}
    train("mnist.py", fn_args, TrainingOptions(dialect="script"))
"""

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
from ...options import TrainingOptions
from ...runtime.files import file_io
from ...runtime.observers import observed_by
from ...saved_models.locations import OTHER_MODELS
from ...saved_models.written_models import written_models
from ..base import Dialect, RunFn
from .exports import ExportWatch

NAME = "script"
ARGUMENTS, NEEDS_MODEL = "script_args", "script_needs_model"  # in custom_config


class ScriptDialect(Dialect):
    """Scripts, if the dialect is chosen explicitly: any Python file can be run."""

    needs = f"to be chosen: `generic-trainer script FILE`, or the option dialect={NAME!r}"
    imports_module = False
    no_scaffold = "a script needs no template"

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns "": a script is never chosen automatically."""
        return ""

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Returns a `run_fn` that executes the file and copies its SavedModels.

        Raises:
          InputError: When a function was requested.
        """
        if function:
            raise InputError(f"{module.__file__}: a script is run as a whole; leave out the function {function!r}.")
        return lambda fn_args: run_script(module, fn_args)

    def needs_model(self, fn_args: FnArgs) -> bool:
        """Whether `custom_config["script_needs_model"]` is not False."""
        return _needs_model(fn_args)


def _needs_model(fn_args: FnArgs) -> bool:
    return bool((fn_args.custom_config or {}).get(NEEDS_MODEL, True))


def run_script(module: ModuleType, fn_args: FnArgs) -> None:
    """Executes a script and copies the SavedModels that it wrote.

    Args:
      module: The script, which has not been executed: its `__file__`, and its `__name__` if it is in a package.
      fn_args: `custom_config["script_args"]` contains the script's arguments. The last SavedModel is copied to
        `serving_model_dir`, the others to the folder `other_models` beside it. Without a SavedModel the run fails,
        unless `custom_config["script_needs_model"]` is False.

    Raises:
      InputError: When the arguments are not a list of strings.
      TrainingProcessError: When the script exits with another code than 0.
      ModelCheckError: When it wrote no SavedModel.
      Exception: Any exception that the script raises.
    """
    arguments = (fn_args.custom_config or {}).get(ARGUMENTS, [])
    if not isinstance(arguments, list) or not all(isinstance(one, str) for one in arguments):
        raise InputError(f"custom_config: {ARGUMENTS}={arguments!r}: give the script's arguments as a list of strings.")
    path, needs_model = str(module.__file__), _needs_model(fn_args)
    before, folder = sys.argv, os.getcwd()
    sys.argv = [path, *arguments]
    watch = observed_by(ExportWatch(path)) if needs_model else contextlib.nullcontext()
    try:
        with written_models() as models, watch, flags_unparsed():
            _execute(module.__name__, path)
    finally:
        sys.argv = before
        with contextlib.suppress(PermissionError):  # this user may not enter it again
            os.chdir(folder)
    written = models.existing()
    if not written and not needs_model:
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
