"""Exclusive advisory locks on files and folders, for one holder on this machine.

    lock = FileLock(folder)
    lock.acquire()     # BlockingIOError if it is locked, by this process or by another one
    ...
    lock.release()

flock(2) locks the open file description, so two locks in one process exclude each other, and the kernel releases a lock
when its holder dies. A forked child would share the description and keep it locked beyond that; therefore children
forked by Python (`os.fork`, `multiprocessing`) close theirs immediately, and new programs do not inherit it. `release`
unlocks the description itself, even if other processes still have it open.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading


class _OpenLocks:
    """The open locks of this process; a forked child closes them."""

    def __init__(self) -> None:
        self._guard = threading.RLock()  # held during forks, so that every open descriptor is registered
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
    """An exclusive lock on an existing file or folder; see the module docstring.

    Args:
      path: The file or folder; read permission suffices.

    Raises:
      OSError: When it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._descriptor: int | None = None
        _open_locks.open(self, path)

    def acquire(self) -> None:
        """Acquires the lock without waiting.

        Raises:
          BlockingIOError: When another holder has locked it.
          OSError: When the file system does not support locks.
          ValueError: When the lock was released, or this process is a fork of its owner.
        """
        if self._descriptor is None:
            raise ValueError("The lock was released, or is held by the process that this one was forked from.")
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Unlocks and closes; a no-op in a forked child."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        _open_locks.close(self)

    def open(self, path: str) -> None:
        """Opens the file descriptor."""
        self._descriptor = os.open(path, os.O_RDONLY)

    def close(self) -> None:
        """Closes the file descriptor; the lock is kept if another process shares it."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


_open_locks = _OpenLocks()
