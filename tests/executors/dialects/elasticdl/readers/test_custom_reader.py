"""Readers that model files bring along are read as ElasticDL read them, in all the forms that they had."""

from __future__ import annotations

import itertools
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.elasticdl.readers.custom_reader import KIND, open_custom
from generic_trainer.executors.dialects.elasticdl.readers.records import Metadata, Records, Shard
from generic_trainer.executors.errors import InputError


class Reader:
    """Yields "a-0", "a-1", … of shards; subclasses are the forms of the different versions."""

    records_output_types: Any = tf.string
    metadata = Metadata(["text"])

    def __init__(self) -> None:
        self.tasks: list[Any] = []

    def create_shards(self) -> Any:
        return {"a": (0, 3), "b": (2, 2)}

    def read_records(self, task: Any) -> Iterator[Any]:
        self.tasks.append(task)
        for i in range(task.start, task.end):
            yield f"{task.shard_name}-{i}"


class NewReader(Reader):
    """As of the last versions: a list of shards, and the task's shard is an object."""

    def create_shards(self) -> Any:
        return [("a", 0, 3), ("b", 2, 2)]

    def read_records(self, task: Any) -> Iterator[Any]:
        for i in range(task.shard.start, task.shard.end):
            yield f"{task.shard.name}-{i}"


def reader_of(records: list[Any], types: Any = None) -> Reader:
    reader = Reader()
    reader.create_shards = lambda: [("all", 0, len(records))]  # type: ignore[method-assign]
    reader.read_records = lambda task: iter(records[task.start : task.end])  # type: ignore[method-assign]
    reader.records_output_types = types
    return reader


def values(records: Records, shards: list[Shard] | None = None) -> list[Any]:
    with records.reraising():
        return list(records.dataset(shards).as_numpy_iterator())


@pytest.mark.parametrize("form", [Reader, NewReader])
def test_shards_are_read_in_their_order(form: type[Reader]) -> None:
    records = open_custom(form(), "/data")

    assert values(records) == [b"a-0", b"a-1", b"a-2", b"b-2", b"b-3"]
    assert values(records) == [b"a-0", b"a-1", b"a-2", b"b-2", b"b-3"]  # as in another epoch
    assert records.shards() == [Shard("a", 0, 3), Shard("b", 2, 4)]
    assert values(records, [Shard("b", 3, 4)]) == [b"b-3"]
    assert records.dataset().element_spec == tf.TensorSpec([], tf.string)
    assert (records.kind, records.metadata.column_names) == (KIND, ["text"])


def test_a_reader_without_shards_reads_its_origin_as_one() -> None:
    reader = Reader()
    reader.create_shards = lambda: None  # type: ignore[method-assign]
    reader.read_records = lambda task: iter([task.shard_name, task.shard.name])  # type: ignore[method-assign]

    assert values(open_custom(reader, "/data.csv")) == [b"/data.csv", b"/data.csv"]


def test_a_dataset_stands_for_itself() -> None:
    records = open_custom(tf.data.Dataset.range(3), "/data")

    assert values(records) == [0, 1, 2]
    assert records.shards() is None
    assert records.metadata.column_names is None


def test_records_have_the_types_that_the_reader_declares() -> None:
    rows = [({"x": [1, 2], "y": i}, f"label {i}") for i in range(50)]
    types = ({"x": tf.float32, "y": tf.int32}, tf.string)

    records = open_custom(reader_of(rows, types), "/data")

    assert records.dataset().element_spec == (
        {"x": tf.TensorSpec([2], tf.float32), "y": tf.TensorSpec([], tf.int32)},
        tf.TensorSpec([], tf.string),
    )
    read = values(records)
    assert [int(row["y"]) for row, _ in read] == list(range(50))
    assert [label for _, label in read] == [f"label {i}".encode() for i in range(50)]


@pytest.mark.parametrize(
    ("record", "spec"),
    [
        ("text", tf.TensorSpec([], tf.string)),
        (b"\x00bytes\x00", tf.TensorSpec([], tf.string)),
        (["a", "bc"], tf.TensorSpec([2], tf.string)),
        (1.5, tf.TensorSpec([], tf.float64)),
        ((np.zeros([2, 3], np.float32), 1), (tf.TensorSpec([2, 3], tf.float32), tf.TensorSpec([], tf.int64))),
        ({"a": [1], "b": True}, {"a": tf.TensorSpec([1], tf.int64), "b": tf.TensorSpec([], tf.bool)}),
        (tf.constant([1, 2]), tf.TensorSpec([2], tf.int32)),
    ],
)
def test_types_that_are_not_declared_are_those_of_the_first_record(record: Any, spec: Any) -> None:
    records = open_custom(reader_of([record, record]), "/data")

    assert records.dataset().element_spec == spec
    read = values(records)
    assert len(read) == 2
    tf.nest.map_structure(
        np.testing.assert_array_equal, read[1], tf.nest.map_structure(lambda x: x.numpy(), _tensors(record))
    )


