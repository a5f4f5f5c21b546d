"""What a worker has started, wherever it has gone: also processes that have left its group, or lost their parent.

environment[VARIABLE] = mark = new_mark()    # inherited by all that the worker starts
end_all(mark)                                # kills what bears it
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import sys
import uuid

VARIABLE = "GENERIC_TRAINER_WORKER"
_ROUNDS = 10  # of looking; one that is killed may just have started another


def new_mark() -> str:
    """Returns a value for `VARIABLE`: one of its own, after those of the workers that this process belongs to."""
    return ":".join(filter(None, [os.environ.get(VARIABLE), uuid.uuid4().hex]))


def end_all(mark: str) -> None:
    """Kills every process of this user that has a worker's mark in its environment; on Linux alone."""
    for _ in range(_ROUNDS if sys.platform == "linux" else 0):
        found = [path for path in pathlib.Path("/proc").glob("[0-9]*/environ") if _bears(path, mark)]
        for path in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.parent.name), signal.SIGKILL)
        if not found:
            return


def _bears(environment: pathlib.Path, mark: str) -> bool:
    try:
        return f"{VARIABLE}={mark}".encode() in environment.read_bytes()
    except OSError:  # another user's, or it has ended
        return False
