"""Limits how often something is done, such as reading the metrics of a step.

limiter = RateLimiter()
if limiter.is_due():      # at most once a second
    …
"""

from __future__ import annotations

import time


class RateLimiter:
    """A rate limiter: `is_due` returns True at most once per interval.

    Args:
      seconds: The interval.
    """

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds, self._last = seconds, 0.0

    def is_due(self) -> bool:
        """Returns whether the interval has passed since the last call that returned True."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True
