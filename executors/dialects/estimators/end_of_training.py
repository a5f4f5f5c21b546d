"""Whether an Estimator's training is over that was run before, in a run that published nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from absl import logging

from ...checkpoints.trained_marker import TrainedMark
from ...distributed import tf_config
from ...fn_args import FnArgs
from ...keras import early_stopping
from ...saved_models.locations import find_saved_model

if TYPE_CHECKING:
    from .training import EstimatorJob


class EndOfTraining:
    """The end of an Estimator's training on one machine; the tasks of a cluster note none.

    Without `max_steps`, or where training was stopped early, the last checkpoint alone doesn't show that it is the end.

    Args:
      job: The Estimator; how long it is to train has to be the same for its end to count.
      fn_args: The run's own arguments.
    """

    def __init__(self, job: EstimatorJob, fn_args: FnArgs) -> None:
        self._estimator = job.estimator
        folder = fn_args.checkpoint_dir if tf_config.task_from_environment() is None else None
        length = {"max_steps": job.train_spec.max_steps, "early_stop": str(early_stopping.stop_of_estimator())}
        self._mark = TrainedMark(folder, "estimator", length)

    def note(self, step: int) -> None:
        """Notes the step that was the last one."""
        self._mark.write(step=step)

    def note_export(self, metrics: dict[str, float]) -> None:
        """Notes that the exporters are through, with the metrics of what they exported."""
        if noted := self._mark.read():
            self._mark.write(**noted, metrics=metrics)

    def is_over(self) -> bool:
        """Whether the last checkpoint is that of the last step."""
        latest = self._estimator.latest_checkpoint() or ""
        if not latest or latest.rpartition("-")[2] != str(self._mark.read().get("step")):
            return False
        logging.info("An earlier try had trained, but published no model: resuming at the export of %s.", latest)
        return True

    def exported(self) -> dict[str, float] | None:
        """Returns the metrics of the model that an earlier try has exported; None when there is none."""
        metrics: dict[str, float] | None = self._mark.read().get("metrics")
        if metrics is None or find_saved_model(self._estimator.model_dir) is None or not self.is_over():
            return None
        return metrics
