"""The evaluation plan as a part of the check of a SavedModel, made in the process of that check.

report = check_saved_model(folder, …, **planning_arguments(evidence=result["evaluation_evidence"]))
EvaluationPlan.from_json(report.evaluation_plan)
"""

from __future__ import annotations

from typing import Any

PROBE = f"{__package__}.probe"  # imports TensorFlow


def planning_arguments(**known: Any) -> dict[str, Any]:
    """Returns the arguments of `check_saved_model` that add the evaluation plan to its report.

    Args:
      **known: `evidence`, `overrides` and `features`, as JSON values; see `planning.plan_from`.
    """
    return {"probe": PROBE, "probe_arguments": {"evaluation": known}}
