"""Collects the model's targets of a feature's values, row by row; see `label_mapping.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    from .plan import Scale

Value: TypeAlias = "str | int"

_MAX_VALUES = 1000  # of a table: features with more have no classes, but numbers or texts
_TOLERANCE = 1e-3  # relative, of a number that stays as it is: float16 has 11 bits


class TargetTable:
    """The target of each of a feature's values.

    Attributes:
      targets: {value: its target}; {} if there are too many values.
      rows: Number of rows with a value.
      conflict: Why a value has no single target; "" if each has one.
    """

    def __init__(self) -> None:
        self.targets: dict[Value, float] = {}
        self.rows = 0
        self.conflict = ""
        self._is_dropped = False

    def add(self, values: Sequence[Value | None], targets: Sequence[float]) -> None:
        """Adds rows, None for those without a value."""
        for value, target in zip(values, targets, strict=True):
            if value is None or self._is_dropped or self.conflict:
                continue
            self.rows += 1
            if (known := self.targets.setdefault(value, target)) != target:
                self.conflict = f"the training converts its value {value!r} to {known:g} and to {target:g}"
            if len(self.targets) > _MAX_VALUES:
                self.targets, self._is_dropped = {}, True


class TargetNumbers:
    """Whether a feature's numbers are the targets themselves.

    Attributes:
      rows: Number of rows with a number.
      has_fractions: Whether a target is not a whole number.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.has_fractions = False
        self._converted = 0
        self._example = (0.0, 0.0)
        self._known: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, values: np.ndarray, targets: np.ndarray) -> None:
        """Adds rows, NaN for those without a number."""
        import numpy as np

        is_known = np.isfinite(values)
        differs = is_known & ~np.isclose(values, targets, rtol=_TOLERANCE, atol=0.0)
        if not self._converted and differs.any():
            first = int(differs.argmax())
            self._example = float(values[first]), float(targets[first])
        self._known.append((values[is_known], targets[is_known]))
        self._converted += int(differs.sum())
        self.rows += int(is_known.sum())
        self.has_fractions |= bool((targets % 1 != 0).any())

    @property
    def conversion(self) -> str:
        """How the training converts the numbers; "" if it leaves them as they are, but for noise or limits."""
        if self._converted * 2 <= self.rows:
            return ""
        return "the training converts its numbers, such as {:g} to {:g}".format(*self._example)

    def scale(self) -> Scale:
        """Returns the numbers' scale if they determine the targets in order; see `label_scale`."""
        import numpy as np

        from .label_scale import scale_of

        values, targets = (np.concatenate(parts) for parts in zip(*self._known, strict=True))
        return scale_of(values, targets)
