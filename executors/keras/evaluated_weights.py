"""Which weights were evaluated with which metrics, and which of them a SavedModel was published with.

    evaluated = [Evaluated(of_weights(model.weights), {"eval": {"loss": 0.3}}, {"source": "fit", "epoch": 3}), …]
    published(evaluated, live=of_weights(model.weights), saved=of_saved_model(folder))

Whatever restored the weights (EarlyStopping, `best_model`, `load_weights`, another model object that loads a file), the
decision is made by comparing the weights themselves.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Sequence
from typing import TypedDict

from ..monitoring.metrics import Metrics
from ..runtime.files import file_io
from .weight_fingerprints import kind_of


class Origin(TypedDict, total=False):
    """Where metrics come from: `source` is "fit" or "evaluate"; only a fit has a number and an epoch."""

    source: str
    fit: int
    epoch: int


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """Metrics of a model with certain weights.

    Attributes:
      weights: Their fingerprints.
      metrics: {"train": {...}, "eval": {...}}; either may be missing.
      origin: Where the metrics come from, as in `RunRecord.metrics_from`.
    """

    weights: tuple[str, ...]
    metrics: Metrics
    origin: Origin

    def to_line(self) -> str:
        """Returns it as a line of JSON."""
        return json.dumps(dataclasses.asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Evaluated:
        """Reads it back.

        Raises:
          ValueError: When the line is cut off.
        """
        state = json.loads(line)
        return cls(tuple(state["weights"]), state["metrics"], state["origin"])


def published(evaluated: Sequence[Evaluated], live: tuple[str, ...], saved: frozenset[str]) -> tuple[str, ...] | None:
    """Returns the fingerprints of the published weights, of those that were evaluated or are in memory.

    A SavedModel may have more variables than the model (a vocabulary, an optimizer's slots), fewer (an exported
    encoder), or others (quantized). It rules out weights that it has other values for. Among those that remain,
    those with most weights in it are taken; of equal ones those in memory, then the latest.

    Args:
      evaluated: All that were evaluated, in order.
      live: The weights of the last fitted model, as it is now.
      saved: The variables of the SavedModel; empty where they are not known.

    Returns:
      None when the SavedModel has values that neither an evaluated model nor the one in memory has.
    """
    known = [one.weights for one in evaluated]
    candidates = [weights for weights in [*known, live] if weights and _is_possible(weights, saved)]
    return max(reversed(candidates), key=lambda weights: _share(weights, saved), default=None)


def _share(weights: tuple[str, ...], saved: frozenset[str]) -> float:
    return sum(weight in saved for weight in weights) / len(weights)


def _is_possible(weights: tuple[str, ...], saved: frozenset[str]) -> bool:
    missing = {kind_of(weight) for weight in weights if weight not in saved}
    others = {kind_of(weight) for weight in saved - set(weights)}
    return not missing & others


class Kept:
    """Evaluations beside the checkpoints, by which a run that resumes knows those of the tries before.

    A line belongs to weights, not to a run, so lines of other tries are harmless.

    Args:
      path: The file; "" for none. Outside of local disks nothing is kept: such a run evaluates once more.
    """

    def __init__(self, path: str) -> None:
        self._path = "" if file_io.is_remote(path) else path

    def read(self) -> list[Evaluated]:
        """Returns what is kept; a line that a kill cut off is left out."""
        found = []
        with contextlib.suppress(OSError), open(self._path, encoding="utf-8") as lines:
            for line in lines:
                with contextlib.suppress(ValueError, KeyError):
                    found.append(Evaluated.from_line(line))
        return found

    def add(self, one: Evaluated) -> None:
        """Adds one; a disk that refuses must not end a training."""
        if not self._path:
            return
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(one.to_line())
