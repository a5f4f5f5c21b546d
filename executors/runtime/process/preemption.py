"""Handles preemption by SIGTERM: the training loop saves a checkpoint and ends, and the next run resumes from it.

    with deferred_sigterm():
        for batch in batches:
            train_step(batch)
            if is_preempted():
                checkpoints.save(step)
                raise Preempted

Outside of the block, SIGTERM has its previous effect, by default to end the process at once. A process that does not
end in time is killed by its parent: by `child_process.py` after 7 s, by Kubernetes after 30 s. The command then exits
with 143 (128 + SIGTERM), which orchestrators recognize as preemption and retry.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeAlias, cast

from ...errors import TrainerError

_Handler: TypeAlias = "Callable[[int, FrameType | None], object]"
_ignores_sigterm_after_training = threading.Event()
# Batch systems announce the end of a job, or of its CPU time, by these signals.
_LIKE_SIGTERM = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, *_LIKE_SIGTERM)


@dataclasses.dataclass
class _Received:
    """The number of the signal that was received in a `deferred_sigterm` block; 0 without one."""

    number: int = 0


_received = _Received()


class Preempted(TrainerError):
    """Training was preempted by a signal and has saved a checkpoint, from which the next run resumes."""

    exit_code = 128 + signal.SIGTERM

    def __init__(self, where: str = "") -> None:
        number = _received.number or signal.SIGTERM
        name = signal.Signals(number).name
        super().__init__(f"ended by {name}{where and ', saved at '}{where}. The next run resumes from there.")
        self.exit_code = 128 + number


def is_preempted() -> bool:
    """Whether SIGTERM was received inside a `deferred_sigterm` block."""
    return _received.number != 0


def handle_like_sigterm() -> None:
    """Makes SIGQUIT, SIGUSR1, SIGUSR2 and SIGXCPU do what SIGTERM does when they arrive, such as save a checkpoint.

    Signals that are ignored or have a handler are left unchanged, and a handler that is installed later replaces this
    one: that of a training module, of `faulthandler.register`, or of a profiler.
    """
    for number in _LIKE_SIGTERM:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _act_as_sigterm)


def ends_process(number: int) -> bool:
    """Whether a signal ends this process, and does not call a handler of the module or of a library."""
    is_ours = getattr(signal.getsignal(number), "__module__", "") == __name__
    return number in ENDING and (is_ours or number not in _LIKE_SIGTERM)


def _act_as_sigterm(number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler):
        handler(number, frame)
    elif handler is signal.SIG_DFL:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _note_preemption(number: int, frame: FrameType | None) -> None:
    del frame
    _received.number = number


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
    before = signal.signal(signal.SIGTERM, _note_preemption)
    try:
        yield
    finally:
        is_over = is_preempted() and _ignores_sigterm_after_training.is_set()
        signal.signal(signal.SIGTERM, signal.SIG_IGN if is_over else before)
        _received.number = 0


@contextlib.contextmanager
def deferred_signals(*, repeated: bool = False) -> Iterator[None]:
    """Defers termination signals to the end of a short block, such as moving a model to its destination.

    Signal handlers can only be set in the main thread: in another thread this is a no-op.

    Args:
      repeated: Whether a second signal is deferred, too; otherwise it is handled at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals: list[tuple[int, FrameType | None]] = []
    before: dict[int, _Handler] = {}

    def note(number: int, frame: FrameType | None) -> None:
        signals.append((number, frame))
        if len(signals) > 1 and not repeated:
            before[number](number, frame)

    for number in ENDING:
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
