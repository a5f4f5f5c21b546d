"""Which weights were evaluated with which metrics, and which of them are in the published SavedModel.

    evaluated = [Evaluated(of_weights(model.weights), {"eval": {"loss": 0.3}}, {"source": "fit", "epoch": 3}), …]
    published_weights(evaluated, live=of_weights(model.weights), saved=of_saved_model(folder))

Published weights are identified by comparing fingerprints, so it does not matter how they were restored (EarlyStopping,
`best_model`, `load_weights`, or another model object that loads a file).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypedDict

from ..monitoring.metrics import Metrics
from ..runtime.files.json_data import JsonData
from .weight_fingerprints import kind_of


class Origin(TypedDict, total=False):
    """Origin of metrics: `source` is "fit" or "evaluate"; only a fit has a number and an epoch."""

    source: str
    fit: int
    epoch: int


@dataclasses.dataclass(frozen=True)
class Evaluated(JsonData):
    """Metrics of a model with certain weights.

    Attributes:
      weights: Fingerprints of the weights.
      metrics: {"train": {...}, "eval": {...}}; either may be missing.
      origin: Origin of the metrics, as in `RunRecord.metrics_from`.
    """

    weights: tuple[str, ...]
    metrics: Metrics
    origin: Origin


def published_weights(
    evaluated: Sequence[Evaluated], live: tuple[str, ...], saved: frozenset[str]
) -> tuple[str, ...] | None:
    """Returns the fingerprints of the published weights, chosen from the evaluated weights and those in memory.

    A SavedModel may have more variables than the model (a vocabulary, optimizer slots), fewer (an exported encoder),
    or different ones (quantized). Weights are excluded if the SavedModel has different values for them. Of the
    remaining candidates, the one with the largest share of its weights in the SavedModel is returned; ties go to the
    weights in memory, then to the latest evaluation.

    Args:
      evaluated: All evaluations, in order.
      live: Current weights of the last fitted model.
      saved: Variables of the SavedModel; empty if not known.

    Returns:
      Fingerprints, or None if the SavedModel matches neither an evaluated model nor the one in memory.
    """
    known = [each.weights for each in evaluated]
    candidates = [weights for weights in [*known, live] if weights and _is_possible(weights, saved)]
    return max(reversed(candidates), key=lambda weights: _share(weights, saved), default=None)


def _share(weights: tuple[str, ...], saved: frozenset[str]) -> float:
    return sum(weight in saved for weight in weights) / len(weights)


def _is_possible(weights: tuple[str, ...], saved: frozenset[str]) -> bool:
    missing = {kind_of(weight) for weight in weights if weight not in saved}
    others = {kind_of(weight) for weight in saved - set(weights)}
    return not missing & others
