"""Warns before the training of a script's Estimator that nothing exports its model.

with observed_by(ExportWatch("census.py")):
    run_code()
"""

from __future__ import annotations

import pathlib
import re
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING

from absl import logging

from ...estimator.interception import EstimatorCall, EstimatorObserver
from ...modules.source import find_source

if TYPE_CHECKING:
    import tensorflow as tf

# What follows the training cannot be seen before it, so the files' text decides. A warning needs that they call no
# function that writes a SavedModel; one that is never called is found after the training.
_EXPORTS = re.compile(r"(?:export\w*|\bsave|save_model|simple_save|SavedModelBuilder)\(")


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
        if not any(_EXPORTS.search(pathlib.Path(file).read_text("utf-8", "replace")) for file in files):
            logging.warning(
                "%s trains an Estimator, but nothing in its code exports a SavedModel; without one, the run fails "
                "after the training. Call export_saved_model(folder, serving_input_receiver_fn) of the Estimator then, "
                "or set exporters of the EvalSpec. With --no-model, the run succeeds without a model.", self._path,
            )  # fmt: skip
