"""Connections to ML Metadata, in a SQLite file or a MySQL database, and queries of it.

with opened_store("root/metadata.sqlite") as store:
    made = store.events(executions=[7], kinds=OUTPUTS)
    store.artifacts(event.artifact_id for event in made)
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar
from urllib.parse import quote, unquote, urlsplit

import ml_metadata as mlmd
from ml_metadata.proto.metadata_store_pb2 import (
    Artifact,
    ConnectionConfig,
    Event,
    Execution,
    MySQLDatabaseConfig,
    SqliteMetadataSourceConfig,
)

from ...executors.errors import InputError
from ...executors.runtime.files import file_io
from ...executors.runtime.logs import redaction
from .metadata_errors import translated_errors
from .odd_rows import readable_copy

INPUTS = (Event.INPUT, Event.DECLARED_INPUT)
OUTPUTS = (Event.OUTPUT, Event.DECLARED_OUTPUT, Event.PENDING_OUTPUT)
SQLITE = "metadata.sqlite"
# Name of the environment variable; with the suffix _FILE, of the one with a file's path.
PASSWORD = "GENERIC_TRAINER_METADATA_PASSWORD"  # noqa: S105  # nosec B105
_LOCK_TIMEOUT = 3.0  # seconds to wait for another process's lock
_BATCH_SIZE = 5000  # IDs that fit into an SQL statement

Result = TypeVar("Result")


def connection_config(url: str) -> ConnectionConfig:
    """Returns ML Metadata's connection configuration for a SQLite file or `mysql://user@host:port/database`.

    A password in the URL (`mysql://user:password@host:port/database`) takes precedence over the environment variable
    `GENERIC_TRAINER_METADATA_PASSWORD`, and that over the file named by `GENERIC_TRAINER_METADATA_PASSWORD_FILE`. The
    port defaults to 3306. ML Metadata retries for about a minute while another process writes.

    Raises:
      InputError: When the URL has another scheme or no database, or the password file cannot be read.
    """
    if not file_io.is_remote(url):
        sqlite = SqliteMetadataSourceConfig(filename_uri=os.path.abspath(url))
        sqlite.connection_mode = SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        return ConnectionConfig(sqlite=sqlite)
    parts = urlsplit(url)
    database = parts.path.strip("/")
    if parts.scheme != "mysql" or not parts.hostname or not database:
        raise InputError(f"--metadata {_mask_password(url)}: expected a file path, or mysql://user@host:port/database.")
    user, password = unquote(parts.username or ""), unquote(parts.password or "") or _password()
    redaction.remember_secrets({"password": password})  # TFX logs the connection configuration
    mysql = MySQLDatabaseConfig(
        host=parts.hostname, port=parts.port or 3306, database=database, user=user, password=password
    )
    return ConnectionConfig(mysql=mysql)


def _mask_password(url: str) -> str:
    password = urlsplit(url).password
    return url.replace(f":{password}@", ":***@") if password else url


def _password() -> str:
    file = os.environ.get(f"{PASSWORD}_FILE")
    if not file or PASSWORD in os.environ:
        return os.environ.get(PASSWORD, "")
    try:
        return file_io.read_text(file).rstrip("\r\n")
    except OSError as error:
        raise InputError(f"{PASSWORD}_FILE={file}: {error.strerror or 'the file does not exist'}.") from error


def open_store(url: str) -> mlmd.MetadataStore:
    """Opens an `ml_metadata.MetadataStore` for reading; a SQLite file is opened read-only, without odd rows.

    Args:
      url: As for `connection_config`.

    Raises:
      InputError: When the store does not exist, is locked, is not an ML Metadata store, or has an incompatible version.
    """
    config = connection_config(url)
    with translated_errors(url, "read"):
        if file_io.is_remote(url):
            return mlmd.MetadataStore(config)
        _require_sqlite(url)
        config.sqlite.connection_mode = SqliteMetadataSourceConfig.READONLY
        with readable_copy(url) as config.sqlite.filename_uri:
            return mlmd.MetadataStore(config)


@contextlib.contextmanager
def opened_store(url: str) -> Iterator[MetadataReader]:
    """Opens a store for the block, as `open_store` does.

    Raises:
      InputError: When the store cannot be read, also by a query of the block.
    """
    with translated_errors(url, "read"):
        yield MetadataReader(open_store(url))


def _require_sqlite(path: str) -> None:
    """Raises InputError unless the path is a readable SQLite file of ML Metadata.

    ML Metadata itself would wait for half a minute, and then report missing tables.
    """
    if not os.path.isfile(path):
        raise InputError(f"ML Metadata in {path}: there is no such file.")
    location = f"file:{quote(os.path.abspath(path))}?mode="
    if os.path.exists(f"{path}-journal"):
        # A journal is left by a process killed during a write; SQLite rolls back on the next writable connection.
        with contextlib.suppress(sqlite3.Error):
            _has_metadata(f"{location}rw")
    try:
        if not _has_metadata(f"{location}ro"):
            raise InputError(f"{path} is a SQLite file, but not an ML Metadata store.")
    except sqlite3.OperationalError as error:
        raise InputError(
            f"ML Metadata in {path} cannot be read now: {error}. Try again when no process writes to it."
        ) from error
    except sqlite3.DatabaseError as error:
        raise InputError(f"{path} is not a SQLite file: {error}.") from error


def _has_metadata(location: str) -> bool:
    with contextlib.closing(sqlite3.connect(location, timeout=_LOCK_TIMEOUT, uri=True)) as connection:
        found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'MLMDEnv'").fetchone()
        return found is not None


@dataclasses.dataclass(frozen=True)
class MetadataReader:
    """Queries of a store, for thousands of IDs at a time."""

    store: mlmd.MetadataStore

    def artifacts(self, ids: Iterable[int]) -> list[Artifact]:
        """Returns artifacts, the oldest first."""
        return sorted(_batches(self.store.get_artifacts_by_id, ids), key=lambda artifact: artifact.id)

    def executions(self, ids: Iterable[int]) -> list[Execution]:
        """Returns executions, the oldest first."""
        return sorted(_batches(self.store.get_executions_by_id, ids), key=lambda execution: execution.id)

    def events(
        self,
        *,
        executions: Iterable[int] = (),
        artifacts: Iterable[int] = (),
        kinds: Sequence[int] = (*INPUTS, *OUTPUTS),
    ) -> list[Event]:
        """Returns the events of executions and of artifacts."""
        events = [
            *_batches(self.store.get_events_by_execution_ids, executions),
            *_batches(self.store.get_events_by_artifact_ids, artifacts),
        ]
        return [event for event in events if event.type in kinds]

    def executions_in(self, kind: str, name: str, limit: int | None = None) -> list[Execution]:
        """Returns the executions of a "pipeline" or "pipeline_run", newest first."""
        context = self.store.get_context_by_type_and_name(kind, name)
        newest = mlmd.ListOptions(limit=limit, order_by=mlmd.OrderByField.ID, is_asc=False)
        return list(self.store.get_executions_by_context(context.id, newest)) if context is not None else []

    def contexts(self, execution: int) -> dict[str, str]:
        """Returns the contexts of one execution: {"pipeline": "taxi", "node": "taxi.Trainer", ...}."""
        return {context.type: context.name for context in self.store.get_contexts_by_execution(execution)}


def _batches(query: Callable[[Sequence[int]], Iterable[Result]], ids: Iterable[int]) -> Iterator[Result]:
    unique = sorted(set(ids))
    for start in range(0, len(unique), _BATCH_SIZE):
        yield from query(unique[start : start + _BATCH_SIZE])


def roles_of(event: Event) -> list[str]:
    """Returns an event's input or output keys; several if the artifact was passed as both model and baseline."""
    return [step.key for step in event.path.steps if step.HasField("key")]
