"""The dialect of bare Estimators: a module with `model_fn` or an Estimator, and optional input functions."""

from __future__ import annotations

from ..base import Dialect, Evidence
from .detection import find_estimator_use


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
