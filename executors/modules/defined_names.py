"""Finds the top-level names of a module, and its imports, by parsing its source, without running it.

defines("transform.py", "preprocessing_fn")     # one file, including names that it imports
has(source, "preprocessing_fn")                 # a whole module, including star imports from user files
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterator
from typing import TypeGuard

from .source import ModuleSource, parsed

_NEVER_IMPORTED = re.compile(r"^(__name__ == '__main__'|'__main__' == __name__|(typing\.)?TYPE_CHECKING)( and |$)")


def defines(path: str, name: str) -> bool:
    """Whether a source file defines or imports a name at its top level."""
    return any(name in names for _, names in _bindings(path))


def definitions_of(tree: ast.Module) -> dict[str, ast.stmt]:
    """Returns the top-level statements that define, import or assign a name, by that name."""
    return {name: node for node, names in _bindings_of(tree) for name in names}


def functions_of(path: str) -> list[str]:
    """Returns the names of the functions that a source file itself defines at its top level, in order."""
    return [statement.name for statement in _statements(parsed(path).body) if isinstance(statement, ast.FunctionDef)]


def owns(path: str, name: str) -> bool:
    """Whether a source file itself defines a name at its top level, by `def`, `class` or an assignment."""
    return any(name in names for node, names in _bindings(path) if not isinstance(node, (ast.Import, ast.ImportFrom)))


def has(source: ModuleSource, name: str) -> bool:
    """Whether a module defines or imports a name, including `from helpers import *` of user files."""
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


def is_never_imported(node: ast.stmt) -> TypeGuard[ast.If]:
    """Whether the import of a module skips a statement's body: `if __name__ == "__main__":`, `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and _NEVER_IMPORTED.search(ast.unparse(node.test)) is not None


def first_import(path: str, packages: Collection[str]) -> tuple[int, str] | None:
    """Returns the line number and text of the first import of one of the packages in a source file, or None."""
    imports = [
        (node.lineno, ast.unparse(node))
        for node in ast.walk(parsed(path))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and any(name.partition(".")[0] in packages for name in _modules(node))
    ]
    return min(imports, default=None)


def _bindings(path: str) -> Iterator[tuple[ast.stmt, list[str]]]:
    """Yields each top-level statement that binds names, and the names."""
    return _bindings_of(parsed(path))


def _bindings_of(tree: ast.Module) -> Iterator[tuple[ast.stmt, list[str]]]:
    for node in _statements(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node, [node.name]
        elif isinstance(node, (ast.ImportFrom, ast.Import)):
            yield node, [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] * (node.value is not None)
            yield node, [leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)]


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields statements, including those inside `if`, `try` and `with`, which also bind module-level names.

    Those that only a script executes are left out, and those for type checkers.
    """
    for node in body:
        yield node
        if is_never_imported(node):
            yield from _statements(node.orelse)
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            for _, value in ast.iter_fields(node):
                blocks = value if isinstance(value, list) else []
                yield from _statements([block for block in blocks if isinstance(block, ast.stmt)])
                for handler in (block for block in blocks if isinstance(block, ast.ExceptHandler)):
                    yield from _statements(handler.body)


def _exports(path: str, name: str) -> bool:
    """Whether a star import includes a name: it is listed in `__all__`, or is public if there is no `__all__`."""
    for node in _statements(parsed(path).body):
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
            try:
                return name in ast.literal_eval(node.value)
            except (ValueError, TypeError):  # `__all__` is computed
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


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if node.module and not node.level else []
