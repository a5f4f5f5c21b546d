"""Adds the evaluation plan to the check of a SavedModel; the plan is made in the check's subprocess.

report = check_saved_model(folder, …, **planning_arguments(evidence=result["evaluation_evidence"]))
EvaluationPlan.from_json(report.evaluation_plan)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .planning import PlanningFacts

PROBE = f"{__package__}.probe"  # imports TensorFlow


class PlanningArguments(TypedDict):
    """Additional arguments of `check_saved_model`."""

    probe: str
    probe_arguments: dict[str, PlanningFacts]


def planning_arguments(**known: Unpack[PlanningFacts]) -> PlanningArguments:
    """Returns the arguments of `check_saved_model` that add the evaluation plan to its report.

    Args:
      **known: `evidence`, `overrides` and `features`, as JSON values; see `planning.plan_from_json`.
    """
    return {"probe": PROBE, "probe_arguments": {"evaluation": known}}
