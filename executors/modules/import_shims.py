"""Stand-ins for packages that are not installed: modules of ours under the dotted names that model files import.

A published module holds the public names of one or more of ours. Packages above it are made on the way. A package that
is really installed is left as it is.

Usage:

    provide([("elasticdl.python.common.constants", "constants")], beside=elasticdl.shim.names.__name__)
    from elasticdl.python.common.constants import Mode
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Collection
from importlib.machinery import ModuleSpec
from types import ModuleType

from .source import parsed


def provide(table: Collection[tuple[str, str]], beside: str) -> None:
    """Makes modules importable in this process, unless their package is installed or provided already.

    Args:
      table: Old dotted name and the name of our module, in any order. A name that stands there several times gets the
        names of all those modules, and one that others are below is a package.
      beside: The module that our modules lie beside.
    """
    package = beside.rpartition(".")[0]
    missing = {top for top in {name.partition(".")[0] for name, _ in table} if not _is_there(top)}
    for name, ours in table:
        if name.partition(".")[0] in missing:
            vars(_published(name)).update(_public(importlib.import_module(f"{package}.{ours}")))


def first_import(path: str, packages: Collection[str]) -> tuple[int, str] | None:
    """Returns the line and the words with which a source file first imports one of the packages, or None."""
    found = [
        (node.lineno, ast.unparse(node))
        for node in ast.walk(parsed(path))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and any(name.partition(".")[0] in packages for name in _modules(node))
    ]
    return min(found, default=None)


def _is_there(package: str) -> bool:
    """Returns whether a package is installed, or published already. A folder of that name is not a package."""
    if package in sys.modules:
        return True
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None


def _public(module: ModuleType) -> dict[str, object]:
    """Returns what a module holds for others; by __all__ where it makes some of that only when it is asked for."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return {name: getattr(module, name) for name in names}


def _published(name: str) -> ModuleType:
    """Returns the module of that name, made along with the packages above it where it is not there."""
    if name not in sys.modules:
        module = ModuleType(name, f"{name} as Generic Trainer provides it.")
        module.__spec__ = ModuleSpec(name, None, origin=__name__, is_package=True)
        module.__path__ = []
        sys.modules[name] = module
        package, _, last = name.rpartition(".")
        if package:
            setattr(_published(package), last, module)
    return sys.modules[name]


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if node.module and not node.level else []
