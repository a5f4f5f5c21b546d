"""Quantities as cells of a report's tables."""

from __future__ import annotations

from ..runtime.quantities import duration_text, size_text
from .document import BAD, GOOD, Cell


def seconds(value: float) -> Cell:
    """Returns a duration."""
    return Cell(duration_text(value), is_number=True)


def size(value: float) -> Cell:
    """Returns a number of bytes."""
    return Cell(size_text(value), is_number=True)


def share(value: float) -> Cell:
    """Returns a share of 1 in percent, with a bar."""
    return Cell(f"{100 * value:.1f} %", is_number=True, share=max(0.0, min(1.0, value)))


def difference(value: float, other: float, higher_is_better: bool | None = None) -> Cell:
    """Returns how much `value` is above `other`, in a tone where it is known which is better."""
    change = value - other
    tone = ""
    if higher_is_better is not None and change:
        tone = GOOD if (change > 0) == higher_is_better else BAD
    relative = f" ({100 * change / abs(other):+.3g} %)" if other else ""
    return Cell(f"{change:+.4g}{relative}" if change else "0", is_number=True, tone=tone)
