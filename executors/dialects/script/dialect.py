"""Scripts: files that train and export when they are run, as `python FILE ARGS` does.

The script is not imported, but executed as `__main__`, with its arguments in `sys.argv`. A module of a package, such as
`trainer.task`, is executed as `python -m trainer.task` does. The script chooses itself where it writes; the last
SavedModel that it wrote becomes the run's model, and the others are published beside it.

Usage:

    fn_args.custom_config = {"script_args": ["--epochs", "3"]}
    train("mnist.py", fn_args, TrainingOptions(dialect="script"))
"""

from __future__ import annotations

from types import ModuleType

from ...errors import InputError
from ...fn_args import FnArgs
from ...options import TrainingOptions
from ..base import Dialect, RunFn

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
        from .run import run_script

        return lambda fn_args: run_script(module, fn_args)

    def needs_model(self, fn_args: FnArgs) -> bool:
        """Whether `custom_config["script_needs_model"]` is not False."""
        return needs_model(fn_args)


def needs_model(fn_args: FnArgs) -> bool:
    """Whether a script that writes no SavedModel fails."""
    return bool((fn_args.custom_config or {}).get(NEEDS_MODEL, True))
