"""Scripts: files that train and export when they are run, as `python FILE ARGS` does.

The script is not imported, but executed as `__main__`, with its arguments in `sys.argv`. A module of a package, such as
`trainer.task`, is executed as `python -m trainer.task` does. The script chooses itself where it writes; the last
SavedModel that it wrote becomes the run's model, and the others are published beside it.

Usage:

    fn_args.custom_config = {"script_args": ["--epochs", "3"]}
    train("mnist.py", fn_args, TrainingOptions(dialect="script"))
"""

from __future__ import annotations

from ...fn_args import FnArgs
from ..base import Dialect

NAME = "script"
ARGUMENTS, NEEDS_MODEL = "script_args", "script_needs_model"  # in custom_config


class ScriptDialect(Dialect):
    """Scripts, if the dialect is chosen explicitly: any Python file can be run; see `ScriptAdapter`."""

    needs = f"to be chosen: `generic-trainer script FILE`, or the option dialect={NAME!r}"
    imports_module = False
    no_scaffold = "a script needs no template"

    def needs_model(self, fn_args: FnArgs) -> bool:
        """Whether `custom_config["script_needs_model"]` is not False."""
        return bool((fn_args.custom_config or {}).get(NEEDS_MODEL, True))
