"""Formats quantities as table cells of a report."""

from __future__ import annotations

from ..runtime.quantities import duration_text, size_text
from .document import BAD, GOOD, Cell


def seconds(value: float) -> Cell:
    """Returns a duration in seconds as a cell."""
    return Cell(duration_text(value), is_number=True)


def size(value: float) -> Cell:
    """Returns a number of bytes as a cell."""
    return Cell(size_text(value), is_number=True)


def share(value: float) -> Cell:
    """Returns a fraction of 1 as a cell with a percentage and a bar."""
    return Cell(f"{100 * value:.1f} %", is_number=True, share=max(0.0, min(1.0, value)))


def difference(value: float, other: float, higher_is_better: bool | None = None) -> Cell:
    """Returns the difference `value - other` as a cell, with a tone if it is known which direction is better."""
    change = value - other
    tone = ""
    if higher_is_better is not None and change:
        tone = GOOD if (change > 0) == higher_is_better else BAD
    relative = f" ({100 * change / abs(other):+.3g} %)" if other else ""
    return Cell(f"{change:+.4g}{relative}" if change else "0", is_number=True, tone=tone)
