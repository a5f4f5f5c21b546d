"""Detects that an interrupted run had completed an Estimator's training, but had not published the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from absl import logging

from ...checkpoints.trained_marker import TrainedMarker
from ...distributed import tf_config
from ...estimator.run_goals import stop_goal
from ...fn_args import FnArgs
from ...saved_models.locations import find_saved_model

if TYPE_CHECKING:
    from .training import EstimatorJob


class EndOfTraining:
    """Records the end of an Estimator's training, so that a retry resumes at the export.

    The record is needed because the last checkpoint alone does not show that training completed without `max_steps`, or
    after early stopping. It is kept in `fn_args.checkpoint_dir` on a single machine; cluster tasks record nothing.

    Args:
      job: The Estimator job. A record counts only for the same `max_steps` and early-stopping goal.
      fn_args: The run's arguments.
    """

    def __init__(self, job: EstimatorJob, fn_args: FnArgs) -> None:
        self._estimator = job.estimator
        folder = fn_args.checkpoint_dir if tf_config.task_from_environment() is None else None
        length = {"max_steps": job.train_spec.max_steps, "early_stop": str(stop_goal())}
        self._mark = TrainedMarker(folder, "estimator", length)

    def record(self, step: int) -> None:
        """Records the last training step."""
        self._mark.write(step=step)

    def record_export(self, metrics: dict[str, float]) -> None:
        """Records that the exporters have finished, with the metrics of the exported model."""
        if recorded := self._mark.read():
            self._mark.write(**recorded, metrics=metrics)

    def is_over(self) -> bool:
        """Whether the latest checkpoint is that of the recorded last step."""
        latest = self._estimator.latest_checkpoint() or ""
        if not latest or latest.rpartition("-")[2] != str(self._mark.read().get("step")):
            return False
        logging.info(
            "An earlier attempt finished training but published no model; resuming at the export of %s.", latest
        )
        return True

    def exported(self) -> dict[str, float] | None:
        """Returns the metrics of the model that an earlier attempt exported; None when there is none."""
        metrics: dict[str, float] | None = self._mark.read().get("metrics")
        if metrics is None or find_saved_model(self._estimator.model_dir) is None or not self.is_over():
            return None
        return metrics
