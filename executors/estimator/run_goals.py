"""The run's goals of early stopping and of the best weights, for Estimators."""

from __future__ import annotations

import dataclasses

from .. import run_context
from ..errors import InputError
from ..goals import Goal


@dataclasses.dataclass
class RunGoals:
    """The goals of a run, a part of its context.

    Attributes:
      stop: The goal of `early_stop`, or None.
      best: The goal of `best_model`, or None.
      are_used: Whether a `fit` or an Estimator has applied them.
    """

    stop: Goal | None
    best: Goal | None
    are_used: bool = False


def stop_goal() -> Goal | None:
    """Returns the early-stopping goal of the run, or None.

    Raises:
      InputError: If `best_model` is set; the module's own exporter chooses the best model.
    """
    goals = run_context.part(RunGoals)
    if goals is None:
        return None
    goals.are_used = True
    if goals.best is not None:
        raise InputError(
            f"best_model={goals.best}: an Estimator exports its best model with a tf.estimator.BestExporter in its "
            "EvalSpec. Remove best_model."
        )
    return goals.stop
