"""ML Metadata while a pipeline runs: what fails for a moment is asked again, what lasts is said in one line.

    with patient(url):
        BeamDagRunner().run(dag)

ML Metadata itself says little: of a server that does not answer nothing at all, of a lock after half a minute that
tables are missing; and a store that has lost its server crashes the process when it is asked a third time.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import TypeVar
from urllib.parse import urlsplit

import ml_metadata as mlmd
from absl import logging
from ml_metadata import errors
from ml_metadata.proto import metadata_store_pb2

from ...executors.compat.ml_metadata import reconnect, store_call
from ...executors.errors import InputError
from ...executors.keras.interception import replaced
from ...executors.runtime.files import file_io, storage_errors
from ...executors.runtime.files.retry import watched
from ...executors.runtime.logs.exceptions import remembered
from .metadata_store import shown

Result = TypeVar("Result")

PATIENCE = 60.0  # seconds: a database server restarts, or another run's step ends, in less
_TOLD_AFTER = 3.0
_PASSING = ("Lost connection", "gone away", "mysql_real_connect failed", "shutdown in progress", "disk I/O error")
_NO_ANSWER = 2.0  # seconds for a server to take a connection
_REMEDIES = {
    "database or disk is full": "Make room there, and run it again.",
    "readonly database": "Have it mounted for writing, or give its owner's rights, and run it again.",
    "disk I/O error": "See to the disk, or to the network that it is reached by, and run it again.",
    "unable to open database file": "See that its folder is still there, and run it again.",
}


@contextlib.contextmanager
def patient(url: str, patience: float = PATIENCE) -> Iterator[None]:
    """Has what a block asks ML Metadata asked again when it fails for a moment.

    Args:
      url: The store, as for `connection_config`.
      patience: Seconds.

    Raises:
      InputError: When the store stays locked, away, or cannot be written.
    """

    def connect(
        original: Callable[..., None], store: mlmd.MetadataStore, *arguments: object, **options: object
    ) -> None:
        if not file_io.is_remote(url):
            with remembered():  # Beam hands on no more than its text
                await_unlocked(url, patience)
        _patiently(lambda: original(store, *arguments, **options), url, patience)

    def call(original: Callable[..., None], store: mlmd.MetadataStore, *arguments: object) -> None:
        is_first = True

        def ask() -> None:
            nonlocal is_first
            if not is_first:
                reconnect(store)
            is_first = False
            original(store, *arguments)

        _patiently(ask, url, patience)

    with replaced(mlmd.MetadataStore, "__init__", connect), replaced(*store_call(), call):
        there = _identity(url)
        try:
            yield
        except Exception as error:
            if there is not None and _identity(url) != there:
                raise InputError(
                    f"ML Metadata in {url} was taken away or replaced while the pipeline ran, so that it knows "
                    f"nothing of this run's steps. What they wrote is still there, unless it was taken away, "
                    "too. Run it again."
                ) from error
            raise


def _identity(url: str) -> int | None:
    """Returns the number of a SQLite file on its disk, 0 when it is not there; None of a server."""
    try:
        return None if file_io.is_remote(url) else os.stat(url).st_ino
    except OSError:
        return 0


def require_store(config: metadata_store_pb2.ConnectionConfig, url: str) -> None:
    """Makes sure that a store can be used, before anything is begun; a SQLite file is made if need be.

    Raises:
      InputError: When it cannot.
    """
    if not file_io.is_remote(url):
        await_unlocked(url)
    try:
        mlmd.MetadataStore(config)
    except RuntimeError as error:
        raise explained(error, url) or InputError(f"ML Metadata in {shown(url)} cannot be used: {error}") from error


def _patiently(ask: Callable[[], Result], url: str, patience: float) -> Result:
    end, pause = time.monotonic() + patience, 0.2
    while True:
        try:
            with watched("Asking", f"ML Metadata in {shown(url)}"):
                return ask()
        except (errors.StatusError, RuntimeError) as error:
            is_passing = any(text in str(error) for text in _PASSING)
            if not is_passing or time.monotonic() > end or _refuses(error, url):
                told = explained(error, url)
                if told is None:
                    raise
                with remembered():
                    raise told from None
            what = _gist(error) or "it does not answer"
            logging.warning("ML Metadata in %s fails: %s. Trying again.", shown(url), what)
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 (those that fail together do not try together)
        pause = min(2 * pause, 5.0)


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
    if "is locked" in str(error):
        return InputError(f"{where} is locked{_holder(url)}. Run it again when it has been let go.")
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


def _refuses(error: Exception, url: str) -> bool:
    """Returns whether a server is there, and lets nobody in."""
    return "mysql_real_connect failed" in str(error) and not _gist(error) and not _unreachable(url)


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


def await_unlocked(path: str, patience: float = PATIENCE) -> None:
    """Waits until nobody keeps a SQLite file locked; says after some seconds who does.

    Args:
      path: The file; one that is not there is not locked.
      patience: Seconds.

    Raises:
      InputError: When it stays locked for longer.
    """
    begin, was_told = time.monotonic(), False
    while _is_locked(path):
        waited = time.monotonic() - begin
        if waited > patience:
            raise InputError(
                f"ML Metadata in {path} has been locked for {waited:.0f} s{_holder(path)}. Run it again when it has "
                "been let go."
            )
        if waited > _TOLD_AFTER and not was_told:
            logging.warning("ML Metadata in %s is locked%s; waiting for up to %.0f s.", path, _holder(path), patience)
            was_told = True
        time.sleep(0.1)


def _is_locked(path: str) -> bool:
    if not os.path.isfile(path) or not os.path.getsize(path):
        return False
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        return "is locked" in str(error)
    except sqlite3.DatabaseError:
        return False  # for ML Metadata to judge
    return False


def _holder(path: str) -> str:
    """Returns " by process 123 (python train.py)" of who has locked a file; "" where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        file = os.stat(path).st_ino
        with open("/proc/locks", encoding="ascii") as locks:
            fields = [line.split() for line in locks]
        for process in (one[4] for one in fields if one[1] != "->" and one[5].endswith(f":{file}")):
            if int(process) != os.getpid():
                with open(f"/proc/{process}/cmdline", "rb") as file_of_process:
                    command = file_of_process.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
                return f" by process {process} ({command[:80]})"
    return ""
