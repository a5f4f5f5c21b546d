"""Reads MaxCompute (formerly ODPS) tables with Alibaba's client `odps`, installed by generic-trainer[maxcompute].

Rows are string vectors, as in ElasticDL's reader: `str()` of each value, so NULL becomes "None". Credentials are read
from the environment variables MAXCOMPUTE_PROJECT, MAXCOMPUTE_AK, MAXCOMPUTE_SK and MAXCOMPUTE_ENDPOINT unless
`ReaderParams` has them.

Usage:

    records = open_table("project.iris", ReaderParams(columns=("sepal_length", "variety"), partition="dt=20200101"))
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import importlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol, TypeVar

import numpy as np
import tensorflow as tf
from absl import logging

from ....errors import InputError
from ....inputs.readers.reader_errors import ReaderErrors
from .csv_records import check_columns
from .reader_params import MAXCOMPUTE_REQUIRED, MAXCOMPUTE_VARIABLES, ODPS, ReaderParams
from .records import Metadata, Records, Shard

Response = TypeVar("Response")

_ROWS_AT_ONCE = 8192  # rows per request; responses are buffered until their turn
_REQUESTS_AT_ONCE = 4
_TRIES = 3
_SECONDS_BETWEEN_TRIES = 5.0


class _Session(Protocol):
    """A snapshot of a table, as returned by the client's `open_reader`."""

    count: int
    download_id: str

    def __getitem__(self, rows: slice) -> Iterable[Mapping[str, object]]: ...


class _ClientTable(Protocol):
    """The client's table object."""

    table_schema: Any

    def open_reader(self, **options: object) -> _Session: ...


def open_table(name: str, params: ReaderParams) -> Records:
    """Opens a table for reading in row order.

    Up to `num_processes` ranges of rows are requested in parallel and held in memory. A failed request is retried, up
    to 3 attempts 5 seconds apart, before any of its rows is returned, so no row is duplicated.

    Args:
      name: "table" or "project.table".
      params: Columns, partition, credentials, number of parallel requests (`num_processes`, default 4) and rows per
        request (`records_per_task`, default 8192).

    Raises:
      InputError: If the client is not installed, credentials are missing, a column is missing, or the service returns
        an error. Credentials are redacted from messages.
    """
    table = _Table.of(name, params)
    schema = table.send(lambda: table.client_table.table_schema)
    columns = list(params.columns or schema.names)
    check_columns(table.label, columns, schema.names)
    errors = ReaderErrors()

    size, at_once = params.records_per_task or _ROWS_AT_ONCE, params.num_processes or _REQUESTS_AT_ONCE

    def ranges(session: _Session) -> list[Shard]:
        return [Shard(name, start, min(start + size, session.count)) for start in range(0, session.count, size)]

    def all_shards() -> list[Shard]:
        return ranges(table.send(table.open_session))

    def dataset(shards: Sequence[Shard] | None) -> tf.data.Dataset:
        def blocks() -> Iterator[np.ndarray]:
            session = table.send(table.open_session)
            return _blocks(table, columns, session, ranges(session) if shards is None else shards, at_once)

        return errors.dataset(blocks, tf.TensorSpec([None, len(columns)], tf.string))

    metadata = Metadata(columns, {column: schema[column].type for column in columns})
    return Records(table.label, ODPS, metadata, dataset, all_shards, errors)


@dataclasses.dataclass(frozen=True)
class _Table:
    """A table, or a partition of it.

    Attributes:
      label: Name of table and partition, for messages.
      client_table: The client's table object.
      partition: The partition to read; None for the whole table.
      secrets: Strings to redact from messages.
    """

    label: str
    client_table: _ClientTable
    partition: str | None
    secrets: tuple[str, ...] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, name: str, params: ReaderParams) -> _Table:
        account = _account(name, params)
        project, _, table = name.rpartition(".")
        project = project or account["project"]
        client = _client_module().ODPS(
            account["access_id"],
            account["access_key"],
            project=project,
            endpoint=account["endpoint"],
            tunnel_endpoint=account["tunnel_endpoint"],
        )
        label = f"MaxCompute table {project}.{table}" + (f", partition {params.partition}" if params.partition else "")
        return cls(label, client.get_table(table), params.partition, (account["access_key"], account["access_id"]))

    def open_session(self) -> _Session:
        """Opens a snapshot of the current table; without `reopen` the client may return one from hours ago."""
        return self.client_table.open_reader(partition=self.partition, reopen=True)

    def rows(self, session: _Session, columns: list[str], shard: Shard) -> list[list[str | bytes]]:
        """Requests the rows of a shard of a session, with a separate reader because several threads call this."""
        reader = self.client_table.open_reader(
            partition=self.partition, download_id=session.download_id, columns=columns
        )
        return [[_text(row[name]) for name in columns] for row in reader[shard.start : shard.end]]

    def send(self, request: Callable[[], Response]) -> Response:
        """Returns the result of a request; raises an InputError, with secrets redacted, if it fails."""
        try:
            return request()
        except Exception as error:
            # Not `from error`: its text may contain the rejected access key.
            raise InputError(f"{self.label} cannot be read: {self.describe(error)}") from None

    def describe(self, error: Exception) -> str:
        text = f"{type(error).__name__}: {error}"
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def _blocks(
    table: _Table, columns: list[str], session: _Session, ranges: Sequence[Shard], at_once: int
) -> Iterator[np.ndarray]:
    """Yields the rows of each range in order, while up to `at_once` ranges are requested in parallel."""
    pool = concurrent.futures.ThreadPoolExecutor(at_once, thread_name_prefix="maxcompute")
    waiting: collections.deque[concurrent.futures.Future[np.ndarray]] = collections.deque()
    try:
        for shard in ranges:
            if len(waiting) == at_once:
                yield waiting.popleft().result()
            waiting.append(pool.submit(_read_range, table, columns, session, shard))
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _read_range(table: _Table, columns: list[str], session: _Session, shard: Shard) -> np.ndarray:
    where = f"{table.label}, rows {shard.start} to {shard.end}"
    tries = 1
    while True:
        try:
            block: np.ndarray = np.array(table.rows(session, columns, shard), object).reshape(-1, len(columns))
            return block
        except Exception as error:
            if tries == _TRIES:
                raise InputError(f"{where}: {tries} requests failed; the last: {table.describe(error)}") from None
            logging.warning("%s: request %d of %d failed: %s", where, tries, _TRIES, table.describe(error))
        time.sleep(_SECONDS_BETWEEN_TRIES)
        tries += 1


def _text(value: object) -> str | bytes:
    return value if isinstance(value, bytes) else str(value)


def _account(name: str, params: ReaderParams) -> dict[str, Any]:
    account = {key: getattr(params, key) or os.environ.get(variable) for key, variable in MAXCOMPUTE_VARIABLES.items()}
    if missing := [MAXCOMPUTE_VARIABLES[key] for key in MAXCOMPUTE_REQUIRED if not account[key]]:
        raise InputError(f"MaxCompute table {name}: {', '.join(missing)} must be set in the environment.")
    return account


def _client_module() -> ModuleType:
    try:
        return importlib.import_module("odps")
    except ModuleNotFoundError as error:
        if error.name != "odps":
            raise
        raise InputError(
            "MaxCompute tables need Alibaba's client, which is not installed: pip install 'generic-trainer[maxcompute]'"
        ) from error
