"""Exclusive advisory locks on files and folders, for one holder on this machine.

    lock = FileLock(folder)
    lock.acquire()     # BlockingIOError while another holder has it, of this process or of another one
    ...
    lock.release()

flock(2) locks the open file description, so two locks of one process exclude each other, and the kernel releases a lock
when its holder dies. A forked child would share the description and keep it locked after that; children forked by
Python (`os.fork`, `multiprocessing`) therefore close theirs at once, and a new program never inherits it. `release`
unlocks the description itself, whoever else may have it open.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading


class _OpenLocks:
    """The locks that this process has open; a forked child closes them."""

    def __init__(self) -> None:
        self._guard = threading.RLock()  # held while this process forks, so that no descriptor is missed
        self._locks: set[FileLock] = set()
        os.register_at_fork(
            before=self._guard.acquire, after_in_parent=self._guard.release, after_in_child=self._close_all
        )

    def open(self, lock: FileLock, path: str) -> None:
        with self._guard:
            lock.open(path)
            self._locks.add(lock)

    def close(self, lock: FileLock) -> None:
        with self._guard:
            self._locks.discard(lock)
            lock.close()

    def _close_all(self) -> None:
        for lock in self._locks:
            lock.close()
        self._locks.clear()
        self._guard.release()


class FileLock:
    """An exclusive lock on a file or folder that exists; see the module.

    Args:
      path: The file or folder; it needs to be readable only.

    Raises:
      OSError: When it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._descriptor: int | None = None
        _open_locks.open(self, path)

    def acquire(self) -> None:
        """Locks without waiting.

        Raises:
          BlockingIOError: When another holder has locked it.
          OSError: When the file system has no locks.
        """
        if self._descriptor is None:
            raise ValueError("The lock was released, or belongs to the process that this one was forked from.")
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Unlocks and closes; does nothing in a forked child."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        _open_locks.close(self)

    def open(self, path: str) -> None:
        """Opens the descriptor."""
        self._descriptor = os.open(path, os.O_RDONLY)

    def close(self) -> None:
        """Closes the descriptor; the lock stays if another process shares it."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


_open_locks = _OpenLocks()
