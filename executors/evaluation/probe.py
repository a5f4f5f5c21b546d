"""Subprocess that checks a SavedModel and makes its evaluation plan.

check_saved_model(folder, …, **planning_arguments(evidence=result["evaluation_evidence"]))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..saved_models import probe
from .planning import plan_from_json

if TYPE_CHECKING:
    from ..saved_models.check import ProbeReport, ProbeRequest
    from .planning import PlanningFacts

    class PlanningRequest(ProbeRequest):
        """Request for a check with an evaluation plan; see `model_check.planning_arguments`."""

        evaluation: PlanningFacts


def execute(request: PlanningRequest) -> ProbeReport:
    """Entry point of the subprocess: returns the check's report, with the evaluation plan."""
    report = probe.execute(request)
    plan = plan_from_json(
        request["model"], request["schema_path"], request["transform_graph_path"], request["evaluation"]
    )
    return {**report, "evaluation_plan": plan.to_json()}
