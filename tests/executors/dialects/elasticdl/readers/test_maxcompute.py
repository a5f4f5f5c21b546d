"""Tables of MaxCompute, as far as they can be tested without the service.

`FakeODPS` stands for Alibaba's client, at its border: the calls that we make have the names, arguments and results of
pyodps 0.13 (compared by hand with its source). Nothing here has talked to MaxCompute itself.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.elasticdl.readers import maxcompute
from generic_trainer.executors.dialects.elasticdl.readers.open_records import open_records
from generic_trainer.executors.dialects.elasticdl.readers.reader_params import ODPS
from generic_trainer.executors.dialects.elasticdl.readers.records import Shard
from generic_trainer.executors.errors import InputError

TYPES = {"id": "BIGINT", "width": "DOUBLE", "variety": "STRING"}


class FakeODPS:
    """The client, its only table, and the table's schema and readers."""

    def __init__(self, rows: int = 100) -> None:
        self.rows = [{"id": i, "width": i / 2, "variety": None if i == 7 else f"v{i}"} for i in range(rows)]
        self.account: tuple[Any, ...] = ()
        self.requests: list[tuple[int, int]] = []
        self.opened: list[dict[str, Any]] = []
        self.failures: dict[int, int] = {}  # {first row of a range: how often its request fails after some rows}
        self.names = list(TYPES)
        self.lock = threading.Lock()
        self.table_schema = self
        self.download_id = "session"

    def __call__(self, access_id: str, secret_access_key: str, **options: Any) -> FakeODPS:
        self.account = (access_id, secret_access_key, options)
        return self

    def get_table(self, name: str) -> FakeODPS:
        self.table = name
        return self

    def open_reader(self, **options: Any) -> FakeReader:
        with self.lock:
            self.opened.append(options)
        return FakeReader(self, options.get("columns"))

    def __getitem__(self, column: str) -> Any:
        return types.SimpleNamespace(type=TYPES[column])


class FakeReader:
    def __init__(self, client: FakeODPS, columns: list[str] | None) -> None:
        self.client = client
        self.columns = columns
        self.count = len(client.rows)
        self.download_id = "session"

    def __getitem__(self, rows: slice) -> Iterator[dict[str, Any]]:
        with self.client.lock:
            self.client.requests.append((rows.start, rows.stop))
            fails = self.client.failures.get(rows.start, 0) > 0
            self.client.failures[rows.start] = self.client.failures.get(rows.start, 0) - 1
        for number, row in enumerate(self.client.rows[rows]):
            if fails and number == 2:
                raise ConnectionError("cut off; the key was the-secret-key of the-access-id")
            yield {name: row[name] for name in self.columns or TYPES}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeODPS:
    fake = FakeODPS()
    monkeypatch.setitem(sys.modules, "odps", types.SimpleNamespace(ODPS=fake))
    monkeypatch.setattr(maxcompute, "_SECONDS_BETWEEN_TRIES", 0)
    for name, value in {
        "PROJECT": "shop",
        "AK": "the-access-id",
        "SK": "the-secret-key",
        "ENDPOINT": "http://e",
    }.items():
        monkeypatch.setenv(f"MAXCOMPUTE_{name}", value)
    monkeypatch.delenv("MAXCOMPUTE_TUNNEL_ENDPOINT", raising=False)
    return fake


def expected(*columns: str) -> list[list[bytes]]:
    return [[str(row[name]).encode() for name in columns] for row in FakeODPS().rows]


def values(origin: str, params: dict[str, Any]) -> list[Any]:
    records = open_records(origin, params)
    with records.reraising():
        return [row.tolist() for row in records.dataset().as_numpy_iterator()]


def test_a_table_yields_vectors_of_strings(client: FakeODPS) -> None:
    records = open_records("iris", {"columns": ["variety", "id"]})

    assert records.kind == ODPS
    assert [row.tolist() for row in records.dataset().as_numpy_iterator()] == expected("variety", "id")
    assert expected("variety")[7] == [b"None"]  # as ElasticDL's reader has it
    assert records.dataset().element_spec == tf.TensorSpec([2], tf.string)
    assert records.metadata.column_names == ["variety", "id"]
    assert records.metadata.get_tf_dtype_from_maxcompute_column("id") == tf.int64
    assert client.account == (
        "the-access-id",
        "the-secret-key",
        {"project": "shop", "endpoint": "http://e", "tunnel_endpoint": None},
    )
    assert client.table == "iris"


