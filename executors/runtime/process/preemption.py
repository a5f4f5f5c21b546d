"""SIGTERM, by which platforms take a machine back: a training loop saves, and ends so that it is run again.

    with heeded():
        for batch in batches:
            train_step(batch)
            if asked():
                checkpoints.save(step)
                raise Preempted

Outside of the block SIGTERM ends the process at once, as ever. Who started it kills it when it has not ended in time:
`child_process.py` after ten seconds, Kubernetes after thirty. The command then exits with 143, which orchestrators take
for what it is, and run again.
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
_asked = threading.Event()
_ends_with_training = threading.Event()
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Preempted(TrainerError):
    """The training was asked to end by SIGTERM, and has saved a checkpoint; run again, it goes on from there."""

    exit_code = 128 + signal.SIGTERM

    def __init__(self, where: str = "") -> None:
        super().__init__(f"ended by SIGTERM{where and ', saved at '}{where}. Run again, it goes on from there.")


class Terminated(SystemExit):
    """A command was told to end by a signal. It unwinds: child processes are ended, staging directories removed.

    Args:
      number: The signal's.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name

    def __str__(self) -> str:
        return f"ended by {self.name}"


def asked() -> bool:
    """Returns whether SIGTERM has come in a block of `heeded`."""
    return _asked.is_set()


def end_with_training() -> None:
    """Says that this process is for one training: after one that has heeded SIGTERM it ignores the signal.

    Who ends all processes of a job at once sends it to a training and to its parent, which hands it on, and may be
    late: then it would kill a process that has saved, and is about to say so.
    """
    _ends_with_training.set()


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """Has SIGTERM do no more than be noted, for a block that asks for it.

    Only the main thread may say what a signal does: in another one nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: _asked.set())
    try:
        yield
    finally:
        is_over = asked() and _ends_with_training.is_set()
        signal.signal(signal.SIGTERM, signal.SIG_IGN if is_over else before)
        _asked.clear()


@contextlib.contextmanager
def unbroken() -> Iterator[None]:
    """Has signals that end a process wait until a block of a moment is through: a model that is moved to its place.

    The second one does not wait. Only the main thread may say what a signal does: in another one nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    before: dict[int, _Handler] = {}

    def note(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))
        if len(came) > 1:
            before[number](number, frame)

    for number in _ENDING:
        if callable(signal.getsignal(number)):  # what is ignored, or ends the process at once, stays so
            before[number] = cast("_Handler", signal.signal(number, note))
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    if came:
        first, frame = came[0]
        before[first](first, frame)
