"""Whether a module's source is a conf of DLRover's, or a file that comes with one, read off before it runs.

It has to be known before: the names that it imports have to be there for the module's first line, TensorFlow has to
behave as DLRover's trainer made it, and its models are Estimators.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...modules.import_shims import first_import
from ...modules.source import parsed

_PACKAGES = ("dlrover",)
_OF_A_CONF = ("train_set", "classifier_class")


def dlrover_use(path: str) -> tuple[int, str] | None:
    """Returns the line and the words by which a source file is one for DLRover, or None.

    It imports DLRover, or has a class that is a conf.
    """
    if found := first_import(path, _PACKAGES):
        return found
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ClassDef) and is_conf(node):
            return node.lineno, f"class {node.name} with {' and '.join(_OF_A_CONF)}, as in DLRover"
    return None


def is_conf(node: ast.ClassDef) -> bool:
    """Returns whether a class has what every conf has, going by what stands in its own body."""
    return set(_OF_A_CONF) <= set(_assigned(node))


def _assigned(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets = [statement.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))
