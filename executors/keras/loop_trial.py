"""Finds the fastest way to run a model's training steps, by steps that count.

A trial apart from the training would have to read the data, which moves the order of a shuffled dataset, and to put
back every weight, slot and random state. This one tries on the training itself: groups of 1, 4, 16 and 64 steps take
turns, and after a few hundred steps the fastest is taken. What size a group has never changes a result.

Usage:

    trial = LoopTrial(Way.of(model), others=[Way(jit_compile=True)])
    GroupedSteps(model, trial)
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Sequence
from typing import Any

from absl import logging

from .grouped_steps import Way

SIZES = (1, 4, 16, 64)
ROUNDS = 3
_BLOCK = 16  # steps at least, in a round, of each candidate
_CLOSE = 0.97  # the smallest size counts that has so much of the best one's speed: it comes sooner to what is due
_WORTH = 1.05  # how much faster another way has to be, for its results are others

Group = tuple[Way, int]


class LoopTrial:
    """The plan of a trial, and afterwards that of its outcome.

    Attributes:
      choice: The outcome, or None so long as there is none.
      speeds: Steps per second of all that was tried.
      refusals: Why a way was not possible.
    """

    def __init__(self, own: Way, others: Sequence[Way] = ()) -> None:
        """Begins a trial.

        Args:
          own: The model's way.
          others: Ways to try beside it, which change results.
        """
        self.choice: Group | None = None
        self.speeds: dict[Group, float] = {}
        self.refusals: dict[Way, str] = {}
        self._own = own
        self._way: Way | None = None if others else own
        self._now: Group = (own, 1)
        self._counts = False
        self._measured: dict[tuple[Group, int], list[float]] = {}  # by candidate and round: steps, seconds
        self._round = 0
        # The first steps compile: one of each way, then a few more.
        warm_up = [(own, 1), *((way, 1) for way in others), *((way, 2) for way in (own, *others) for _ in range(2))]
        self._queue: collections.deque[tuple[Group, int]] = collections.deque((group, -1) for group in warm_up)
        self._plan([(way, _BLOCK) for way in (own, *others)] if others else [(own, size) for size in SIZES])

    def next_group(self) -> Group:
        """Returns what to try next, or what was chosen."""
        while self._queue:
            self._now, self._round = self._queue.popleft()
            if self._now[0] not in self.refusals:
                return self._now
        if self.choice is None:
            self._decide()
            return self.next_group()
        self._round = -1
        self._now = self.choice
        return self.choice

    def took(self, steps: int, seconds: float) -> None:
        """Takes note of what the group took."""
        if self._round >= 0:
            measured = self._measured.setdefault((self._now, self._round), [0.0, 0.0])
            measured[0] += steps
            measured[1] += seconds

    def refused(self, way: Way, error: Exception) -> None:
        """Leaves a way out that does not work."""
        self.refusals[way] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]
        self._round = -1

    def report(self) -> dict[str, Any]:
        """Returns the outcome, once there is one, for the run's record."""
        assert self.choice is not None
        way, size = self.choice
        base = self.speeds[self._own, 1] if way == self._own else self.speeds[self._own, _BLOCK]
        report: dict[str, Any] = {
            "steps_per_execution": size,
            "times": round(self.speeds[self.choice] / base, 2),
            "against": 1 if way == self._own else _BLOCK,
            "steps_per_second": {_name(self._own, group): round(speed, 1) for group, speed in self.speeds.items()},
        }
        if way != self._own:
            report |= {"jit_compile": way.jit_compile, "mixed_precision": way.mixed, "changes_results": True}
        if self.refusals:
            report["not_possible"] = {_way_name(way): reason for way, reason in self.refusals.items()}
        return report

    def _plan(self, candidates: Sequence[Group]) -> None:
        for number in range(ROUNDS):
            for group in candidates:
                self._queue.extend([(group, number)] * max(1, _BLOCK // group[1]))

    def _decide(self) -> None:
        for group in {group for group, _ in self._measured}:
            rounds = [value for (one, _), value in self._measured.items() if one == group]
            self.speeds[group] = statistics.median(steps / max(seconds, 1e-9) for steps, seconds in rounds)
        if self._way is None:
            tried = {way: self.speeds.get((way, _BLOCK), 0.0) for way, _ in self.speeds}
            best = max(tried, key=lambda way: tried[way])
            self._way = best if tried[best] >= _WORTH * tried[self._own] else self._own
            self._plan([(self._way, size) for size in SIZES])
            return
        sizes = {size: self.speeds[self._way, size] for size in SIZES if (self._way, size) in self.speeds}
        best_speed = max(sizes.values())
        self.choice = (self._way, min(size for size, speed in sizes.items() if speed >= _CLOSE * best_speed))
        self._say()

    def _say(self) -> None:
        assert self.choice is not None
        way, size = self.choice
        report = self.report()
        logging.info(
            "steps_per_execution=%d: %.2g times the steps per second of %d%s.",
            size, report["times"], report["against"], "" if way == self._own else f" without {_way_name(way)}",
        )  # fmt: skip
        if way != self._own:
            logging.warning("The steps from here on have %s: RESULTS DIFFER from those without.", _way_name(way))


def _way_name(way: Way) -> str:
    return f"jit_compile={way.jit_compile}" + (", mixed_bfloat16" if way.mixed else "")


def _name(own: Way, group: Group) -> str:
    way, size = group
    return str(size) if way == own else f"{size}, {_way_name(way)}"
