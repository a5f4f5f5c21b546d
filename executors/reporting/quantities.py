"""Quantities as people read them: seconds, bytes, shares, differences."""

from __future__ import annotations

from .document import BAD, GOOD, Cell

_BYTES = ("B", "kB", "MB", "GB", "TB")


def seconds(value: float) -> Cell:
    """Returns a duration: "43 µs", "1.4 ms", "12.3 s", "4 min 5 s", "2 h 3 min"."""
    if value < 1e-3:
        text = f"{1e6 * value:.3g} µs"
    elif value < 1:
        text = f"{1000 * value:.3g} ms"
    elif value < 60:
        text = f"{value:.3g} s"
    elif value < 3600:
        text = f"{value // 60:.0f} min {value % 60:.0f} s"
    else:
        text = f"{value // 3600:,.0f} h {value % 3600 // 60:.0f} min"
    return Cell(text, is_number=True)


def size(value: float) -> Cell:
    """Returns a number of bytes: "47.7 kB"; a kB is 1,000 bytes."""
    power = 0
    while value >= 999.5 and power < len(_BYTES) - 1:
        value, power = value / 1000, power + 1
    return Cell(f"{value:.3g} {_BYTES[power]}", is_number=True)


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
