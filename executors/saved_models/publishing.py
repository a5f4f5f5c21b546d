"""Moves a run's checked outputs from its staging directory to where they belong.

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
from ..runtime.files import file_io
from .staging import REPLACED

_INDEXES = ("saved_model.pb", "saved_model.pbtxt", "variables.index")
_Content: TypeAlias = dict[str, tuple[int, int]]  # size and checksum by file
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD of <fcntl.h>, RENAME_EXCHANGE of <linux/fs.h>


def publish(staging: str, outputs: str, names: Sequence[str], final: str) -> None:
    """Moves a run's outputs to where they belong, the serving model last, and reads the models there once more.

    A model that is there already is replaced in one step where the system can do that, so that at every moment the
    folder holds a whole model. Elsewhere it is moved into the staging directory first, so that at every moment the
    folder holds a whole model or is missing. What is replaced is deleted with the staging directory. When a disk
    refuses, or what was moved is not what was checked, what was there before is moved back.

    Args:
      staging: The staging directory.
      outputs: The directory in it that holds the outputs.
      names: What to move of them; anything else in there stays.
      final: The serving model's path; the others are moved beside it.

    Raises:
      StorageError: When a disk refuses, or holds something else than what was moved there.
    """
    parent, serving = file_io.parent(final), os.path.basename(final.rstrip("/"))
    with contextlib.ExitStack() as undo:
        for name in sorted(names, key=lambda name: (name == serving, name)):
            staged, target = os.path.join(outputs, name), os.path.join(parent, name)
            checked = _content_of(staged)
            with _put_in_place(staged, target, os.path.join(staging, f"{REPLACED}{name}"), undo) as moved:
                there = _content_of(target)
                if there != checked and moved.is_at(target):  # else another run has replaced it since
                    raise _changed(target, checked, there)
        undo.pop_all()


def _content_of(path: str) -> _Content:
    """Returns the size of every file, and a checksum of those by which TensorFlow finds the others."""
    files = list(file_io.files_below(path)) if file_io.isdir(path) else [""]
    return {name: _size_and_checksum(os.path.join(path, name) if name else path) for name in files}


def _size_and_checksum(file: str) -> tuple[int, int]:
    is_index = os.path.basename(file) in _INDEXES
    return file_io.size_of(file), zlib.crc32(file_io.read_bytes(file)) if is_index else 0


class _Moved:
    """A folder or file that was moved. It is held open: the number of a deleted one would go to a new one."""

    def __init__(self, path: str) -> None:
        self._descriptor = None if file_io.is_remote(path) else os.open(path, os.O_RDONLY)

    def is_at(self, path: str) -> bool:
        """Returns whether it is still at a path; an object store cannot tell."""
        return self._descriptor is None or os.path.samestat(os.fstat(self._descriptor), os.stat(path))

    def __enter__(self) -> _Moved:
        return self

    def __exit__(self, *error: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


def _changed(target: str, checked: _Content, there: _Content) -> StorageError:
    name = next(name for name in sorted(checked.keys() | there.keys()) if checked.get(name) != there.get(name))
    path = os.path.join(target, name) if name else target
    error = StorageError(errno.EIO, os.strerror(errno.EIO), path)
    error.advice = (
        f"{path}: after publishing, the file is not the one that was checked. The disk lost a write, or something else "
        "writes there. See to it and run it again."
    )
    return error


def _put_in_place(staged: str, target: str, replaced: str, undo: contextlib.ExitStack) -> _Moved:
    """Moves one folder or file, and registers how to undo it if it, or another one, cannot be moved."""
    if file_io.exists(target):
        with contextlib.ExitStack() as close:
            moved = close.enter_context(_Moved(staged))
            if _exchanged(staged, target):
                close.pop_all()
                undo.callback(_exchanged, staged, target)
                return moved
        undo.callback(_put_back, replaced, target)
        file_io.move(target, replaced)
    try:
        file_io.move(staged, target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # else another run's model is there now
            undo.callback(_take_back, staged, target)
        raise
    undo.callback(_take_back, staged, target)
    return _Moved(target)  # which may be a copy


def _exchanged(one: str, other: str) -> bool:
    """Exchanges two folders in one step; returns False, with nothing done, where the system does not do that."""
    if sys.platform != "linux" or file_io.is_remote(other):
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    number = os.stat(one).st_ino
    done = rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0
    return done or os.stat(other).st_ino == number  # a network's file system may do it, and say that it failed


def _take_back(staged: str, target: str) -> None:
    """Undoes the move of a folder, also half of one."""
    with _tried(target):
        if not file_io.exists(staged):
            file_io.move(target, staged)
        else:
            file_io.rmtree(target)


def _put_back(replaced: str, target: str) -> None:
    """Puts back what was there before, if it has been moved."""
    with _tried(target):
        if file_io.exists(replaced):
            file_io.move(replaced, target)


@contextlib.contextmanager
def _tried(target: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        logging.error("What was at %s could not be put back: %s", target, error)
