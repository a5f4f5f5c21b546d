"""Applies the goals of the options to Keras and Estimators."""

from __future__ import annotations

from ...keras.early_stopping import goals_applied
from ...training.worker_callbacks import Context, WorkerCallback


class EarlyStopping(WorkerCallback):
    """Applies `early_stop`, `best_model` and `stop_on_nan`."""

    order = 60

    def around(self) -> Context:
        """Applies them."""
        return goals_applied(self.request.options, self.request.fn_args)
