"""One run at a time in a folder: a second one is refused before it has done anything.

    with alone_in(model_run_dir):
        …

The folder itself is locked; see `lock.py`. The lock is released when the block ends or the process dies, also
while children that the process has forked go on, and leaves no file behind. Where a file system has no locks, nothing
is done; of two runs there the one that began last publishes, see `RunRecord.require_folder`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..errors import InputError
from ..monitoring import run_record
from ..runtime.files import file_io
from ..runtime.files.lock import FileLock


@contextlib.contextmanager
def alone_in(folder: str) -> Iterator[None]:
    """Keeps other runs on this machine out of a folder during a block.

    Raises:
      InputError: When another one is in there.
    """
    if file_io.is_remote(folder):
        yield
        return
    lock = FileLock(folder)
    try:
        _acquire(lock, folder)
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, folder: str) -> None:
    try:
        lock.acquire()
    except BlockingIOError:
        other = run_record.read(folder)
        who = f", process {other['process']['number']} since {other['started']}" if other.get("process") else ""
        raise InputError(
            f"{folder}: another run is at work here{who}. Wait until it has ended, or give this one a folder of its "
            "own."
        ) from None
    except OSError:  # no locks here
        pass
