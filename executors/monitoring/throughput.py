"""What a run by several workers comes to: steps done again after failures, goodput, speeds, and who holds others up.

It is told what each worker reports (`progress.py`) and when a try begins, and knows no more. So a module that reports
nothing has no figures here; nor do the tries of an earlier command, whose driver was killed, count.

    pace = Pace(parameter_servers=0)
    pace.begin("try 1", workers=2)
    pace.note("try 1", 0, "worker 0", progress)    # about once a second, and when the worker's process has ended
    pace.lines()                                   # what there is to be shown
    pace.summary(seconds)
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from .progress import Progress

if TYPE_CHECKING:
    from typing_extensions import NotRequired

    from .progress import Details

_LINE_SECONDS = 10.0  # between two lines
_WINDOW_SECONDS = 30.0  # over which workers are compared
_SLOW = 0.5  # of the others' speed
_KEPT = 1000  # moments of a try


class Whole(TypedDict, total=False):
    """How far all workers are; see `Pace.whole`."""

    step: float
    examples: float
    details: Details


class TryAccount(TypedDict):
    """The account of one start of all workers; see `Pace.summary`."""

    workers: int
    began: float
    first_step: NotRequired[int]
    last_step: NotRequired[int]
    lost_steps: NotRequired[int]
    seconds: NotRequired[float]


class Account(TypedDict, total=False):
    """The account of a run; see `Pace.summary`."""

    tries: list[TryAccount]
    restarts: int
    redone_steps: int
    goodput: float | None
    speeds: dict[str, dict[str, float]]
    stragglers: dict[str, str]


@dataclasses.dataclass
class _Try:
    """One start of all workers.

    Attributes:
      workers: How many train.
      began: When.
      moments: (time, step): when the training had come how far; the first is where its loop began.
      workers_progress: What each worker last reported, with its name, by rank.
      ended: Ranks of the workers that have done their part.
    """

    workers: int
    began: float
    moments: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    reported: dict[int, tuple[str, Progress]] = dataclasses.field(default_factory=dict)
    ended: set[int] = dataclasses.field(default_factory=set)

    @property
    def first(self) -> float:
        """The step where it went on."""
        return self.moments[0][1]

    @property
    def last(self) -> float:
        """The last step that any worker has reported."""
        return self.moments[-1][1]

    def note(self, now: float, progress: Progress) -> None:
        """Takes note of how far the training is; some moments of a long one are forgotten."""
        moments, done = self.moments, now - progress.age
        if not moments or progress.first < self.first:
            moments.insert(0, (done - progress.seconds, progress.first))
        if progress.step > self.last:
            moments.append((max(done, moments[-1][0]), progress.step))
        if len(moments) > _KEPT:
            del moments[1:-1:2]

    def seconds_until(self, step: float) -> float:
        """Returns how long it took from where its loop began to a step; between two moments in proportion."""
        begin, at = self.moments[0]
        if step <= at:
            return 0.0
        for (before, low), (after, high) in zip(self.moments, self.moments[1:], strict=False):
            if step <= high:
                return before + (after - before) * (step - low) / (high - low) - begin
        return self.moments[-1][0] - begin


class Pace:
    """Keeps account of a run.

    Args:
      parameter_servers: How many there are. With some each worker goes at its own pace, else all at one.
      clock: Gives seconds.
    """

    def __init__(self, parameter_servers: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_own_pace = parameter_servers > 0
        self._clock = clock
        self._begun = clock()
        self._tries: dict[str, _Try] = {}
        self._line: tuple[float, float, float] | None = None  # of the last line: time, step, examples
        self._window: tuple[float, dict[int, Progress]] | None = None
        self._stragglers: dict[str, str] = {}

    def begin(self, name: str, workers: int) -> None:
        """Notes that a try begins, in which so many workers train."""
        self._tries[name] = _Try(workers, self._clock())
        self._line = self._window = None

    def note(self, name: str, rank: int, worker: str, progress: Progress) -> None:
        """Notes what a worker of a try has reported."""
        one = self._tries[name]
        one.reported[rank] = (worker, progress)
        one.note(self._clock(), progress)

    def end(self, name: str, rank: int) -> None:
        """Notes that a worker of a try has done its part."""
        self._tries[name].ended.add(rank)

    def lines(self, last: bool = False, with_progress: bool = True) -> str:
        """Returns what there is to be shown now: how far all are, about every ten seconds, and a new straggler.

        Args:
          last: Whether that is the last time, so that the last step is to be told.
          with_progress: False where that is shown in another way.
        """
        if not self._tries:
            return ""
        number, one = len(self._tries) - 1, list(self._tries.values())[-1]
        return self._warning(one) + (self._progress_line(one, number, last) if with_progress else "")

    def whole(self) -> Whole:
        """Returns how far all are: `step`, `examples` of this try, and `details` as the chief tells them; {} before."""
        one = list(self._tries.values())[-1] if self._tries else None
        if one is None or not one.moments:
            return {}
        details: Details = {**one.reported[0][1].details} if 0 in one.reported else {}
        examples = sum(progress.examples for _, progress in one.reported.values())
        details |= {"workers": one.workers, "restarts": len(self._tries) - 1}
        return {"step": one.last, "examples": examples, "details": details}

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
        return f"[{_count(one.workers, 'worker')}] {', '.join(parts)}\n"

    def _warning(self, one: _Try) -> str:
        """Compares the workers over the last while; returns a line on each that is slow and had not been named."""
        if not self._at_own_pace:  # in all-reduce all go at the slowest one's pace
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
        # One that has done no step may be evaluating, or writing its model.
        steps = {
            rank: reported[rank].steps - before[rank].steps
            for rank in before
            if rank not in one.ended and reported[rank].steps > before[rank].steps
        }
        text = ""
        for rank, why in self._slow_ones(steps, seconds).items():
            worker = one.reported[rank][0]
            if worker not in self._stragglers:
                self._stragglers[worker] = why
                text += f"[{worker}] Warning: straggler: {why}.\n"
        return text

    def _slow_ones(self, steps: dict[int, float], seconds: float) -> dict[int, str]:
        """Returns why a worker is slow that makes less than half of what the others do, by their median."""
        found = {}
        for rank, own in steps.items():
            others = [count for other, count in steps.items() if other != rank]
            if others and own < _SLOW * (usual := statistics.median(others)):
                found[rank] = (
                    f"{own / seconds:.3g} steps/s over {seconds:.0f} s, the others {usual / seconds:.3g} (their median)"
                )
        return found

    def summary(self, seconds: float | None = None) -> Account:
        """Returns the account, for the run's record.

        Args:
          seconds: The whole time of training, from the engine's start to its end; by default since this was made.

        Returns:
          * tries: Of each start of all workers: how many `workers` trained; when it `began`, in seconds since the
            engine's start; and if any of them reported, `first_step`, where it went on (0, or its checkpoint's);
            `last_step`, the last one that was reported; `lost_steps`, those after the step where a later try went on;
            `seconds` that it spent on the others.
          * restarts: Tries after the first.
          * redone_steps: The sum of lost steps: all were done again, or have to be. Of a worker that was killed the
            last step is known, of the others as of a second before.
          * goodput: The share of the whole time that was spent on steps that count, from where the loop of a try
            began to the last of its steps that was not lost, with what is done between steps, such as evaluations and
            checkpoints. What it lacks is time for starting processes, building the model, restoring, steps that were
            lost, and the export. None where nothing was reported.
          * speeds: By worker, over all tries while its loop was running, `steps_per_second` of its own; and where its
            loop tells them, `examples_per_second`.
          * stragglers: By worker that was one, why; only with parameter servers, where each goes at its own pace.
        """
        now, useful, redone = self._clock(), 0.0, 0.0
        tries: list[TryAccount] = []
        whole = seconds if seconds is not None else now - self._begun
        kept = math.inf  # the earliest step where a later try went on
        for one in reversed(self._tries.values()):
            told: TryAccount = {"workers": one.workers, "began": round(one.began - now + whole, 1)}
            if one.moments:
                counted = max(one.first, min(one.last, kept))
                kept = min(kept, one.first)
                lost, spent = one.last - counted, one.seconds_until(counted)
                useful += spent
                redone += lost
                told |= {"first_step": int(one.first), "last_step": int(one.last)}
                told |= {"lost_steps": int(lost), "seconds": round(spent, 1)}
            tries.insert(0, told)
        return {
            "tries": tries,
            "restarts": max(0, len(tries) - 1),
            "redone_steps": int(redone),
            "goodput": round(min(1.0, useful / whole), 3) if kept < math.inf and whole > 0 else None,
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
