"""The dialects of Estimators, and the detection of Estimators in a module's source before it is imported.

Estimators need Keras 2 in the process from the start. Where the source does not show the use, `tf.estimator` is
restored on access, and the training is restarted if `tf.keras` is Keras 3 by then.
"""

from __future__ import annotations

import ast
import re

from ...modules.source import imports_in, parsed
from ..base import Dialect, Evidence

_NAMES = re.compile(r"^(tf|tensorflow|tf_compat_v1)(\.compat\.v[12])?\.estimator\b|^tfma\.export\b")
_ENTRY_POINTS = ("trainer_fn",)


def find_estimator_use(path: str) -> tuple[int, str] | None:
    """Returns the line number and the code of an Estimator use in a source file, or None."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute) and _NAMES.search(ast.unparse(node)):
            return node.lineno, ast.unparse(node)
        if isinstance(node, ast.FunctionDef) and node.name in _ENTRY_POINTS:
            return node.lineno, f"def {node.name}"
        if isinstance(node, ast.ImportFrom) and node.module in ("tensorflow", "tensorflow.compat.v1"):
            names = [alias.name for alias in node.names]
            if "estimator" in names:
                return node.lineno, f"from {node.module} import estimator"
    for _, name in imports_in(path):
        if name.startswith(("tensorflow_estimator", "tensorflow.estimator", "tensorflow.python.estimator")):
            return 1, f"import {name}"
    return None


class ModelFnDialect(Dialect):
    """Modules with `model_fn` or an Estimator; see `ModelFnAdapter`."""

    needs = "a function model_fn(features, labels, mode, params), or an Estimator"
    entry_points = ("model_fn",)
    reads_examples = True
    keras = "2"
    no_scaffold = "it requires Estimators, which TensorFlow removed in 2.16"

    def detect(self, path: str) -> Evidence | None:
        """Returns where a file uses Estimators, for modules of any dialect."""
        use = find_estimator_use(path)
        return Evidence(*use, keras="2", uses_estimators=True) if use else None


class TrainerFnDialect(Dialect):
    """Modules with `trainer_fn(fn_args, schema)`; see `TrainerFnAdapter`."""

    needs = "a function trainer_fn(fn_args, schema) that returns a dict with estimator, train_spec and eval_spec"
    entry_points = ("trainer_fn",)
    keras = "2"
    no_scaffold = "it requires Estimators, which TensorFlow removed in 2.16"
