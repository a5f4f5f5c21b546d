"""Imports a converted module in a subprocess, as TFX's own Trainer does, before the conversion is offered."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import os
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import TYPE_CHECKING, Any

from ..engines import child_process
from ..errors import ModuleError
from ..modules.source import ModuleSource

if TYPE_CHECKING:
    from .conversion import Conversion


def require_importable(conversion: Conversion) -> None:
    """Imports the converted module, and checks that it has the definition that its run_fn trains with.

    Raises:
      ModuleError: When it lacks the definition.
      Exception: Any exception that the module raises on import; its line numbers are those before the conversion.
    """
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as folder:
        content = os.path.join(folder, "converted.py")
        with open(content, "wb") as file:
            file.write(conversion.after)
        source = dataclasses.asdict(conversion.source)
        request = {"argv": [""], "source": source, "content": content, "added": conversion.lines_before_code}
        names = child_process.run(__name__, request, what="import", forked=True, quiet=True)["names"]
    if conversion.function not in names:
        raise ModuleError(
            f"{conversion.path} has no {conversion.function!r} after its import, only in code that did not run. Define "
            "it at the top level of the module, or choose another one with --function."
        )


def execute(state: dict[str, Any]) -> dict[str, list[str]]:
    """Imports the module in the subprocess; returns the names that it has."""
    source = ModuleSource.from_json(state["source"])
    sys.path[:0] = source.roots
    if package := source.name.rpartition(".")[0]:
        importlib.import_module(package)
    loader = _Converted(source.name, source.path, state["content"], state["added"])
    spec = importlib.util.spec_from_file_location(source.name, source.path, loader=loader)
    assert spec  # always found for a .py file with a loader
    module = sys.modules[source.name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return {"names": list(vars(module))}


class _Converted(SourceFileLoader):
    """Loads a module's converted content in place of its file's."""

    def __init__(self, name: str, path: str, content: str, added: int) -> None:
        super().__init__(name, path)
        self._content, self._added = content, added

    def get_code(self, fullname: str) -> CodeType:
        with open(self._content, "rb") as file:
            tree = ast.parse(file.read())
        is_own = False
        for statement in tree.body:
            if is_own:
                ast.increment_lineno(statement, -self._added)
            is_own = is_own or "prepare_for(" in ast.unparse(statement)
        return compile(tree, self.path, "exec", dont_inherit=True)
