"""What `train_on_batch` and `test_on_batch` return, with which modules write training loops of their own.

with observed_by(KerasBatches()) as batches:
    run_fn(fn_args)
batches.metrics()  # {"train": {"loss": 0.3}, "eval": {"loss": 0.4}}: what the last call for each split returned
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..monitoring.metrics import Metrics, finite, numbers_in
from .interception import KerasObserver

if TYPE_CHECKING:
    import keras


class KerasBatches(KerasObserver):
    """What the last call for each split returned. Nothing is computed while a block runs."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[keras.Model, object]] = {}

    def note_batch(self, split: str, model: keras.Model, returned: object) -> None:
        """Takes note of what a call returned."""
        self._last[split] = (model, returned)

    def metrics(self) -> Metrics:
        """Returns the numbers by split and name; a split without calls is missing."""
        named = {split: finite(numbers_in(_named(model, values))) for split, (model, values) in self._last.items()}
        return {split: values for split, values in named.items() if values}


def _named(model: keras.Model, values: object) -> dict[str, object]:
    """Returns what Keras returns, a dict, a list or a number, by the names of the model's metrics."""
    if isinstance(values, dict):
        return values
    listed = values if isinstance(values, (list, tuple)) else [values]
    names = list(model.get_metrics_result())  # in the order of the list
    return dict(zip(names, listed, strict=False)) if len(names) == len(listed) else {}
