"""Durations and sizes as text, where they round to the next unit too."""

from __future__ import annotations

import pytest

from generic_trainer.executors.runtime.quantities import duration_text, size_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (4.3e-5, "43 µs"),
        (0.0123, "12.3 ms"),
        (0.9996, "1 s"),
        (8.25, "8.25 s"),
        (59.96, "1 min 0 s"),
        (119.7, "2 min 0 s"),
        (200, "3 min 20 s"),
        (3599.6, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (3600 * 1234, "1,234 h 0 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (999.6, "1 kB"), (47_725, "47.7 kB"), (999_900, "1 MB")]
)
def test_sizes(size: float, text: str) -> None:
    assert size_text(size) == text
