"""Compares a model's answers for an example alone, among copies of itself, and in a batch with other examples.

- Float arithmetic rounds differently in batches of another size, but alike among copies and among other examples.
- A random model, such as one that samples, also differs between equal calls. Then distributions are compared.
- Outputs may be padded to the longest example of the batch. Their common part is compared.

Usage:

    answers = RepeatedAnswers.of([[alone, alone], [in_copies, in_copies], [in_batch, in_batch]], is_half=False)
    answers.dependent_values()      # array([0, 2])
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

_TOLERANCE = 1e-3  # relative, in float32: kernels differ by about 1e-6 between batch sizes, and errors add up in layers
_HALF_TOLERANCE = 0.02  # 2.5 units of bfloat16: batches of one size are rounded alike, but for more padding
_SIZE_TOLERANCE = 0.01  # rounding in float32 does not change most answers that much
_OF_SCALE = 0.1  # share of the tolerance that holds relative to the largest value: small ones are often differences
_FALSE_ALARMS = 1e-6  # probability that an output that is only random seems to depend on the batch
_RANDOM_VALUES = 1000  # compared of a random output


def is_equal(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two answers are equal up to rounding in float32."""
    first, second = _common_parts([first, second])
    return not _differing(first, second, _TOLERANCE).any()


@dataclasses.dataclass(frozen=True)
class RepeatedAnswers:
    """The values of one output for one example, a row for each call.

    Attributes:
      alone: The example is the only one.
      copies: It is in a batch of copies of itself.
      together: It is in a batch of the same size with other examples.
      is_half: Whether the model computes with floats of 16 bits.
    """

    alone: np.ndarray
    copies: np.ndarray
    together: np.ndarray
    is_half: bool

    @classmethod
    def of(cls, calls: Sequence[Sequence[np.ndarray]], *, is_half: bool) -> RepeatedAnswers:
        """Stacks the answers of calls of each kind."""
        rows = iter(_common_parts([answer for answers in calls for answer in answers]))
        alone, copies, together = (np.stack([next(rows) for _ in answers]) for answers in calls)
        return cls(alone, copies, together, is_half)

    @property
    def is_random(self) -> bool:
        """Whether equal calls have different answers."""
        return any(
            _differing(rows[0], row, self._tolerance).any()
            for rows in (self.alone, self.copies, self.together)
            for row in rows[1:]
        )

    def dependent_values(self) -> np.ndarray:
        """Returns the positions of the values that depend on the other examples."""
        if self.is_random:
            return np.flatnonzero(_differently_distributed(self.copies, self.together))
        differing = _differing(self.copies[0], self.together[0], self._tolerance)
        return np.flatnonzero(differing)

    def size_dependent_values(self) -> np.ndarray:
        """Returns the positions of the values that differ alone; rounding may decide, such as between equal scores."""
        if self.is_random or self.is_half or self.alone.dtype.kind != "f":
            return np.flatnonzero(())
        return np.flatnonzero(_differing(self.alone[0], self.together[0], _SIZE_TOLERANCE))

    def typical(self, rows: np.ndarray) -> np.ndarray:
        """Returns the values of `alone`, `copies` or `together`: means of a random output, if it has numbers."""
        values: np.ndarray = rows.mean(axis=0) if self.is_random and rows.dtype.kind != "O" else rows[0]
        return values

    @property
    def _tolerance(self) -> float:
        return _HALF_TOLERANCE if self.is_half else _TOLERANCE


def _common_parts(answers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns the values that all answers have, as vectors."""
    common = tuple(slice(size) for size in np.min([answer.shape for answer in answers], axis=0))
    return [answer[common].reshape(-1) for answer in answers]


def _differing(first: np.ndarray, second: np.ndarray, tolerance: float) -> np.ndarray:
    """Returns for each value whether it differs; integers and texts must be equal."""
    unequal: np.ndarray = first != second
    if first.dtype.kind != "f" or not unequal.any():
        return unequal
    sizes = np.maximum(np.abs(first), np.abs(second))
    limits = tolerance * (sizes + _OF_SCALE * np.where(np.isfinite(sizes), sizes, 0).max())
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        is_close = (np.abs(first - second) <= limits) & np.isfinite(sizes)
    differing: np.ndarray = unequal & ~is_close & ~(np.isnan(first) & np.isnan(second))
    return differing


def _differently_distributed(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns for each column whether its values have different distributions, by the Kolmogorov-Smirnov test."""
    calls, columns = first[:, :_RANDOM_VALUES].shape
    limit = np.sqrt(np.log(2 * columns / _FALSE_ALARMS) / calls)
    differences = [_largest_difference(first[:, column], second[:, column]) for column in range(columns)]
    differing: np.ndarray = np.array(differences) > limit
    return differing


def _largest_difference(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the largest difference of the shares of values up to any value."""
    values = np.concatenate([first, second])
    shares = (np.searchsorted(np.sort(sample), values, side="right") / len(sample) for sample in (first, second))
    return float(np.abs(np.subtract(*shares)).max())
