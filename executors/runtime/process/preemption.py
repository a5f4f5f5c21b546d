"""Handles preemption by SIGTERM: the training loop saves a checkpoint and ends, and the next run resumes from it.

    with deferred_sigterm():
        for batch in batches:
            train_step(batch)
            if is_preempted():
                checkpoints.save(step)
                raise Preempted

Outside of the block, SIGTERM has its previous effect, by default to end the process at once. A process that does not
end in time is killed by its parent: by `child_process.py` after 10 s, by Kubernetes after 30 s. The command then exits
with 143 (128 + SIGTERM), which orchestrators recognize as preemption and retry.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeAlias, cast

from ...errors import TrainerError

_Handler: TypeAlias = "Callable[[int, FrameType | None], object]"
_received = threading.Event()
_ignores_sigterm_after_training = threading.Event()
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Preempted(TrainerError):
    """Training was preempted by SIGTERM and has saved a checkpoint, from which the next run resumes."""

    exit_code = 128 + signal.SIGTERM

    def __init__(self, where: str = "") -> None:
        super().__init__(f"ended by SIGTERM{where and ', saved at '}{where}. The next run resumes from there.")


class Terminated(SystemExit):
    """A signal asked the command to end. The stack unwinds: subprocesses are ended, staging directories removed.

    Args:
      number: The signal number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name

    def __str__(self) -> str:
        return f"ended by {self.name}"


def is_preempted() -> bool:
    """Whether SIGTERM was received inside a `deferred_sigterm` block."""
    return _received.is_set()


def ignore_sigterm_after_training() -> None:
    """Marks this process as running a single training: after a preempted `deferred_sigterm` block it ignores SIGTERM.

    A platform that signals all processes of a job sends SIGTERM to the training process and to its parent, which
    forwards it, possibly late: the second signal would kill a process that has saved its checkpoint but not yet
    reported that.
    """
    _ignores_sigterm_after_training.set()


@contextlib.contextmanager
def deferred_sigterm() -> Iterator[None]:
    """Only records SIGTERM in the block, for `is_preempted`, instead of ending the process.

    Signal handlers can only be set in the main thread: in another thread this is a no-op.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: _received.set())
    try:
        yield
    finally:
        is_over = is_preempted() and _ignores_sigterm_after_training.is_set()
        signal.signal(signal.SIGTERM, signal.SIG_IGN if is_over else before)
        _received.clear()


@contextlib.contextmanager
def deferred_signals() -> Iterator[None]:
    """Defers termination signals to the end of a short block, such as moving a model to its destination.

    A second signal is handled at once. Signal handlers can only be set in the main thread: in another thread this is a
    no-op.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals: list[tuple[int, FrameType | None]] = []
    before: dict[int, _Handler] = {}

    def note(number: int, frame: FrameType | None) -> None:
        signals.append((number, frame))
        if len(signals) > 1:
            before[number](number, frame)

    for number in _ENDING:
        if callable(signal.getsignal(number)):  # SIG_IGN and SIG_DFL are left unchanged
            before[number] = cast("_Handler", signal.signal(number, note))
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    if signals:
        first, frame = signals[0]
        before[first](first, frame)
