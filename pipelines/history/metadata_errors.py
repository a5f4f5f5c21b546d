"""What ML Metadata's errors mean, in one line with what to do.

    before = identity(url)
    try:
        BeamDagRunner().run(dag)
    except Exception as error:
        raise explained_after(error, url, before) or error

ML Metadata waits by itself for others who write (`connection_config` says how long), and says little: of a lock that
writes were aborted, of a server that does not answer nothing at all.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
from urllib.parse import urlsplit

import ml_metadata as mlmd
from ml_metadata.proto import metadata_store_pb2

from ...executors.errors import InputError
from ...executors.runtime.files import file_io, storage_errors
from .metadata_store import shown

_PATIENCE = 60.0  # seconds: a step of another run ends its writing in less
_LOCKED = ("is locked", "Concurrent writes aborted")
_NO_ANSWER = 2.0  # seconds for a server to take a connection
_REMEDIES = {
    "database or disk is full": "Make room there, and run it again.",
    "readonly database": "Have it mounted for writing, or give its owner's rights, and run it again.",
    "disk I/O error": "See to the disk, or to the network that it is reached by, and run it again.",
    "unable to open database file": "See that its folder is still there, and run it again.",
}


def identity(url: str) -> int | None:
    """Returns the number of a SQLite file on its disk, 0 when it is not there; None of a server."""
    try:
        return None if file_io.is_remote(url) else os.stat(url).st_ino
    except OSError:
        return 0


def explained_after(error: Exception, url: str, before: int | None) -> InputError | None:
    """Returns what to say of an error that ended a pipeline; None of one that the store is not to blame for.

    Args:
      error: What was raised, or its text in another one.
      url: The store, as for `connection_config`.
      before: Its `identity` when the pipeline began.
    """
    if before is not None and identity(url) != before:
        return InputError(
            f"ML Metadata in {url} was taken away or replaced while the pipeline ran, so that it knows nothing of this "
            "run's steps. What they wrote is still there, unless it was taken away, too. Run it again."
        )
    return explained(error, url)


def require_store(config: metadata_store_pb2.ConnectionConfig, url: str) -> None:
    """Makes sure that a store can be used, before anything is begun; a SQLite file is made if need be.

    Raises:
      InputError: When it cannot.
    """
    if not file_io.is_remote(url):
        _require_unlocked(url)
    try:
        mlmd.MetadataStore(config)
    except RuntimeError as error:
        raise explained(error, url) or InputError(f"ML Metadata in {shown(url)} cannot be used: {error}") from error


def explained(error: Exception, url: str, what: str = "used") -> InputError | None:
    """Returns what to say of an error of ML Metadata's; None of one that the store is not to blame for.

    Args:
      error: What was raised.
      url: The store.
      what: What it cannot be.
    """
    where = f"ML Metadata in {shown(url)}"
    if "mysql_" in str(error):
        return InputError(f"{where} cannot be {what}: {_of_server(error, url)}")
    if any(text in str(error) for text in _LOCKED):
        holder = "" if file_io.is_remote(url) else f" (`fuser {url}` names it)"
        return InputError(f"{where} is locked by another process{holder}. Run it again when it has been let go.")
    for text, remedy in _REMEDIES.items():
        if text in str(error):
            free = storage_errors.free_space(url) if "full" in text else ""
            return InputError(" ".join(filter(None, [f"{where} cannot be {what}: {text}.", free, remedy])))
    return None


def _of_server(error: Exception, url: str) -> str:
    parts = urlsplit(url)
    problem = _unreachable(url)
    if problem:
        return (
            f"{parts.hostname}:{parts.port or 3306} does not answer ({problem}). Start the server, or see to the "
            "address and the network, and run it again."
        )
    if _gist(error):
        return f"{_gist(error)}."
    return (
        f"the server lets {parts.username or 'nobody'!r} not in. See to the user, to the database "
        f"{parts.path.strip('/')!r}, and to the password in GENERIC_TRAINER_METADATA_PASSWORD."
    )


def _unreachable(url: str) -> str:
    """Returns why a server's address cannot be connected to; "" when it can."""
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname, parts.port or 3306), _NO_ANSWER):
            return ""
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__


def _gist(error: Exception) -> str:
    """Returns what MySQL or SQLite said, without the statement."""
    text = str(error)
    if "mysql_" in text:
        return text.partition(" query: ")[0].rpartition("error:")[2].strip()
    return next((known for known in _REMEDIES if known in text), text)


def _require_unlocked(path: str) -> None:
    """Waits until nobody keeps a SQLite file locked; ML Metadata would speak of missing tables.

    Raises:
      InputError: When it stays locked.
    """
    if not os.path.isfile(path) or not os.path.getsize(path):
        return
    with contextlib.suppress(sqlite3.DatabaseError):  # for ML Metadata to judge
        try:
            with contextlib.closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if told := explained(error, path):
                raise told from error
