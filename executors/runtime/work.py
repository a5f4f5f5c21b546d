"""Counts the work that a pipeline step has done, for its progress.

    work = Work(total=2 * size_of_the_files)
    with run_context.extended(work):
        …                 # in the step: advance(1 << 20)
    work.share            # 0.25

The unit is up to the step; most count the bytes that they have read. Without a `Work`, `advance` is a no-op.
"""

from __future__ import annotations

from .. import run_context


class Work:
    """The work of a step.

    Attributes:
      total: The planned amount, in the step's unit; positive.
    """

    def __init__(self, total: float) -> None:
        self.total = total
        self._done = 0.0

    @property
    def share(self) -> float:
        """The part that is done, from 0 to 1; it never decreases."""
        return min(1.0, self._done / self.total)

    def advance(self, amount: float) -> None:
        """Adds an amount of work that was done."""
        self._done += amount


def advance(amount: float) -> None:
    """Adds an amount to the work of the current step, if it is counted."""
    if (work := run_context.part(Work)) is not None:
        work.advance(amount)
