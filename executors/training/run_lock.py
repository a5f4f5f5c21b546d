"""Prevents concurrent runs in one folder: a second run fails before it does any work.

    with hold_run_lock(model_run_dir):
        …

The lock is held on the folder itself, see `lock.py`. It is released when the block ends or the process dies, even if
forked child processes are still running, and leaves no file behind. On file systems without locks nothing is locked; if
two runs use the same folder there, the one that started last publishes, see `RunRecord.require_folder`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..errors import InputError
from ..monitoring import run_record
from ..runtime.files import file_io
from ..runtime.files.lock import FileLock


@contextlib.contextmanager
def hold_run_lock(folder: str) -> Iterator[None]:
    """Locks a folder against other runs on this machine for the duration of a block; no-op without a local folder.

    Raises:
      InputError: If another run holds the lock.
    """
    if file_io.is_remote(folder) or not file_io.exists(folder):
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
        owner = f", process {other.process.number} since {other.started}" if other.process.number else ""
        raise InputError(
            f"{folder}: another run is active in this folder{owner}. Wait until it has ended, or use another folder."
        ) from None
    except OSError:  # the file system does not support locks
        pass
