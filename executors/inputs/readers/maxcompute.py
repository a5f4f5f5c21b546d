"""Tables of MaxCompute (once ODPS) through Alibaba's client `odps`, which comes with generic-trainer[maxcompute].

The rows are vectors of strings, as ElasticDL's reader gave them: `str()` of every value, so that NULL is "None". The
account comes from MAXCOMPUTE_PROJECT, MAXCOMPUTE_AK, MAXCOMPUTE_SK and MAXCOMPUTE_ENDPOINT.

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

from ...errors import InputError
from ..csv.records import check_columns
from .reader_errors import ReaderErrors
from .reader_params import ODPS, ReaderParams
from .records import Metadata, Records, Shard

Answer = TypeVar("Answer")

_VARIABLES = {
    "project": "MAXCOMPUTE_PROJECT",
    "access_id": "MAXCOMPUTE_AK",
    "access_key": "MAXCOMPUTE_SK",
    "endpoint": "MAXCOMPUTE_ENDPOINT",
    "tunnel_endpoint": "MAXCOMPUTE_TUNNEL_ENDPOINT",
}
_REQUIRED = ("project", "access_id", "access_key")
_ROWS_AT_ONCE = 8192  # a request each, the answers of which are kept until it is their turn
_REQUESTS_AT_ONCE = 4
_TRIES = 3
_SECONDS_BETWEEN_TRIES = 5.0


class _Session(Protocol):
    """A view of a table: what the client's `open_reader` returns."""

    count: int
    download_id: str

    def __getitem__(self, rows: slice) -> Iterable[Mapping[str, object]]: ...


class _ClientTable(Protocol):
    """A table of the client."""

    table_schema: Any

    def open_reader(self, **options: object) -> _Session: ...


def is_configured() -> bool:
    """Returns whether the environment has an account, which is what made ElasticDL take data for a table's name."""
    return all(_VARIABLES[name] in os.environ for name in _REQUIRED)


def open_table(name: str, params: ReaderParams) -> Records:
    """Opens a table for reading, in the order of its rows.

    Several ranges of rows are requested at once; as many are kept in memory, and no more. A request that fails is
    repeated before anything of it has been handed on, so no row comes twice.

    Args:
      name: "table", or "project.table".
      params: Columns, partition, account, requests at once (`num_processes`) and their rows (`records_per_task`).

    Raises:
      InputError: When the client or the account is missing, or the service refuses; no message holds credentials.
    """
    table = _Table.of(name, params)
    schema = table.asked(lambda: table.client_table.table_schema)
    columns = list(params.columns or schema.names)
    check_columns(table.label, columns, schema.names)
    errors = ReaderErrors()

    size, at_once = params.records_per_task or _ROWS_AT_ONCE, params.num_processes or _REQUESTS_AT_ONCE

    def ranges(session: _Session) -> list[Shard]:
        return [Shard(name, start, min(start + size, session.count)) for start in range(0, session.count, size)]

    def all_shards() -> list[Shard]:
        return ranges(table.asked(table.open_session))

    def dataset(shards: Sequence[Shard] | None) -> tf.data.Dataset:
        def blocks() -> Iterator[np.ndarray]:
            session = table.asked(table.open_session)
            return _blocks(table, columns, session, ranges(session) if shards is None else shards, at_once)

        return errors.dataset(blocks, tf.TensorSpec([None, len(columns)], tf.string))

    metadata = Metadata(columns, {column: schema[column].type for column in columns})
    return Records(table.label, ODPS, metadata, dataset, all_shards, errors)


@dataclasses.dataclass(frozen=True)
class _Table:
    """A table of the client, or a partition of it.

    Attributes:
      label: For messages.
      client_table: The client's object.
      partition: To read, or None for all of the table.
      secrets: What no message may hold.
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
        """Opens a view of the table as it is now; without `reopen` it may be one of hours ago."""
        return self.client_table.open_reader(partition=self.partition, reopen=True)

    def rows(self, session: _Session, columns: list[str], shard: Shard) -> list[list[str | bytes]]:
        """Requests some rows of a session, by a reader of its own since this runs in several threads."""
        reader = self.client_table.open_reader(
            partition=self.partition, download_id=session.download_id, columns=columns
        )
        return [[_text(row[name]) for name in columns] for row in reader[shard.start : shard.end]]

    def asked(self, request: Callable[[], Answer]) -> Answer:
        """Returns what a request to the service gives, with its error told as ours."""
        try:
            return request()
        except Exception as error:
            # Without `from error`: its text may quote the access key that was refused.
            raise InputError(f"{self.label} cannot be read: {self.describe(error)}") from None

    def describe(self, error: Exception) -> str:
        text = f"{type(error).__name__}: {error}"
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def _blocks(
    table: _Table, columns: list[str], session: _Session, ranges: Sequence[Shard], at_once: int
) -> Iterator[np.ndarray]:
    """Yields the rows of each range, in their order; the next ranges are on their way meanwhile."""
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
    account = {key: getattr(params, key) or os.environ.get(variable) for key, variable in _VARIABLES.items()}
    if missing := [_VARIABLES[key] for key in _REQUIRED if not account[key]]:
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
