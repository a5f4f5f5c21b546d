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
from collections.abc import Iterator

from .errors import TrainerError

_asked = threading.Event()


class Preempted(TrainerError):
    """The training was asked to end by SIGTERM, and has saved a checkpoint; run again, it goes on from there."""

    exit_code = 128 + signal.SIGTERM

    def __init__(self, where: str = "") -> None:
        super().__init__(f"ended by SIGTERM{where and ', saved at '}{where}. Run again, it goes on from there.")


def asked() -> bool:
    """Returns whether SIGTERM has come in a block of `heeded`."""
    return _asked.is_set()


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
        signal.signal(signal.SIGTERM, before)
        _asked.clear()
