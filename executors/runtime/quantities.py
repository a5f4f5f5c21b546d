"""Durations and sizes as text."""

from __future__ import annotations

_BYTES = ("B", "kB", "MB", "GB", "TB")


def duration_text(seconds: float) -> str:
    """Returns a duration: "43 µs", "1.4 ms", "12.3 s", "4 min 5 s", "2 h 3 min"."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.3g} µs"
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds // 3600:,.0f} h {seconds % 3600 // 60:.0f} min"


def size_text(size: float) -> str:
    """Returns a number of bytes: "47.7 kB"; 1 kB is 1,000 bytes."""
    power = 0
    while size >= 999.5 and power < len(_BYTES) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {_BYTES[power]}"
