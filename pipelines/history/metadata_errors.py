"""Translates errors of ML Metadata into one-line messages with a remedy.

    before = store_identity(url)
    try:
        BeamDagRunner().run(dag)
    except Exception as error:
        raise translate_pipeline_error(error, url, before) or error

ML Metadata retries while another process writes (for how long: see `connection_config`). Its messages are terse: for a
lock "Concurrent writes aborted", for an unreachable server none.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
from collections.abc import Iterator
from urllib.parse import urlsplit

import ml_metadata as mlmd
from ml_metadata import errors
from ml_metadata.proto import metadata_store_pb2

from ...executors.errors import InputError
from ...executors.runtime.files import file_io, storage_errors
from .metadata_url import display_url

_LOCK_TIMEOUT = 60.0  # seconds; more than a step of another run needs for a write
_LOCK_MESSAGES = ("is locked", "Concurrent writes aborted")
_CONNECT_TIMEOUT = 2.0  # seconds; timeout for a connection to a server
_REMEDIES = {
    "database or disk is full": "Free up disk space there, and run again.",
    "readonly database": "Mount it writable or fix its permissions, and run again.",
    "disk I/O error": "Check the disk or the network connection to it, and run again.",
    "unable to open database file": "Check that its folder exists, and run again.",
}


def store_identity(url: str) -> int | None:
    """Returns the inode number of a SQLite file, 0 if it does not exist, or None for a server."""
    try:
        return None if file_io.is_remote(url) else os.stat(url).st_ino
    except OSError:
        return 0


def translate_pipeline_error(error: Exception, url: str, before: int | None) -> InputError | None:
    """Returns an InputError for a pipeline failure that was caused by the metadata store; None for other failures.

    Args:
      error: The exception raised, or another exception with its text.
      url: The store, as for `connection_config`.
      before: The result of `store_identity` when the pipeline started.
    """
    if before is not None and store_identity(url) != before:
        return InputError(
            f"ML Metadata in {url} was deleted or replaced while the pipeline ran, so it has no records of this run's "
            "steps. Their outputs still exist, unless they were deleted, too. Run the pipeline again."
        )
    return _translated(error, url)


def require_store(config: metadata_store_pb2.ConnectionConfig, url: str) -> None:
    """Checks that a store can be used before a pipeline starts; creates the SQLite file if it does not exist.

    Raises:
      InputError: When the store cannot be used.
    """
    if not file_io.is_remote(url):
        _require_unlocked(url)
    with translated_errors(url):
        mlmd.MetadataStore(config)


@contextlib.contextmanager
def translated_errors(url: str, what: str = "used") -> Iterator[None]:
    """Converts errors of ML Metadata and SQLite in the block.

    Args:
      url: The store, as for `connection_config`.
      what: The failed operation, for the message: "used" (default) or "read".

    Raises:
      InputError: When ML Metadata or SQLite raises an error.
    """
    try:
        yield
    except (RuntimeError, sqlite3.Error, errors.StatusError) as error:
        where = f"ML Metadata in {display_url(url)}"
        raise _translated(error, url, what) or InputError(f"{where} cannot be {what}: {error}") from error


def _translated(error: Exception, url: str, what: str = "used") -> InputError | None:
    """Returns an InputError with a remedy for an error caused by the metadata store; None for other errors."""
    where = f"ML Metadata in {display_url(url)}"
    if "mysql_" in str(error):
        return InputError(f"{where} cannot be {what}: {_server_problem(error, url)}")
    if any(text in str(error) for text in _LOCK_MESSAGES):
        holder = "" if file_io.is_remote(url) else f" (find it with `fuser {url}`)"
        return InputError(f"{where} is locked by another process{holder}. Run again after the lock is released.")
    for text, remedy in _REMEDIES.items():
        if text in str(error):
            free = storage_errors.free_space(url) if "full" in text else ""
            return InputError(" ".join(filter(None, [f"{where} cannot be {what}: {text}.", free, remedy])))
    return None


def _server_problem(error: Exception, url: str) -> str:
    parts = urlsplit(url)
    problem = _unreachable(url)
    if problem:
        return (
            f"{parts.hostname}:{parts.port or 3306} does not respond ({problem}). Start the server, or check the "
            "address and the network, and run again."
        )
    if message := str(error).partition(" query: ")[0].rpartition("error:")[2].strip():
        return f"{message}."
    return (
        f"the server denied access to user {parts.username or ''!r}. Check the user, the database "
        f"{parts.path.strip('/')!r}, and the password in GENERIC_TRAINER_METADATA_PASSWORD."
    )


def _unreachable(url: str) -> str:
    """Returns why no connection to a server can be opened; "" if it can."""
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname, parts.port or 3306), _CONNECT_TIMEOUT):
            return ""
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__


def _require_unlocked(path: str) -> None:
    """Waits until a SQLite file is not locked; ML Metadata would report missing tables instead of the lock.

    Raises:
      InputError: When it is still locked after a minute, or cannot be written.
    """
    if not os.path.isfile(path) or not os.path.getsize(path):
        return
    with contextlib.suppress(sqlite3.DatabaseError):  # not a database: left to ML Metadata to report
        try:
            with contextlib.closing(sqlite3.connect(path, timeout=_LOCK_TIMEOUT, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if translated := _translated(error, path):
                raise translated from error
