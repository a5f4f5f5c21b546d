"""The process that checks a SavedModel and plans its evaluation.

check_saved_model(folder, …, **planning_arguments(evidence=result["evaluation_evidence"]))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..saved_models import probe
from .planning import plan_from

if TYPE_CHECKING:
    from ..saved_models.check import ProbeReport, ProbeRequest
    from .planning import Known

    class PlanningRequest(ProbeRequest):
        """A check of a model with a plan of its evaluation; see `model_check.planning_arguments`."""

        evaluation: Known


def execute(request: PlanningRequest) -> ProbeReport:
    """Checks the model and plans its evaluation; returns the fields of the check's report."""
    report = probe.execute(request)
    plan = plan_from(request["model"], request["schema_path"], request["transform_graph_path"], request["evaluation"])
    return {**report, "evaluation_plan": plan.to_json()}
