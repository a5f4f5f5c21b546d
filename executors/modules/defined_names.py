"""The names that a module has at its top level, found in its source without running it.

defines("transform.py", "preprocessing_fn")     # one file, imports by name included
has(source, "preprocessing_fn")                 # a whole module: star imports from the user's files, too
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from .source import ModuleSource, parsed


def defines(path: str, name: str) -> bool:
    """Returns whether a source file defines or imports a name at its top level."""
    return any(name in names for _, names in _bindings(path))


def functions_of(path: str) -> list[str]:
    """Returns the functions that a source file itself defines at its top level, in order."""
    return [one.name for one in _statements(parsed(path).body) if isinstance(one, ast.FunctionDef)]


def owns(path: str, name: str) -> bool:
    """Returns whether a source file itself defines a name at its top level, by `def` or an assignment."""
    return any(name in names for node, names in _bindings(path) if not isinstance(node, (ast.Import, ast.ImportFrom)))


def has(source: ModuleSource, name: str) -> bool:
    """Returns whether a module defines or imports a name, also by `from helpers import *` from a file of the user's."""
    seen: set[str] = set()
    pending = [source.path]
    while pending:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        if (path == source.path or _exports(path, name)) and defines(path, name):
            return True
        pending += _star_imported(path, source)
    return False


def _bindings(path: str) -> Iterator[tuple[ast.stmt, list[str]]]:
    """Yields each top-level statement that binds names, and the names."""
    for node in _statements(parsed(path).body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node, [node.name]
        elif isinstance(node, (ast.ImportFrom, ast.Import)):
            yield node, [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] * (node.value is not None)
            yield node, [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields statements with those inside `if`, `try` and `with`, which bind names of the module as well."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            for _, value in ast.iter_fields(node):
                blocks = value if isinstance(value, list) else []
                yield from _statements([one for one in blocks if isinstance(one, ast.stmt)])
                for handler in (one for one in blocks if isinstance(one, ast.ExceptHandler)):
                    yield from _statements(handler.body)


def _exports(path: str, name: str) -> bool:
    """Returns whether a star import takes a name along: as `__all__` lists it, or else every public one."""
    for node in _statements(parsed(path).body):
        if isinstance(node, ast.Assign) and any(getattr(one, "id", "") == "__all__" for one in node.targets):
            try:
                return name in ast.literal_eval(node.value)
            except (ValueError, TypeError):  # it is computed
                return True
    return not name.startswith("_")


def _star_imported(path: str, source: ModuleSource) -> list[str]:
    found = []
    for node in _statements(parsed(path).body):
        if not isinstance(node, ast.ImportFrom) or node.names[0].name != "*":
            continue
        tail = os.path.join("", *(node.module or "").split("."))
        ends = [os.path.join(os.sep, f"{tail}.py"), os.path.join(os.sep, tail, "__init__.py")]
        base = path
        for _ in range(node.level):
            base = os.path.dirname(base)
        for file in source.files:
            if node.level:
                found += [file] * (file in [base + end for end in ends])
            elif file.endswith(tuple(ends)):
                found.append(file)
    return found
