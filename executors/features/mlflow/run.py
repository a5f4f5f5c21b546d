"""Begins a run in MLflow, and logs its results."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ...option import TRAINING, option
from ...training.callbacks import Context, RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run

_TRACKING_URI = "MLFLOW_TRACKING_URI"
MLFLOW, NONE = "mlflow", "none"  # with "auto", the variable decides


class MlflowOptions:
    """Whether to track a run."""

    track: str = option(
        "auto",
        "Experiment tracker: mlflow, none, or auto: MLflow if MLFLOW_TRACKING_URI is set.",
        ("auto", MLFLOW, NONE),
        group=TRAINING,
        order=90,
    )


class Mlflow(RunCallback):
    """Begins a run in MLflow, and logs the record, the report and the model when they are written."""

    order = 20

    def run(self, run: Run) -> Context:
        """Logs the run, in the chief of a cluster only."""
        args, track = run.fn_args, run.options.track
        server = os.environ.get(_TRACKING_URI, "")
        is_wanted = track == MLFLOW or (track != NONE and bool(server))
        if not is_wanted or not run.place.is_chief:
            return contextlib.nullcontext()
        from .tracked_run import tracked

        return tracked(run.record, args.model_run_dir, args.serving_model_dir, server, is_required=track == MLFLOW)
