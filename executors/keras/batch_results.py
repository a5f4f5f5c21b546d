"""Metrics from the return values of `train_on_batch` and `test_on_batch`, for modules with custom training loops.

with observed_by(KerasBatches()) as batches:
    run_fn(fn_args)
batches.metrics()  # {"train": {"loss": 0.3}, "eval": {"loss": 0.4}}: the last return value for each split
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..monitoring.metrics import Metrics, finite, numbers_in
from .interception import KerasObserver

if TYPE_CHECKING:
    import keras


class KerasBatches(KerasObserver):
    """The last return value for each split. It is converted to metrics only on request, to keep batches cheap."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[keras.Model, object]] = {}

    def note_batch(self, split: str, model: keras.Model, returned: object) -> None:
        """Stores the return value of a call."""
        self._last[split] = (model, returned)

    def metrics(self) -> Metrics:
        """Returns the metrics by split and name; a split without calls is missing."""
        named = {split: finite(numbers_in(_named(model, values))) for split, (model, values) in self._last.items()}
        return {split: values for split, values in named.items() if values}


def _named(model: keras.Model, values: object) -> dict[str, object]:
    """Returns the value of a Keras call (a dict, a list or a number) by metric name."""
    if isinstance(values, dict):
        return values
    listed = values if isinstance(values, (list, tuple)) else [values]
    names = list(model.get_metrics_result())  # in the order of the returned list
    return dict(zip(names, listed, strict=False)) if len(names) == len(listed) else {}
