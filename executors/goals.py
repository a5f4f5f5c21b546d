"""The monitored metric of early stopping and of the best weights: its name, direction and patience.

goal = Goal.parse("val_loss:3", "early_stop")  # or "val_loss:3:min"
goal.is_over([0.5, 0.4, 0.45, 0.5, 0.6])       # True: the last three were no better than 0.4
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from .errors import InputError
from .number_range import POSITIVE

MIN, MAX = "min", "max"
_HIGHER = ("acc", "auc", "precision", "recall", "f1", "fbeta", "r2", "iou", "ndcg", "mrr", "hit")
_LOWER = ("loss", "error", "entropy", "false", "perplexity")


@dataclasses.dataclass(frozen=True)
class Goal:
    """A monitored metric, with the direction in which it improves.

    Attributes:
      metric: Name of the metric, as in the `logs` of Keras's `fit` or in an Estimator's evaluation results.
      patience: Number of consecutive evaluations without improvement after which training stops; 0 if not used.
      direction: "min" or "max".
    """

    metric: str
    patience: int
    direction: str

    @classmethod
    def parse(cls, text: str, option: str, patience: int = 0) -> Goal:
        """Reads METRIC[:PATIENCE][:min|max].

        Args:
          text: Text to parse. If it has no direction, `direction_of` infers it from the metric's name.
          option: Name of the option that has this value, for error messages.
          patience: Default if the text has no patience.

        Raises:
          InputError: If the text has another format.
        """
        metric, *others = text.split(":")
        direction = direction_of(metric)
        for other in others:
            if other in (MIN, MAX):
                direction = other
            elif number := POSITIVE.parse(other):
                patience = int(number)
            else:
                raise InputError(f"{option}={text!r}: use METRIC[:PATIENCE][:min|max], such as val_loss:3.")
        if not metric or len(others) > 2:
            raise InputError(f"{option}={text!r}: use METRIC[:PATIENCE][:min|max], such as val_loss:3.")
        return cls(metric, patience, direction)

    def __str__(self) -> str:
        return ":".join([self.metric, *([str(self.patience)] if self.patience else []), self.direction])

    def is_better(self, value: float, than: float) -> bool:
        """Returns whether a value is better than another; every number is better than NaN."""
        if math.isnan(value) or math.isnan(than):
            return math.isnan(than) and not math.isnan(value)
        return value < than if self.direction == MIN else value > than

    def best(self, values: Sequence[float]) -> int:
        """Returns the index of the best value, of the first one if there are several."""
        best = 0
        for place, value in enumerate(values):
            if self.is_better(value, values[best]):
                best = place
        return best

    def is_over(self, values: Sequence[float]) -> bool:
        """Returns whether none of the last `patience` values improved on the best value before them."""
        return bool(values) and len(values) - 1 - self.best(values) >= self.patience > 0


def direction_of(metric: str) -> str:
    """Returns "max" if the metric's name indicates that higher is better (such as "auc"), otherwise "min"."""
    name = metric.lower()
    if any(part in name for part in _LOWER):
        return MIN
    return MAX if any(part in name for part in _HIGHER) else MIN
