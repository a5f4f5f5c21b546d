"""The options of early stopping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...option import TRAINING, option

if TYPE_CHECKING:
    from ...goals import Goal

_PATIENCE = 3  # default of early_stop, in evaluations without improvement


def stop_goal(early_stop: str | None) -> Goal | None:
    """Returns the goal of the option `early_stop`, or None.

    Raises:
      InputError: If it is not of the form METRIC[:PATIENCE][:min|max].
    """
    return _goal(early_stop, "early_stop", _PATIENCE)


def best_goal(best_model: str | None) -> Goal | None:
    """Returns the goal of the option `best_model`, or None; raises an InputError like `stop_goal`."""
    return _goal(best_model, "best_model")


def _goal(value: str | None, name: str, patience: int = 0) -> Goal | None:
    if not value:
        return None
    from ...goals import Goal

    return Goal.parse(value, name, patience)


class EarlyStoppingOptions:
    """When a training ends, and which weights its model has."""

    early_stop: str | None = option(
        None,
        "Early stopping: METRIC[:PATIENCE][:min|max], such as val_loss:3. PATIENCE counts evaluations (default: 3).",
        group=TRAINING,
        order=60,
        check=stop_goal,
    )
    best_model: str | None = option(
        None,
        "Restore the weights of the best epoch after Keras's fit: METRIC[:min|max], such as val_auc.",
        group=TRAINING,
        order=60,
        check=best_goal,
    )
    stop_on_nan: bool = option(False, "Fail when the loss becomes NaN or infinite.", group=TRAINING, order=60)
