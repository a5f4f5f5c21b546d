"""Spares an Estimator's session what `run` does anew at each step, though each step asks for the same.

    estimator.train(input_fn, hooks=[SessionCallsHook()])
    estimator.train(input_fn, hooks=[SessionCallsHook(ThreadTrial())])

`tf.compat.v1.Session.run` looks up what it is asked for, and passes options there and back, which for a small model
takes a third of the step. `Session.make_callable` does that once. So a session is given a `run` that keeps such a
callable for each set of fetches. What feeds values, or wants a trace, goes the long way.

For a small graph it takes longer still to pass its operations on to other threads. `ThreadTrial` tries on the training
itself whether its steps are faster without (RunOptions.inter_op_thread_pool of -1, "the caller thread"). The operations
stay the same, and so do the results.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

import tensorflow.compat.v1 as tf
from absl import logging

_KEPT = 32  # sets of fetches: a step's, those of hooks every so many steps; more would be new ones each time
_POOL, _CALLER = 0, -1  # which threads execute a step's operations, as RunOptions has it
_NAMES = {_POOL: "pool", _CALLER: "caller"}


class ThreadTrial:
    """Finds out which threads execute a step's operations fastest, in the steps of a training.

    Attributes:
      choice: The outcome, or None so long as there is none.
      speeds: Steps per second with either.
    """

    _BLOCK = 32  # steps between two measurements
    _ROUNDS = 5
    _WORTH = 1.05  # how much faster the caller's thread has to be, which in a larger graph would be alone

    def __init__(self) -> None:
        self.choice: int | None = None
        self.speeds: dict[int, float] = {}
        self._blocks = deque([_POOL, _CALLER] * (1 + self._ROUNDS))  # the first of each warms up
        self._measured: dict[int, list[float]] = {_POOL: [], _CALLER: []}
        self._steps = 0
        self._begun: float | None = None

    @property
    def threads(self) -> int:
        """Those of the next step."""
        return self._blocks[0] if self.choice is None else self.choice

    def stepped(self) -> None:
        """Takes note of a step's end."""
        if self.choice is not None:
            return
        self._steps += 1
        if self._steps % self._BLOCK:
            return
        now, threads = time.perf_counter(), self._blocks.popleft()
        if self._begun is not None:
            self._measured[threads].append(self._BLOCK / (now - self._begun))
        self._begun = now
        if not self._blocks:
            self._decide()

    def report(self) -> dict[str, Any]:
        """Returns the outcome, once there is one, for the run's record."""
        assert self.choice is not None
        return {
            "threads": _NAMES[self.choice],
            "times": round(self.speeds[self.choice] / self.speeds[_POOL], 2),
            "steps_per_second": {_NAMES[threads]: round(speed, 1) for threads, speed in self.speeds.items()},
        }

    def _decide(self) -> None:
        self.speeds = {
            threads: statistics.median(measured[-self._ROUNDS :]) for threads, measured in self._measured.items()
        }
        is_faster = self.speeds[_CALLER] >= self._WORTH * self.speeds[_POOL]
        self.choice = _CALLER if is_faster else _POOL
        logging.info(
            "Operations in the %s's thread(s): %.2g times the steps per second of the session's pool.",
            _NAMES[self.choice], self.report()["times"],
        )  # fmt: skip


class SessionCallsHook(tf.train.SessionRunHook):  # type: ignore[misc]
    """Shortens the calls of a training's session.

    Args:
      trial: Decides on the threads; None to leave them.
    """

    def __init__(self, trial: ThreadTrial | None = None) -> None:
        self._trial = trial

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Gives the session its `run`, unless its class has one of its own, as a debugger's has."""
        del coord
        if type(session).run is tf.Session.run:
            session.run = _Run(session, self._trial)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts the step."""
        del run_context, run_values
        if self._trial is not None:
            self._trial.stepped()


class _Run:
    """The method `run` of a session."""

    def __init__(self, session: Any, trial: ThreadTrial | None) -> None:
        self._session = session
        self._trial = trial
        self._run = session.run
        self._kept: dict[Hashable, tuple[Any, Callable[..., Any]]] = {}
        self._caller = tf.RunOptions(inter_op_thread_pool=_CALLER)

    def __call__(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Does what `tf.compat.v1.Session.run` does."""
        if feed_dict or (options is not None and options.ByteSize()) or self._session._closed:
            return self._run(fetches, feed_dict, options, run_metadata)
        in_caller = self._trial is not None and self._trial.threads == _CALLER
        key = in_caller, _key(fetches)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) == _KEPT:
                return self._run(fetches, feed_dict, options, run_metadata)
            call = self._session.make_callable(fetches, accept_options=in_caller)
            # The fetches are kept as well: the key has their identities, which are theirs as long as they live.
            kept = self._kept[key] = fetches, functools.partial(call, options=self._caller) if in_caller else call
        return self._session._do_call(kept[1])  # which says where in the module a failed operation was made


def _key(fetches: Any) -> Hashable:
    """Returns what tells fetches apart: their structure, and which tensors and operations are in it."""
    if isinstance(fetches, dict):
        return type(fetches), tuple((id(name), _key(fetch)) for name, fetch in fetches.items())
    if isinstance(fetches, (list, tuple)):
        return type(fetches), tuple(map(_key, fetches))
    return fetches if isinstance(fetches, str) else id(fetches)
