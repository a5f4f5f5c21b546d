"""Keeps models whose answers depend on the batch from being blessed and pushed; see `saved_models.batch_dependence`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..executors.saved_models.model_check import BATCH_DEPENDENCE

if TYPE_CHECKING:
    from tfx import types

ALLOW = "allow_batch_dependent"  # parameter of Evaluator and Pusher


def refusal(models: Sequence[types.Artifact], *, is_allowed: bool) -> str:
    """Returns why the model is not pushed; "" if nothing speaks against it.

    Args:
      models: The Model artifact with the Trainer's properties; may be empty.
      is_allowed: Whether the answers may depend on the batch.
    """
    outcomes = [model.get_string_custom_property(BATCH_DEPENDENCE) for model in models]
    if is_allowed or not any(outcomes):
        return ""
    return (
        f"the model's check {outcomes[0]}. If the model is meant to compare the examples of a batch, set "
        "--allow-batch-dependent (in Python allow_batch_dependent=True)"
    )
