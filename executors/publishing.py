"""Where a model lies until it has passed its check, and how it gets from there to where it belongs.

with staging_folder(parent) as staging:
    …                       # the module writes, the check looks
    publish(staging, final)
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

from absl import logging

from . import file_io
from .errors import InputError

STAGING = ".staging"


@contextlib.contextmanager
def staging_folder(parent: str, shared_name: str = "") -> Iterator[str]:
    """Makes a folder beside the model's, and takes away what is left in it at the end.

    Unless it is shared, its name holds the host and process that made it. A process that was killed could not clean
    up; the next one on that host does.
    """
    host = socket.gethostname()
    for name in file_io.listdir(parent):
        if name.startswith(f"{STAGING}-{host}-") and not _is_running(name.rpartition("-")[2]):
            logging.info("Removing %s, left by a run that was killed.", os.path.join(parent, name))
            file_io.rmtree(os.path.join(parent, name))
    staging = os.path.join(parent, shared_name or f"{STAGING}-{host}-{os.getpid()}")
    if not shared_name:  # else the evaluator may have begun in it
        file_io.rmtree(staging)
    file_io.makedirs(staging)
    try:
        yield staging
    finally:
        try:
            file_io.rmtree(staging)
        except OSError as error:  # it must hide neither what went wrong before nor a model that is published
            logging.warning("%s stays, and may be deleted: %s", staging, error)


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

    A model that is there already is replaced: it is moved into the staging folder first and deleted
    with it, so that at every moment the folder holds a whole model or is missing. When a disk refuses,
    what was there before is moved back.
    """
    parent, serving = file_io.parent(final), os.path.basename(final.rstrip("/"))
    names = sorted(file_io.listdir(staging), key=lambda name: (name == serving, name))
    begun = []
    try:
        for name in names:
            begun.append(name)
            target = os.path.join(parent, name)
            if file_io.exists(target):
                file_io.move(target, _replaced(staging, name))
            file_io.move(os.path.join(staging, name), target)
    except BaseException:
        for name in reversed(begun):
            _put_back(staging, name, os.path.join(parent, name))
        raise


def _replaced(staging: str, name: str) -> str:
    return os.path.join(staging, f"replaced-{name}")


def _put_back(staging: str, name: str, target: str) -> None:
    """Undoes what was done of the publishing of one folder."""
    try:
        if not file_io.exists(os.path.join(staging, name)):  # it is published
            file_io.move(target, os.path.join(staging, name))
        if file_io.exists(_replaced(staging, name)):
            file_io.move(_replaced(staging, name), target)
    except OSError as error:
        logging.error("What was at %s could not be put back: %s", target, error)
