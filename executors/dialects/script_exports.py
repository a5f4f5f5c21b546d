"""Warns before the training of a script's Estimator that nothing exports its model.

with observed_by(ExportWatch("census.py")):
    run_code()
"""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from absl import logging

from ..estimator.interception import EstimatorCall, EstimatorObserver
from ..modules.source import find_source, parsed

if TYPE_CHECKING:
    import tensorflow as tf

# Functions that write a SavedModel, or that may: `save` is also a method of other objects.
_EXPORTS = re.compile(r"\w*export\w*|save|save_model|simple_save|savedmodelbuilder", re.IGNORECASE)


class ExportWatch(EstimatorObserver):
    """Warns once, when an Estimator begins to train, if neither its EvalSpec nor the script's files export a model."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_known = False

    def train_and_evaluate(self, call: EstimatorCall, proceed: Callable[[], None]) -> None:
        """Notes whether the EvalSpec has exporters."""
        self._is_known = self._is_known or bool(call.arguments["eval_spec"].exporters)
        proceed()

    def train(self, call: EstimatorCall, proceed: Callable[[], tf.estimator.Estimator]) -> tf.estimator.Estimator:
        """Warns before the first training."""
        if not self._is_known:
            self._is_known = True
            self._warn()
        return proceed()

    def _warn(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            files = find_source(self._path, scratch).files
        if not any(_EXPORTS.fullmatch(name) for file in files for name in _called_names(file)):
            logging.warning(
                "%s trains an Estimator, but nothing in its code exports a SavedModel; without one, the run fails "
                "after the training. Call export_saved_model(folder, serving_input_receiver_fn) of the Estimator then, "
                "or set exporters of the EvalSpec. With --no-model, the run succeeds without a model.", self._path,
            )  # fmt: skip


def _called_names(path: str) -> Iterator[str]:
    """Yields the last names of the functions that a file calls: "export_saved_model" for `a.b.export_saved_model()`."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Attribute, ast.Name)):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
