"""Adapts scripts to `run_fn(fn_args)`."""

from __future__ import annotations

import ast
import os
from types import ModuleType

from ...errors import InputError
from ...modules.defined_names import is_never_imported
from ...modules.source import parsed
from ...options import TrainingOptions
from ..base import RunFn
from .dialect import ARGUMENTS, ScriptDialect
from .run import run_script


class ScriptAdapter(ScriptDialect):
    """Scripts, if the dialect is chosen explicitly: any Python file can be run."""

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns "": a script is never chosen automatically."""
        return ""

    def unmatched_hint(self, path: str) -> str:
        """Returns which command runs a file's code for scripts; "" if it has none."""
        statements = parsed(path).body if os.path.exists(path) else []
        if not any("__name__" in ast.unparse(node.test) for node in statements if is_never_imported(node)):
            return ""
        return " Its code under if __name__ == '__main__' does not run here; `generic-trainer script` runs it."

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Returns a `run_fn` that executes the file and copies its SavedModels.

        Raises:
          InputError: When a function was requested.
        """
        if function:
            raise InputError(f"{module.__file__}: a script is run as a whole; leave out the function {function!r}.")
        return lambda fn_args: run_script(
            module, fn_args, (fn_args.custom_config or {}).get(ARGUMENTS, []), self.needs_model(fn_args)
        )
