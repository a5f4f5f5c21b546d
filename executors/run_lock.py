"""One run at a time in a folder: a second one is told so before it has done anything.

    with alone_in(model_run_dir):
        …

The folder itself is locked, by flock(2): the lock goes with the process, however that ends, and leaves no file behind.
Where a file system has no such locks, nothing is done; of two runs there the one that began last publishes, see
`RunRecord.require_folder`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from . import file_io, run_record
from .errors import InputError


@contextlib.contextmanager
def alone_in(folder: str) -> Iterator[None]:
    """Keeps other runs on this machine out of a folder during a block.

    Raises:
      InputError: When another one is in there.
    """
    if file_io.is_remote(folder):
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        other = run_record.read(folder)
        who = f", process {other['process']['number']} since {other['started']}" if other.get("process") else ""
        raise InputError(
            f"{folder}: another run is at work here{who}. Wait until it has ended, or give this one a folder of its "
            "own."
        ) from None
    except OSError:  # no locks here
        pass
