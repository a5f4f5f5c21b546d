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
    if signature is None or (len(signature.inputs) != 1 and not plan.takes_tensors):
        return False
    return all(one.output in signature.outputs for one in plan.outputs)
