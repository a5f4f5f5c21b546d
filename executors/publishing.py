"""Where a model lies until it has passed its check, and how it gets from there to where it belongs.

with staging_folder(parent) as staging:
    …                       # the module writes, the check looks
    publish(staging, final)
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import socket
import sys
from collections.abc import Iterator

from absl import logging

from . import file_io
from .errors import InputError

STAGING = ".staging"
_REPLACED = "replaced-"  # what was there before, while it is in the staging folder
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD of <fcntl.h>, RENAME_EXCHANGE of <linux/fs.h>


@contextlib.contextmanager
def staging_folder(parent: str, shared_name: str = "") -> Iterator[str]:
    """Makes a folder beside the model's, and takes away what is left in it at the end.

    Unless it is shared, its name holds the host and process that made it. A process that was killed could not clean
    up; the next one on that host does.
    """
    host = socket.gethostname()
    for left in _of_killed_runs(parent, f"{STAGING}-{host}-"):
        logging.info("Removing %s, left by a run that was killed.", left)
        _remove(left)
    staging = os.path.join(parent, shared_name or f"{STAGING}-{host}-{os.getpid()}")
    if not shared_name:  # else the evaluator may have begun in it
        _remove(staging)
    file_io.makedirs(staging)
    try:
        yield staging
    finally:
        try:
            _remove(staging)
        except OSError as error:  # it must hide neither what went wrong before nor a model that is published
            logging.warning("%s stays; the next run sees to it. %s", staging, error)


def _remove(staging: str) -> None:
    """Deletes a staging folder, when a model that lies in there and is missing where it was has been put back."""
    for name in file_io.listdir(staging) if file_io.isdir(staging) else ():
        target = os.path.join(file_io.parent(staging), name.removeprefix(_REPLACED))
        if name.startswith(_REPLACED) and not file_io.exists(target):
            file_io.move(os.path.join(staging, name), target)
    file_io.rmtree(staging)


def require_staged(staging: str) -> None:
    """Makes sure that a staging folder is still there.

    Raises:
      InputError: When somebody has taken it away, or put another folder in the place of the one that it lay in.
    """
    if not file_io.is_remote(staging) and not file_io.isdir(staging):
        parent = file_io.parent(staging)
        raise InputError(
            f"{parent}: the folder that the model was written to, {os.path.basename(staging)} in there, has gone while "
            "the training ran: it was deleted, replaced or unmounted. Nothing was published. Run it again with a "
            "folder that stays."
        )


def _of_killed_runs(parent: str, prefix: str) -> list[str]:
    """Returns staging folders that nobody uses any longer: in a pipeline also those of a step's other executions."""
    found = [os.path.join(parent, name) for name in file_io.listdir(parent) if name.startswith(prefix)]
    if os.path.basename(parent.rstrip("/")).isdigit() and not file_io.is_remote(parent):
        found += file_io.glob(f"{glob.escape(file_io.parent(parent))}/*/{glob.escape(prefix)}*")
    return sorted({path for path in found if not _is_running(path.rpartition("-")[2])})


def _is_running(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        pass
    return True


def publish(staging: str, final: str) -> None:
    """Moves what was staged to where it belongs, the serving model last.

    A model that is there already is replaced in one step where the system can do that, so that at every moment the
    folder holds a whole model. Elsewhere it is moved into the staging folder first, so that at every moment the folder
    holds a whole model or is missing. What is replaced is deleted with the staging folder. When a disk refuses, what
    was there before is moved back.
    """
    parent, serving = file_io.parent(final), os.path.basename(final.rstrip("/"))
    names = sorted(file_io.listdir(staging), key=lambda name: (name == serving, name))
    with contextlib.ExitStack() as undo:
        for name in names:
            _put_in_place(staging, name, os.path.join(parent, name), undo)
        undo.pop_all()


def _put_in_place(staging: str, name: str, target: str, undo: contextlib.ExitStack) -> None:
    """Moves one folder, and notes what has to be done if it, or another one, cannot be moved."""
    staged, replaced = os.path.join(staging, name), os.path.join(staging, f"{_REPLACED}{name}")
    if file_io.exists(target):
        if _exchanged(staged, target):
            undo.callback(_exchanged, staged, target)
            return
        undo.callback(_put_back, replaced, target)
        file_io.move(target, replaced)
    undo.callback(_take_back, staged, target)
    file_io.move(staged, target)


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
