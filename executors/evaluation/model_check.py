"""Plans the evaluation of a model in the process that checks it.

    check_saved_model(folder, …, parts={"evaluation": {"evidence": …}}).parts["evaluation"]

The part of the request is made of `PlanningFacts`; without it, there is no plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..saved_models.model_check import ModelCheck
from .evidence import TrainingEvidence
from .plan import Overrides
from .planning import plan_of

if TYPE_CHECKING:
    from ..saved_models.checked_model import CheckedModel
    from .planning import PlanningFacts


class Evaluation(ModelCheck):
    """The evaluation can be planned; the plan names the problem otherwise, as a model need not be evaluated."""

    order = 45
    needs = ("parses",)

    def applies(self, model: CheckedModel) -> bool:
        """Whether a plan is wanted."""
        return "evaluation" in model.request.parts

    def check(self, model: CheckedModel) -> str | None:
        """Adds the plan to the report."""
        request = model.request
        known: PlanningFacts = request.parts["evaluation"]
        plan = plan_of(
            request.model,
            TrainingEvidence.from_json(known["evidence"]) if known.get("evidence") else None,
            request.schema_path,
            request.transform_graph_path,
            Overrides(**known.get("overrides", {})),
            known.get("features"),
        )
        self.part = plan.to_json()
        return f"skipped: {plan.problem}" if plan.problem else None
