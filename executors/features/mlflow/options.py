"""The option of MLflow."""

from __future__ import annotations

from ...option import TRAINING, option

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