def _tensors(record: Any) -> Any:
    if isinstance(record, dict):
        return {name: tf.constant(value) for name, value in record.items()}
    return tuple(map(tf.constant, record)) if isinstance(record, tuple) else tf.constant(record)


def test_thousands_of_records_come_in_order_whatever_the_blocks() -> None:
    numbers = list(range(5000))

    assert values(open_custom(reader_of(numbers, tf.int64), "/data")) == numbers


def test_records_may_vary_in_length() -> None:
    rows = [["w"] * (i % 4) for i in range(40)]

    records = open_custom(reader_of(rows, tf.string), "/data")

    assert records.dataset().element_spec == tf.TensorSpec([None], tf.string)
    assert [len(row) for row in values(records)] == [i % 4 for i in range(40)]


def test_records_may_vary_in_rank() -> None:
    records = open_custom(reader_of([1, [1], [[1]], 2], tf.int64), "/data")

    assert [row.tolist() for row in map(np.asarray, values(records))] == [1, [1], [[1]], 2]


def test_a_later_record_of_another_shape_is_reported() -> None:
    records = open_custom(reader_of([[1, 2]] * 40 + [[1]], tf.int64), "/data")

    with pytest.raises(InputError, match=r"/data: .* record of shape \(1,\), but the first 32 have \(2,\)"):
        values(records)


@pytest.mark.parametrize(
    ("record", "types"),
    [
        ("text", tf.float32),
        (("a", "b", "c"), (tf.string, tf.string)),
        ({"a": 1}, {"b": tf.int64}),
        (1, (tf.int64, tf.int64)),
    ],
)
def test_a_record_that_does_not_match_its_types_is_reported(record: Any, types: Any) -> None:
    with pytest.raises(InputError, match="does not fit records_output_types"):
        values(open_custom(reader_of([record], types), "/data"))


def test_an_error_of_the_reader_keeps_its_type_and_traceback() -> None:
    class LostConnection(Exception):
        pass

    class Failing(Reader):
        def read_records(self, task: Any) -> Iterator[Any]:
            yield from super().read_records(task)
            if task.shard_name == "b" and len(self.tasks) > 2:  # not yet when the first records are looked at
                self.fail_here()

        def fail_here(self) -> None:
            raise LostConnection("of the user's")

    records = open_custom(Failing(), "/data")

    with pytest.raises(LostConnection, match="of the user's") as raised:
        values(records)
    assert "fail_here" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]


def test_a_reader_is_called_by_one_thread_at_a_time_and_only_a_bounded_way_ahead() -> None:
    """Of an endless reader, blocks of 1, 2, … 1024 records are read; three or so are waiting, never all."""
    count = itertools.count()
    busy = threading.Lock()

    class Endless(Reader):
        records_output_types = tf.int64

        def read_records(self, task: Any) -> Iterator[Any]:
            while True:
                assert busy.acquire(blocking=False)
                value = next(count)
                busy.release()
                yield value

    read = list(open_custom(Endless(), "/data").dataset().take(3000).as_numpy_iterator())

    assert read == list(range(32, 3032))  # the first 32 told the shape
    assert next(count) < 3032 + 6 * 1024


@pytest.mark.parametrize(
    ("shards", "what"),
    [
        ([], "create_shards.. returned none"),
        ([("a", 0)], "return a list of .name, start, count."),
        ({"a": 3}, "return a list of .name, start, count."),
    ],
)
def test_shards_of_unknown_form_are_reported(shards: Any, what: str) -> None:
    reader = Reader()
    reader.create_shards = lambda: shards  # type: ignore[method-assign]

    with pytest.raises(InputError, match=what):
        values(open_custom(reader, "/data"))


def test_a_shard_with_fewer_records_than_announced_is_reported() -> None:
    reader = reader_of(list(range(100)))
    reader.create_shards = lambda: (("first", 0, 40), ("second", 40, 61))  # type: ignore[method-assign]

    with pytest.raises(InputError, match=r"second, records 40 to 100: read_records\(\) yields 60 records, but .* 61\."):
        values(open_custom(reader))


def test_a_reader_without_records_is_reported() -> None:
    with pytest.raises(InputError, match="/data: the custom reader yields no records"):
        values(open_custom(reader_of([]), "/data"))


def test_an_invalid_reader_is_reported() -> None:
    with pytest.raises(InputError, match=r"custom_data_reader returned list, which has no read_records\(\)"):
        open_custom([1, 2], "/data")
