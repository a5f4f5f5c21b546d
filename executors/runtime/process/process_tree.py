"""What a worker has started, wherever it has gone: also processes that have left its group, or lost their parent.

    environment[VARIABLE] = mark = new_mark()    # inherited by all that the worker starts
    with ended_with_this_process(mark):          # whatever ends this process, `kill -9` included
        ...
    end_all(mark)                                # kills what bears it

As a program it is the process that waits for another one's death, so it imports little:

    python process_tree.py MARK PARENT_PID
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

VARIABLE = "GENERIC_TRAINER_WORKER"
_ROUNDS = 10  # of looking; one that is killed may just have started another
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_DEATH = signal.SIGUSR1


def new_mark() -> str:
    """Returns a value for `VARIABLE`: one of its own, after those of the workers that this process belongs to."""
    return ":".join(filter(None, [os.environ.get(VARIABLE), os.urandom(16).hex()]))


def end_all(mark: str) -> None:
    """Kills every process of this user that has a worker's mark in its environment; on Linux alone."""
    for _ in range(_ROUNDS if sys.platform == "linux" else 0):
        found = [name for name in os.listdir("/proc") if name.isdecimal() and _bears(f"/proc/{name}/environ", mark)]
        for name in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(name), signal.SIGKILL)
        if not found:
            return


@contextlib.contextmanager
def ended_with_this_process(mark: str) -> Iterator[None]:
    """Calls `end_all` if this process dies during a block; a small process waits for that. Needs Linux."""
    import subprocess

    try:
        watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, mark, str(os.getpid())],
            env={name: value for name, value in os.environ.items() if name != VARIABLE},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:  # no room for another process
        yield
        return
    try:
        yield
    finally:
        watcher.kill()
        watcher.wait()


def _bears(environment: str, mark: str) -> bool:
    try:
        with open(environment, "rb") as file:
            return f"{VARIABLE}={mark}".encode() in file.read()
    except OSError:  # another user's, or it has ended
        return False


def _end_with(mark: str, parent: int) -> None:
    import ctypes

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):  # may be sent to all processes of a job at once
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {_DEATH})
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _DEATH)
    while os.getppid() == parent:
        signal.sigwait({_DEATH})
    end_all(mark)


if __name__ == "__main__":
    _end_with(sys.argv[1], int(sys.argv[2]))
