"""Computes the throughput of distributed training: redone steps, goodput, steps per second, and stragglers.

The input is what each worker reports (`progress.py`) and when each try begins. A module that reports no progress
therefore has no figures here, and tries of an earlier command, whose driver was killed, are not counted.

    tracker = ThroughputTracker(parameter_servers=0)
    tracker.begin("try 1", workers=2)
    tracker.note("try 1", 0, "worker 0", progress)    # about once a second, and when the worker's process has ended
    tracker.lines()                                   # new lines to print
    tracker.summary(seconds)
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from ...monitoring import save_interval
from ...monitoring.progress_reports import Progress

if TYPE_CHECKING:
    from ...monitoring.progress_reports import Details
    from ...monitoring.run_json import Account, TryAccount

_LINE_SECONDS = 10.0  # between two lines
_WINDOW_SECONDS = 30.0  # over which the speeds of workers are compared
_SLOW = 0.5  # a straggler is slower than this fraction of the other workers' median speed
_KEPT = 1000  # maximum number of moments of a try


class CombinedProgress(TypedDict, total=False):
    """The progress of all workers; see `ThroughputTracker.combined`."""

    step: float
    examples: float
    details: Details


@dataclasses.dataclass
class _Try:
    """One start of all workers.

    Attributes:
      workers: Number of training workers.
      began: Time of the start, by the clock of `ThroughputTracker`.
      moments: (time, step) pairs in ascending order; the first is the beginning of the training loop.
      reported: Name and last progress of each worker, by rank.
      ended: Ranks of the workers that have finished.
      earlier: The last progress of each worker that was started again, by rank; its new progress is added to it.
    """

    workers: int
    began: float
    moments: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    reported: dict[int, tuple[str, Progress]] = dataclasses.field(default_factory=dict)
    ended: set[int] = dataclasses.field(default_factory=set)
    earlier: dict[int, Progress] = dataclasses.field(default_factory=dict)

    @property
    def first(self) -> float:
        """The step at which the training loop began or resumed."""
        return self.moments[0][1]

    @property
    def last(self) -> float:
        """The last step that any worker has reported."""
        return self.moments[-1][1]

    def note(self, now: float, progress: Progress) -> None:
        """Adds a moment; thins out the moments of a long try."""
        moments, done = self.moments, now - progress.age
        if not moments or progress.first < self.first:
            moments.insert(0, (done - progress.seconds, progress.first))
        if progress.step > self.last:
            moments.append((max(done, moments[-1][0]), progress.step))
        if len(moments) > _KEPT:
            del moments[1:-1:2]

    def seconds_until(self, step: float) -> float:
        """Returns the seconds from the beginning of the loop to a step, interpolated linearly between moments."""
        begin, at = self.moments[0]
        if step <= at:
            return 0.0
        for (before, low), (after, high) in zip(self.moments, self.moments[1:], strict=False):
            if step <= high:
                return before + (after - before) * (step - low) / (high - low) - begin
        return self.moments[-1][0] - begin


class ThroughputTracker:
    """Records the progress of a run.

    Args:
      parameter_servers: Number of parameter servers. With at least one, workers train asynchronously; otherwise in
        lockstep.
      clock: Returns the time in seconds.
    """

    def __init__(self, parameter_servers: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_asynchronous = parameter_servers > 0
        self._clock = clock
        self._began = clock()
        self._tries: dict[str, _Try] = {}
        self._line: tuple[float, float, float] | None = None  # time, step and examples of the last line
        self._window: tuple[float, dict[int, Progress]] | None = None
        self._stragglers: dict[str, str] = {}
        self._replaced = 0

    def begin(self, name: str, workers: int) -> None:
        """Records the start of a try with this number of training workers."""
        self._tries[name] = _Try(workers, self._clock())
        self._line = self._window = None

    def note(self, name: str, rank: int, worker: str, progress: Progress) -> None:
        """Records the progress report of a worker in a try."""
        one = self._tries[name]
        one.note(self._clock(), progress)
        if (earlier := one.earlier.get(rank)) is not None:
            progress = dataclasses.replace(
                progress,
                steps=earlier.steps + progress.steps,
                examples=earlier.examples + progress.examples,
                seconds=earlier.seconds + progress.seconds,
            )
        one.reported[rank] = (worker, progress)

    def replace(self, name: str, rank: int) -> None:
        """Records that a worker of a try has died and is started again, while the others continue."""
        self._replaced += 1
        one = self._tries[name]
        if rank in one.reported:
            one.earlier[rank] = one.reported[rank][1]

    def end(self, name: str, rank: int) -> None:
        """Records that a worker of a try has finished."""
        self._tries[name].ended.add(rank)

    def lines(self, last: bool = False, with_progress: bool = True) -> str:
        """Returns the lines to print now: the progress of all workers about every 10 s, and new stragglers.

        Args:
          last: Whether this is the last call, so that the last step must be included.
          with_progress: False if progress is displayed in another way.
        """
        if not self._tries:
            return ""
        number, one = len(self._tries) - 1, list(self._tries.values())[-1]
        return self._warning(one) + (self._progress_line(one, number, last) if with_progress else "")

    def combined(self) -> CombinedProgress:
        """Returns the progress of the latest try; {} before any report.

        `step` is the last step of any worker, `examples` the sum over its workers; `details` are the chief's, with
        `workers` and `restarts` added.
        """
        one = list(self._tries.values())[-1] if self._tries else None
        if one is None or not one.moments:
            return {}
        details: Details = {**one.reported[0][1].details} if 0 in one.reported else {}
        examples = sum(progress.examples for _, progress in one.reported.values())
        details |= {"workers": one.workers, "restarts": len(self._tries) - 1, "replaced": self._replaced}
        return {"step": one.last, "examples": examples, "details": details}

    def optimal_save_steps(self, deaths: int) -> int | None:
        """Returns the optimal number of steps between checkpoints; see `save_interval.py`.

        Args:
          deaths: Number of tries that ended by a worker's death.

        Returns:
          The number; None without a death, or if no speed was measured.
        """
        chiefs = [one.reported[0][1] for one in self._tries.values() if 0 in one.reported]
        speeds = [(one.step - one.first) / one.seconds for one in chiefs if one.seconds > 0 and one.step > one.first]
        costs = [one.details["save_seconds"] for one in chiefs if "save_seconds" in one.details]
        if not deaths or not speeds:
            return None
        cost = statistics.median(costs) if costs else save_interval.ASSUMED_SAVE_SECONDS
        between = (self._clock() - self._began) / deaths
        return save_interval.optimal_steps(cost, between, statistics.median(speeds))

    def _progress_line(self, one: _Try, restarts: int, last: bool) -> str:
        now = self._clock()
        if not one.moments or (self._line and now - self._line[0] < _LINE_SECONDS and not last):
            return ""
        time_before, before, examples_before = self._line or (*one.moments[0], 0.0)
        if one.last == before:
            return ""
        at, examples = one.moments[-1][0], sum(progress.examples for _, progress in one.reported.values())
        seconds = max(at - time_before, 1e-9)
        self._line = (max(now, at), one.last, examples)
        speed = _speed((one.last - before) / seconds, (examples - examples_before) / seconds)
        parts = [f"step {one.last:,.0f}", speed]
        parts += [_count(restarts, "restart")] if restarts else []
        parts += [f"{_count(self._replaced, 'worker')} replaced"] if self._replaced else []
        return f"[{_count(one.workers, 'worker')}] {', '.join(parts)}\n"

    def _warning(self, one: _Try) -> str:
        """Compares the workers over the last window; returns a line for each new straggler."""
        if not self._is_asynchronous:  # all-reduce runs at the pace of the slowest worker
            return ""
        now, reported = self._clock(), {rank: progress for rank, (_, progress) in one.reported.items()}
        if self._window is None or len(self._window[1]) < len(reported):
            self._window = (now, reported)
            return ""
        begin, before = self._window
        seconds = now - begin
        if seconds < _WINDOW_SECONDS:
            return ""
        self._window = (now, reported)
        # A worker without a new step may be evaluating or exporting its model.
        steps = {
            rank: reported[rank].steps - before[rank].steps
            for rank in before
            if rank not in one.ended and reported[rank].steps > before[rank].steps
        }
        text = ""
        for rank, why in self._find_stragglers(steps, seconds).items():
            worker = one.reported[rank][0]
            if worker not in self._stragglers:
                self._stragglers[worker] = why
                text += f"[{worker}] Warning: straggler: {why}.\n"
        return text

    def _find_stragglers(self, steps: dict[int, float], seconds: float) -> dict[int, str]:
        """Returns by rank a description of each worker slower than half the median speed of the others."""
        found = {}
        for rank, own in steps.items():
            others = [count for other, count in steps.items() if other != rank]
            if others and own < _SLOW * (usual := statistics.median(others)):
                found[rank] = (
                    f"{own / seconds:.3g} steps/s over {seconds:.0f} s, median of the others {usual / seconds:.3g}"
                )
        return found

    def summary(self, seconds: float | None = None) -> Account:
        """Returns the account for the run record.

        Args:
          seconds: Total training time, from the engine's start to its end; by default the time since this object was
            created.

        Returns:
          * tries: One entry for each start of all workers: `workers`, the number of training workers; `began`, in
            seconds since the engine's start; and if any worker reported progress, `first_step`, where its loop began (0
            or the checkpoint's step); `last_step`, the last reported step; `lost_steps`, the steps after the step that
            a later try resumed from; `seconds` spent on the steps that were not lost.
          * restarts: Tries after the first.
          * replaced: Workers that died and were started again while the others continued.
          * redone_steps: The sum of lost steps, all of which were repeated or have to be. For a killed worker the last
            step is exact, for the others it may be a second old.
          * goodput: Share of the total time spent on steps that count, from the beginning of a try's loop to its last
            step that was not lost, including what happens between steps, such as evaluations and checkpoints. The rest
            is process start, model building, restoring, lost steps, and export. None if no progress was reported.
          * speeds: By worker, over all tries while its loop was running: its own `steps_per_second`, and
            `examples_per_second` if its loop reports examples.
          * stragglers: By straggler, a description of its speed; only with parameter servers, where workers train
            asynchronously.
        """
        now, useful, redone = self._clock(), 0.0, 0.0
        tries: list[TryAccount] = []
        total = seconds if seconds is not None else now - self._began
        kept = math.inf  # the earliest step that a later try resumed from
        for one in reversed(self._tries.values()):
            attempt: TryAccount = {"workers": one.workers, "began": round(one.began - now + total, 1)}
            if one.moments:
                counted = max(one.first, min(one.last, kept))
                kept = min(kept, one.first)
                lost, spent = one.last - counted, one.seconds_until(counted)
                useful += spent
                redone += lost
                attempt |= {"first_step": int(one.first), "last_step": int(one.last)}
                attempt |= {"lost_steps": int(lost), "seconds": round(spent, 1)}
            tries.insert(0, attempt)
        return {
            "tries": tries,
            "restarts": max(0, len(tries) - 1),
            "replaced": self._replaced,
            "redone_steps": int(redone),
            "goodput": round(min(1.0, useful / total), 3) if kept < math.inf and total > 0 else None,
            "speeds": self._speeds(),
            "stragglers": dict(self._stragglers),
        }

    def _speeds(self) -> dict[str, dict[str, float]]:
        sums: dict[str, list[float]] = {}
        for one in self._tries.values():
            for worker, progress in one.reported.values():
                known = sums.get(worker, [0.0, 0.0, 0.0])
                own = (progress.steps, progress.examples, progress.seconds)
                sums[worker] = [before + more for before, more in zip(known, own, strict=True)]
        return {
            worker: {"steps_per_second": round(steps / seconds, 2)}
            | ({"examples_per_second": round(examples / seconds, 1)} if examples else {})
            for worker, (steps, examples, seconds) in sorted(sums.items())
            if seconds
        }


def _count(number: float, what: str) -> str:
    return f"{number:,.0f} {what}{'' if number == 1 else 's'}"


def _speed(steps: float, examples: float) -> str:
    return f"{steps:.3g} steps/s" + (f", {examples:,.0f} examples/s" if examples else "")
