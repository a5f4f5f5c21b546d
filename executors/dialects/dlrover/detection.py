"""Detects DLRover confs, and files that import DLRover, by their source before they are imported.

Detection cannot wait for the import: before the module's first line runs, the shims for DLRover's packages must be
installed, TensorFlow 2 behavior disabled as in DLRover's trainer, and `tf.estimator` restored.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...modules.defined_names import first_import
from ...modules.source import parsed

_PACKAGES = ("dlrover",)
_CONF_ATTRIBUTES = ("train_set", "classifier_class")


def find_dlrover_use(path: str) -> tuple[int, str] | None:
    """Returns the line number and the code that identify a source file as one for DLRover, or None.

    Such a file imports DLRover, or defines a conf class.
    """
    if use := first_import(path, _PACKAGES):
        return use
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ClassDef) and is_conf(node):
            return node.lineno, f"class {node.name} with {' and '.join(_CONF_ATTRIBUTES)}, as in DLRover"
    return None


def is_conf(node: ast.ClassDef) -> bool:
    """Returns whether a class body assigns both `train_set` and `classifier_class`."""
    return set(_CONF_ATTRIBUTES) <= set(_assigned_names(node))


def _assigned_names(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets = [statement.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))
