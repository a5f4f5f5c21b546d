"""Reads the evaluation plan from the record of a training run."""

from __future__ import annotations

import os

from ..monitoring import run_record
from .plan import EvaluationPlan

_MODEL, _MODEL_RUN = "model", "model_run"


def recorded_plan_of(model: str) -> EvaluationPlan | None:
    """Returns the plan in the record of the run that trained a model; None if there is no record or plan.

    Finds the record by the directory layouts of `train` and the Trainer component: `OUT/model/Format-Serving` has its
    record in `OUT/model_run`, `Trainer/model/7/Format-Serving` in `Trainer/model_run/7`.

    Args:
      model: The SavedModel's folder.
    """
    artifact = os.path.dirname(model.rstrip("/"))
    above, name = os.path.split(artifact)
    if name == _MODEL:
        place = os.path.join(above, _MODEL_RUN)
    elif os.path.basename(above) == _MODEL:
        place = os.path.join(os.path.dirname(above), _MODEL_RUN, name)
    else:
        return None
    state = run_record.read(place).get("evaluation_plan")
    return EvaluationPlan.from_json(state) if state else None
