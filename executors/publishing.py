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
        file_io.rmtree(staging)


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
    with it, so that at every moment the folder holds a whole model or is missing.
    """
    parent, serving = file_io.parent(final), os.path.basename(final.rstrip("/"))
    names = sorted(file_io.listdir(staging), key=lambda name: (name == serving, name))
    for name in names:
        target = os.path.join(parent, name)
        if file_io.exists(target):
            file_io.move(target, os.path.join(staging, f"replaced-{name}"))
        file_io.move(os.path.join(staging, name), target)
