"""Formats durations and sizes as text."""

from __future__ import annotations

import math

_SECONDS = (
    (1e6, 1e3, "µs"),
    (1e3, 1e3, "ms"),
    (1.0, 60.0, "s"),
)  # (units per second, upper end of the range, unit)
_BYTES = ("B", "kB", "MB", "GB", "TB")


def duration_text(seconds: float) -> str:
    """Formats a duration: "43 µs", "1.4 ms", "12.3 s", "4 min 5 s", "2 h 3 min"; "0 s" for negative values."""
    if seconds <= 0:
        return "0 s"
    if math.isinf(seconds):
        return "\N{INFINITY} s"
    for factor, end, unit in _SECONDS:
        if (number := float(f"{factor * seconds:.3g}")) < end:
            return f"{number:g} {unit}"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def size_text(size: float) -> str:
    """Formats a number of bytes: "47.7 kB"; 1 kB is 1,000 bytes."""
    power = 0
    while size >= 999.5 and power < len(_BYTES) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {_BYTES[power]}"