def test_ranges_are_requested_side_by_side_and_come_in_order(client: FakeODPS) -> None:
    read = values("iris", {"columns": ["id"], "records_per_task": 7, "num_processes": 3})

    assert read == expected("id")
    assert sorted(client.requests) == [(start, min(start + 7, 100)) for start in range(0, 100, 7)]
    assert all(options.get("download_id") == "session" for options in client.opened[1:])  # one view of the table


def test_no_more_ranges_are_requested_than_are_allowed(client: FakeODPS) -> None:
    """Blocks before the one in use: two that tf.data holds and one that it waits to add, then three on their way."""
    rows = iter(open_records("iris", {"records_per_task": 1, "num_processes": 3}).dataset())
    next(rows)

    assert len(client.requests) <= 1 + 3 + 3 + 1


def test_a_range_that_failed_is_read_again_and_no_row_twice(client: FakeODPS) -> None:
    client.failures = {10: 2, 30: 1}

    assert values("iris", {"records_per_task": 10}) == expected("id", "width", "variety")
    assert client.requests.count((10, 20)) == 3


def test_a_range_that_keeps_failing_is_reported_without_the_credentials(client: FakeODPS) -> None:
    client.failures = {10: 3}

    with pytest.raises(
        InputError, match=r"shop\.iris, rows 10 to 20: 3 requests failed; .*key was \*\*\* of \*\*\*"
    ) as raised:
        values("iris", {"records_per_task": 10})
    assert raised.value.__suppress_context__


def test_shards_are_ranges_of_rows(client: FakeODPS) -> None:
    records = open_records("iris", {"columns": ["id"], "records_per_task": 40})

    assert records.shards() == [Shard("iris", 0, 40), Shard("iris", 40, 80), Shard("iris", 80, 100)]
    assert [row[0] for row in records.dataset([Shard("iris", 80, 82)]).as_numpy_iterator()] == [b"80", b"81"]


def test_project_and_partition_are_those_given(client: FakeODPS) -> None:
    records = open_records("other.iris", {"partition": "dt=20200101"})
    list(records.dataset())

    assert client.account[2]["project"] == "other"
    assert client.table == "iris"
    assert {options["partition"] for options in client.opened} == {"dt=20200101"}
    assert records.origin == "MaxCompute table other.iris, partition dt=20200101"


def test_a_missing_column_of_the_table_is_reported(client: FakeODPS) -> None:
    with pytest.raises(InputError, match=r"shop\.iris: there is no column 'Variety'\. Did you mean 'variety'\?"):
        open_records("iris", {"columns": ["Variety"]})


def test_a_rejected_request_is_reported_without_the_credentials(
    client: FakeODPS, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        raise RuntimeError("InvalidAccessKey: the-access-id / the-secret-key")

    monkeypatch.setattr(client, "open_reader", refuse)

    with pytest.raises(InputError, match=r"shop\.iris cannot be read: RuntimeError: InvalidAccessKey: \*\*\* / \*\*\*"):
        values("iris", {})


def test_a_path_is_no_table_even_with_an_account(client: FakeODPS, tmp_path: Any) -> None:
    (tmp_path / "a.txt").write_text("line")

    assert list(open_records(str(tmp_path / "a.txt")).dataset().as_numpy_iterator()) == [b"line"]


def test_an_incomplete_account_is_reported(client: FakeODPS, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAXCOMPUTE_SK")

    with pytest.raises(InputError, match="MaxCompute table iris: MAXCOMPUTE_SK must be set"):
        open_records("iris", {"reader_type": "ODPS"})
    with pytest.raises(InputError, match="iris: there is no such file"):
        open_records("iris")


def test_without_the_client_the_extra_is_named(client: FakeODPS, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "odps", None)

    with pytest.raises(InputError, match=r"pip install 'generic-trainer\[maxcompute\]'"):
        open_records("iris")
