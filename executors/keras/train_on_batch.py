"""Observes `train_on_batch` and `test_on_batch`, with which modules write training loops of their own.

with observed() as batches:
    run_fn(fn_args)
batches.metrics()  # {"train": {"loss": 0.3}, "eval": {"loss": 0.4}}: what the last call for each split returned
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..monitoring.metrics import Metrics, finite, numbers_in
from .interception import fits_by


@contextlib.contextmanager
def observed() -> Iterator[KerasBatches]:
    """Observes the calls of a block. Nothing is computed while it runs: a call may be made thousands of times."""
    seen = KerasBatches()
    with fits_by(seen.noting("train"), "train_on_batch"), fits_by(seen.noting("eval"), "test_on_batch"):
        yield seen


class KerasBatches:
    """What the last call for each split returned."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Any, Any]] = {}

    def noting(self, split: str) -> Callable[..., Any]:
        """Returns a function that is called in place of the method, and notes what that returns."""

        def call(original: Callable[..., Any], model: Any, *args: Any, **options: Any) -> Any:
            returned = original(model, *args, **options)
            self._last[split] = (model, returned)
            return returned

        return call

    def metrics(self) -> Metrics:
        """Returns the numbers by split and name; a split without calls is missing."""
        named = {split: finite(numbers_in(_named(model, values))) for split, (model, values) in self._last.items()}
        return {split: values for split, values in named.items() if values}


def _named(model: Any, values: Any) -> dict[str, Any]:
    """Returns what Keras returns, a dict, a list or a number, by the names of the model's metrics."""
    if isinstance(values, dict):
        return values
    listed = values if isinstance(values, (list, tuple)) else [values]
    names = list(model.get_metrics_result())  # in the order of the list
    return dict(zip(names, listed, strict=False)) if len(names) == len(listed) else {}
