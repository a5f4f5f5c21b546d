"""Publishes a run's checked outputs: moves them from the staging directory to their final paths.

publish(staging.path, staging.outputs, names, final)
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from absl import logging

from ..errors import StorageError
from ..runtime.files import durable, file_io
from .staging import REPLACED

_INDEXES = ("saved_model.pb", "saved_model.pbtxt", "variables.index")
_Content: TypeAlias = dict[str, tuple[int, int]]  # size and checksum by file
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # AT_FDCWD of <fcntl.h>, RENAME_EXCHANGE of <linux/fs.h>


def publish(staging: str, outputs: str, names: Sequence[str], final: str) -> None:
    """Moves a run's outputs to their final paths, the serving model last, and verifies them there.

    Replaces an existing model atomically (`renameat2` with `RENAME_EXCHANGE`) if the system supports it, so that the
    path always contains a complete model. Otherwise it first moves the existing model into the staging directory, so
    that the path contains a complete model or does not exist. Replaced outputs are deleted with the staging directory.
    If a move or the verification fails, all moves are rolled back. The outputs are synced before the first move, and
    the moves at the end, so that a power loss leaves the previous model or the new one, and both are complete.

    Args:
      staging: The staging directory.
      outputs: The directory in it that contains the outputs.
      names: Names of the outputs to move; others stay.
      final: The serving model's path; the other outputs are moved to its parent directory.

    Raises:
      StorageError: If a move fails, or published files differ from the checked ones.
    """
    parent, serving = file_io.parent(final), os.path.basename(final.rstrip("/"))
    for name in names:
        durable.sync_tree(os.path.join(outputs, name))
    with contextlib.ExitStack() as undo:
        undo.callback(_sync_moves, final)  # the last callback: also syncs what the others have moved back
        for name in sorted(names, key=lambda name: (name == serving, name)):
            staged, target = os.path.join(outputs, name), os.path.join(parent, name)
            checked = _content_of(staged)
            with _move_into_place(staged, target, os.path.join(staging, f"{REPLACED}{name}"), undo) as moved:
                there = _content_of(target)
                if there != checked and moved.is_at(target):  # otherwise another run has replaced it already
                    raise _content_error(target, checked, there)
        durable.sync_parents(final)
        undo.pop_all()


def _content_of(path: str) -> _Content:
    """Returns size and checksum of every file; the checksum is 0 except for graph and variable index files."""
    files = list(file_io.files_below(path)) if file_io.isdir(path) else [""]
    return {name: _size_and_checksum(os.path.join(path, name) if name else path) for name in files}


def _size_and_checksum(file: str) -> tuple[int, int]:
    is_index = os.path.basename(file) in _INDEXES
    return file_io.size_of(file), zlib.crc32(file_io.read_bytes(file)) if is_index else 0


class _Moved:
    """A moved folder or file, kept open so that its inode number is not reused if it is deleted."""

    def __init__(self, path: str) -> None:
        self._descriptor = None if file_io.is_remote(path) else os.open(path, os.O_RDONLY)

    def is_at(self, path: str) -> bool:
        """Returns whether it is still at a path; always True on an object store."""
        return self._descriptor is None or os.path.samestat(os.fstat(self._descriptor), os.stat(path))

    def __enter__(self) -> _Moved:
        return self

    def __exit__(self, *error: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


def _content_error(target: str, checked: _Content, there: _Content) -> StorageError:
    name = next(name for name in sorted(checked.keys() | there.keys()) if checked.get(name) != there.get(name))
    path = os.path.join(target, name) if name else target
    error = StorageError(errno.EIO, os.strerror(errno.EIO), path)
    error.advice = (
        f"{path}: after publishing, the file differs from the checked one. The disk lost a write, or another process "
        "writes to this path. Fix the cause and run again."
    )
    return error


def _move_into_place(staged: str, target: str, replaced: str, undo: contextlib.ExitStack) -> _Moved:
    """Moves one folder or file into place, and registers callbacks that undo the move."""
    if file_io.exists(target):
        with contextlib.ExitStack() as close:
            moved = close.enter_context(_Moved(staged))
            if _exchanged(staged, target):
                close.pop_all()
                undo.callback(_exchanged, staged, target)
                return moved
        undo.callback(_restore_replaced, replaced, target)
        file_io.move(target, replaced)
    try:
        file_io.move(staged, target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # otherwise another run has published there
            undo.callback(_undo_move, staged, target)
        raise
    undo.callback(_undo_move, staged, target)
    return _Moved(target)  # the target, as a move to another disk copies


def _exchanged(path: str, other: str) -> bool:
    """Exchanges two paths atomically with `renameat2`; returns False, without effect, if that is not supported."""
    if sys.platform != "linux" or file_io.is_remote(other):
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    number = os.stat(path).st_ino
    done = rename(_AT_FDCWD, os.fsencode(path), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0
    return done or os.stat(other).st_ino == number  # a network file system may succeed and return an error


def _undo_move(staged: str, target: str) -> None:
    """Undoes the move of a folder, complete or partial."""
    with _errors_logged(target):
        if not file_io.exists(staged):
            file_io.move(target, staged)
        else:
            file_io.rmtree(target)


def _restore_replaced(replaced: str, target: str) -> None:
    """Restores the replaced folder or file, if it was moved."""
    with _errors_logged(target):
        if file_io.exists(replaced):
            file_io.move(replaced, target)


def _sync_moves(final: str) -> None:
    with _errors_logged(final):
        durable.sync_parents(final)


@contextlib.contextmanager
def _errors_logged(target: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        logging.error("Could not restore the previous content of %s: %s", target, error)
