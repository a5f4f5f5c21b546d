"""Checks whether an evaluation plan made for one SavedModel applies to another."""

from __future__ import annotations

from ..saved_models.signatures import meta_graph_of
from .plan import EvaluationPlan


def is_compatible(plan: EvaluationPlan, model: str) -> bool:
    """Whether a SavedModel has the signature and outputs that a plan names.

    Raises:
      OSError, ValueError: If there is no readable SavedModel.
    """
    signature = meta_graph_of(model).signature_def.get(plan.signature)
    if signature is None:
        return False
    unknown = plan.takes_tensors and not plan.inputs
    if not unknown and len(set(signature.inputs) - set(plan.inputs)) != (not plan.takes_tensors):
        return False
    return all(one.output in signature.outputs for one in plan.outputs)
