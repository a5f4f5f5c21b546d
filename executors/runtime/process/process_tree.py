"""Kills all descendants of a worker, including processes that left its process group or were orphaned.

    environment[VARIABLE] = mark    # of `session.py`; inherited by all that the worker starts
    kill_all(mark)                  # kills all processes with the mark in their environment

Run as a program it is the watcher process that waits for its parent's death; it imports little to start fast:

    python process_tree.py MARK PARENT_PID SIGNALS

It also reports a signal that the parent cannot act on, because native code lets none of its threads run: the number
then stays in the pipe SIGNALS, a descriptor that `deadline.py` has opened.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

VARIABLE = "GENERIC_TRAINER_WORKER"
_ROUNDS = 10  # scans of the process list; a killed process may have just started another one
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_DEATH = signal.SIGUSR1
_LONGEST = 10  # polls, of a second each
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR2, signal.SIGXCPU)


def kill_all(mark: str) -> None:
    """Kills every other process of this user whose mark begins with the given one; a no-op except on Linux."""
    for _ in range(_ROUNDS if sys.platform == "linux" else 0):
        numbers = {int(name) for name in os.listdir("/proc") if name.isdecimal()} - {os.getpid()}
        marked = [number for number in numbers if _has_mark(f"/proc/{number}/environ", mark)]
        for number in marked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        if not marked:
            return


def _has_mark(environment: str, mark: str) -> bool:
    try:
        with open(environment, "rb") as file:
            return f"{VARIABLE}={mark}".encode() in file.read()
    except OSError:  # a process of another user, or one that has ended
        return False


def _kill_after(mark: str, parent: int, signals: int) -> None:
    import ctypes

    for number in _ENDING:  # sent to all processes of a job at once
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {_DEATH})
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _DEATH)
    unread, unhandled = 0, select.poll()  # `select.select` accepts no descriptors above 1023
    if signals >= 0:
        unhandled.register(signals, select.POLLIN)
    while os.getppid() == parent:
        signal.sigtimedwait({_DEATH}, 1)
        unread = unread + 1 if unhandled.poll(0) else 0
        if unread == _LONGEST:
            _report_held(parent)
    kill_all(mark)


def _report_held(parent: int) -> None:
    text = (
        f"generic-trainer: a signal arrived {_LONGEST} s ago. Native code that lets no other thread run has not "
        f"returned; the command ends when it does. To end it now: kill -9 {parent}\n"
    )
    with contextlib.suppress(OSError):
        os.write(2, text.encode())


if __name__ == "__main__":
    _kill_after(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
