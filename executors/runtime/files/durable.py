"""Syncs files and folders, so that they survive a power loss.

    durable.sync_tree("staging/model")
    os.rename("staging/model", "model")
    durable.sync_parents("model")          # only then may the replaced model be deleted

Without syncs, a file system may write a renamed file's data 30 seconds later than the rename: after a power loss, files
that had been complete are empty. `GENERIC_TRAINER_FSYNC=0` turns all syncs off. Remote paths need none: an object store
acknowledges an upload after it has stored the object.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from . import storage_errors

SWITCH = "GENERIC_TRAINER_FSYNC"
_THREADS = 16  # the disk takes the syncs of several threads together: 200 files took 0.03 s, and 0.8 s in one thread
# Errors of file systems without fsync(2), of read-only ones, and for paths that this user may not open.
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EROFS, errno.EACCES, errno.EPERM)


def sync(path: str) -> None:
    """Writes a file's data, or a folder's entries, to the disk.

    Don't repeat a failed call alone: a lost write is reported once, so the data must be written again.

    Raises:
      OSError: If the disk fails or is full.
    """
    if _needs_no_sync(path):
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # O_NONBLOCK: a FIFO must not block
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise OSError(error.errno, error.strerror, path) from error


def sync_tree(path: str) -> None:
    """Syncs a file, or a folder with every file and folder below it. Symbolic links are not followed.

    Raises:
      StorageError: If the disk fails or is full.
    """
    if not _needs_no_sync(path):
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(_sync_or_explain, _tree(path)))


def sync_parent(path: str) -> None:
    """Syncs the folder that contains a path, after the path was renamed.

    Raises:
      StorageError: If the disk fails or is full.
    """
    if not _needs_no_sync(path):
        _sync_or_explain(os.path.dirname(os.path.abspath(path)))


def sync_parents(path: str) -> None:
    """Syncs the folder that contains a path, and that folder's parents on the same disk, which may be new as well.

    Takes several times as long as `sync_parent` if other programs write to those parents.

    Raises:
      StorageError: If the disk fails or is full.
    """
    if not _needs_no_sync(path):
        for folder in _parents(os.path.abspath(path)):
            _sync_or_explain(folder)


def _needs_no_sync(path: str) -> bool:
    return "://" in path or os.environ.get(SWITCH) == "0"


def _sync_or_explain(path: str) -> None:
    try:
        sync(path)
    except OSError as error:
        raise storage_errors.explain(error, "Syncing", path) or error from error


def _tree(path: str) -> Iterator[str]:
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
                    yield from _tree(entry.path)
    yield path


def _parents(path: str) -> Iterator[str]:
    folder = os.path.dirname(path)
    disk = os.stat(folder).st_dev
    while os.stat(folder).st_dev == disk:
        yield folder
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)
