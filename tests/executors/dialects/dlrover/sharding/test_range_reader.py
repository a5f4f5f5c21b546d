"""Rows of Python readers: ordered and complete, however they are read; invalid rows are reported."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.dlrover.sharding.range_reader import (
    RowsError,
    batches,
    count_rows,
    iterate_rows,
    read_range,
    read_ranges,
)
from generic_trainer.executors.dialects.dlrover.sharding.shard_ledger import Shard, ShardLedger
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.inputs.readers.reader_errors import ReaderErrors

SIZE = 103


class Reader:
    """Like DLRover's ElasticReader; each row contains the thread that read it."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def count_data(self) -> None:
        self._data_nums = SIZE

    def read_data_by_index_range(self, start: int, end: int) -> Any:
        time.sleep(0.003)
        return [f"{i},{threading.get_ident()}" for i in range(start, end)]


class Made:
    """A reader built from a function."""

    def __init__(self, read: Callable[[int, int], Any]) -> None:
        self.read_data_by_index_range = read


def rows_of(reader: Any, size: int = SIZE, epochs: int = 1, **options: Any) -> list[bytes]:
    ledger = ShardLedger(size, 5, epochs)
    return [row for block in read_ranges(reader, ledger, **options) for row in block]


def numbers_and_threads(rows: list[bytes]) -> tuple[list[int], set[int]]:
    pairs = [tuple(map(int, row.split(b","))) for row in rows]
    return [number for number, _ in pairs], {thread for _, thread in pairs}


def test_rows_come_in_the_order_of_the_ledger_from_several_threads() -> None:
    numbers, threads = numbers_and_threads(rows_of(Reader(thread_safe=True), epochs=2))

    assert numbers == [*range(SIZE), *range(SIZE)]
    assert 2 <= len(threads) <= 8
    assert threading.get_ident() not in threads


def test_a_block_is_a_shard() -> None:
    ledger = ShardLedger(7, 3, 1)

    found = list(read_ranges(Made(lambda start, end: ["é"] * (end - start)), ledger))

    assert [block.tolist() for block in found] == [["é".encode()] * 3, ["é".encode()] * 3, ["é".encode()]]
    assert all(block.dtype == object for block in found)
    assert ledger.taken() == [Shard(1, 0, 3), Shard(1, 3, 6), Shard(1, 6, 7)]  # the caller reports what is trained


@pytest.mark.parametrize(
    "form",
    [list, tuple, iter, np.array, lambda rows: np.array(rows, object), pd.Series, lambda rows: (row for row in rows)],
)
@pytest.mark.parametrize("text", [str, str.encode])
def test_rows_may_come_in_any_container(form: Callable[[Any], Any], text: Callable[[Any], Any]) -> None:
    reader = Made(lambda start, end: form([text(f"row {i}") for i in range(start, end)]))

    assert rows_of(reader, size=12) == [f"row {i}".encode() for i in range(12)]
    assert read_range(reader, 3, 5).tolist() == [b"row 3", b"row 4"]


@pytest.mark.parametrize(("attributes", "most"), [({}, 1), ({"thread_safe": False}, 1), ({"thread_safe": True}, 8)])
def test_only_a_reader_declared_thread_safe_is_read_by_several_threads(attributes: dict[str, Any], most: int) -> None:
    numbers, threads = numbers_and_threads(rows_of(Reader(**attributes)))

    assert numbers == list(range(SIZE))
    assert (len(threads) > 1) == (most > 1)


def test_only_a_few_shards_are_read_ahead() -> None:
    started = itertools.count()
    latest = [0]

    class Noting(Reader):
        thread_safe = True

        def read_data_by_index_range(self, start: int, end: int) -> Any:
            latest[0] = next(started)
            return super().read_data_by_index_range(start, end)

    blocks = read_ranges(Noting(), ShardLedger(10_000, 5, None), threads=3)
    for number in range(10):
        next(blocks)
        time.sleep(0.03)
        assert latest[0] <= number + 3
    blocks.close()


def test_threads_read_concurrently() -> None:
    barrier = threading.Barrier(3, timeout=30)

    class Meeting(Reader):
        thread_safe = True

        def read_data_by_index_range(self, start: int, end: int) -> Any:
            if start:
                barrier.wait()  # passable only by three threads at once
            return super().read_data_by_index_range(start, end)

    assert numbers_and_threads(rows_of(Meeting(), size=50, threads=3))[0] == list(range(50))


class Flaky(Reader):
    """Fails at row 20 the given number of times."""

    def __init__(self, times: int, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.errors = [LostConnection(f"try {number}") for number in range(1, times + 1)]

    def read_data_by_index_range(self, start: int, end: int) -> Any:
        for row in super().read_data_by_index_range(start, end):
            if row.startswith("22,") and self.errors:
                self.fail_here()
            yield row

    def fail_here(self) -> None:
        raise self.errors.pop(0)


class LostConnection(Exception):
    pass


@pytest.mark.parametrize("safe", [True, False])
def test_a_failing_reader_is_retried_and_the_order_is_preserved(safe: bool) -> None:
    assert numbers_and_threads(rows_of(Flaky(2, thread_safe=safe)))[0] == list(range(SIZE))


@pytest.mark.parametrize("safe", [True, False])
def test_the_third_failure_propagates_unchanged(safe: bool) -> None:
    ledger = ShardLedger(SIZE, 5, 1)
    found: list[bytes] = []

    blocks = read_ranges(Flaky(3, thread_safe=safe), ledger)
    with pytest.raises(LostConnection, match="try 3") as raised:
        found.extend(row for block in blocks for row in block)

    assert numbers_and_threads(found)[0] == list(range(20))
    assert raised.value.__notes__ == ["rows [20, 25) of Flaky failed 3 times"]
    assert "fail_here" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert ledger.take() == Shard(1, 20, 25)  # nothing is dropped


def test_another_worker_may_get_a_failed_shard() -> None:
    """Another worker takes the rows between the failure and the retry; all rows are read nevertheless."""
    ledger = ShardLedger(50, 5, 1)
    theirs: list[Shard | None] = []
    failed = ledger.failed

    def stealing(*args: Any) -> None:
        failed(*args)
        theirs.append(ledger.take("other"))

    ledger.failed = stealing  # type: ignore[method-assign]
    mine = [row for block in read_ranges(Flaky(1, thread_safe=True), ledger) for row in block]

    assert theirs == [Shard(1, 20, 25)]
    assert numbers_and_threads(mine)[0] == [*range(20), *range(25, 50)]
    assert [shard.start for shard in ledger.taken()] == [0, 5, 10, 15, 25, 30, 35, 40, 45]


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (
            lambda start, end: ["x"] * 4,
            r"Made.read_data_by_index_range\(0, 5\) returned 4 rows; it must return 5, .* 0 to 4",
        ),
        (lambda start, end: ["x"] * 7, "returned 7 rows; it must return 5"),
        (lambda start, end: [], "returned 0 rows; it must return 5"),
        (lambda start, end: iter(["x"] * 4), "returned 4 rows; it must return 5"),
        (lambda start, end: itertools.repeat("x"), "returned more than 5 rows; it must return 5"),
        (lambda start, end: None, "returned None; return a list of rows, or yield them"),
        (lambda start, end: "1,2\n3,4", "returned of type str; return a list"),
        (lambda start, end: 5, "returned of type int"),
        (lambda start, end: ["x", "y", [1, 2], "x", "x"], r"row 2 is of type list: \[1, 2\]. Each row must be one str"),
        (lambda start, end: ["x", None, "x", "x", "x"], "row 1 is None: None"),
        (lambda start, end: np.zeros(5), r"row 0 is of type float64: .*0.0"),
    ],
)
def test_wrong_rows_are_reported_immediately(read: Callable[[int, int], Any], message: str) -> None:
    ledger = ShardLedger(20, 5, 1)

    with pytest.raises(RowsError, match=message):
        list(read_ranges(Made(read), ledger))
    assert issubclass(RowsError, InputError)


def test_a_bad_row_is_reported_with_its_number_in_the_data() -> None:
    reader = Made(lambda start, end: [None if i == 13 else "x" for i in range(start, end)])

    with pytest.raises(RowsError, match=r"read_data_by_index_range\(10, 15\): row 13 is None"):
        rows_of(reader, size=20)


@pytest.mark.parametrize("count", [SIZE, np.int64(SIZE), np.array(SIZE)])
def test_rows_are_counted_by_the_reader(count: Any) -> None:
    reader = Reader()
    reader.count_data = lambda: setattr(reader, "_data_nums", count)  # type: ignore[method-assign]

    assert count_rows(reader) == SIZE


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (None, "Reader.count_data.. did not set self._data_nums"),
        ("12", "set self._data_nums to '12', which is of type str; it must be the number of rows"),
        (1.5, "to 1.5, which is of type float"),
        (True, "to True, which is of type bool"),
        (-1, "to -1"),
        ([1], r"to \[1\]"),
        (0, "Reader has no rows: its count_data.. set self._data_nums to 0"),
    ],
)
def test_an_invalid_count_is_reported(count: Any, message: str) -> None:
    reader = Reader()
    reader.count_data = lambda: setattr(reader, "_data_nums", count)  # type: ignore[method-assign]

    with pytest.raises(InputError, match=message):
        count_rows(reader)


def test_a_count_that_is_returned_but_not_set_is_reported() -> None:
    reader = Made(lambda start, end: [])
    reader.count_data = lambda: 4000  # type: ignore[attr-defined]

    with pytest.raises(InputError, match=r"did not set self._data_nums.* It returned 4000; assign that instead"):
        count_rows(reader)


def test_a_missing_method_is_reported() -> None:
    with pytest.raises(InputError, match=r"the reader object has no count_data\(\). A reader by ranges"):
        count_rows(object())
    with pytest.raises(InputError, match=r"object has no read_data_by_index_range\(\)"):
        list(read_ranges(object(), ShardLedger(5, 5)))
    with pytest.raises(InputError, match=r"object has no iterator\(\)"):
        next(iterate_rows(object()))


def reading_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "range reader"]


def wait_for_end(threads: set[threading.Thread]) -> None:
    for thread in threads:
        thread.join(timeout=5)
        assert not thread.is_alive(), "a thread still reads or waits"


def test_closing_ends_the_threads() -> None:
    class Slow(Reader):
        def read_data_by_index_range(self, start: int, end: int) -> Iterator[str]:
            for row in super().read_data_by_index_range(start, end):
                time.sleep(0.001 if start < 100 else 0.1)
                yield row

    before = set(reading_threads())
    blocks = read_ranges(Slow(), ShardLedger(10**6, 100, 1))
    next(blocks)
    ours = set(reading_threads()) - before
    assert ours

    blocks.close()  # does not wait for 100 rows of 0.1 s each

    wait_for_end(ours)


def test_threads_end_with_the_rows() -> None:
    before = set(reading_threads())

    rows_of(Reader())

    wait_for_end(set(reading_threads()) - before)


def test_a_second_iterator_waits_for_the_call_of_the_first() -> None:
    """A single-threaded reader never has two threads inside it, even after its first iterator is closed."""
    inside = threading.Lock()
    met: list[int] = []

    class Alone(Reader):
        thread_safe = False

        def read_data_by_index_range(self, start: int, end: int) -> Any:
            if not inside.acquire(blocking=False):
                met.append(start)
                return []
            try:
                time.sleep(0.03)
                return super().read_data_by_index_range(start, end)
            finally:
                inside.release()

    reader = Alone()
    for _ in range(5):
        blocks = read_ranges(reader, ShardLedger(50, 5, 1))
        assert next(blocks)[0].startswith(b"0,")
        time.sleep(0.01)  # the thread is still reading
        blocks.close()
    assert not met


@pytest.mark.thorough
def test_a_hanging_reader_does_not_keep_the_process_alive() -> None:
    program = """
        import time
        from generic_trainer.executors.dialects.dlrover.sharding.range_reader import read_ranges
        from generic_trainer.executors.dialects.dlrover.sharding.shard_ledger import ShardLedger

        class Hanging:
            def read_data_by_index_range(self, start, end):
                if start:
                    time.sleep(600)
                return ["x"] * (end - start)

        print(len(next(read_ranges(Hanging(), ShardLedger(50, 5, 1)))))
        kept = read_ranges(Hanging(), ShardLedger(50, 5, 1))
        print(len(next(kept)))
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, check=True
    )
    assert ended.stdout.split() == ["5", "5"]


class Plain:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def iterator(self) -> Any:
        yield from self.rows


def test_a_sequential_reader_yields_growing_blocks() -> None:
    rows = [f"{i}" for i in range(5000)]

    found = list(iterate_rows(Plain(rows)))

    assert [len(block) for block in found] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024, 905]
    assert [row.decode() for block in found for row in block] == rows
    assert [len(block) for block in iterate_rows(Plain(rows[:20]), most=4)] == [1, 2, 4, 4, 4, 4, 1]


def test_a_function_may_replace_a_plain_reader() -> None:
    assert [block.tolist() for block in iterate_rows(lambda: ["a", "b", "c"])] == [[b"a"], [b"b", b"c"]]
    assert [block.tolist() for block in iterate_rows(Plain(["a"]).iterator)] == [[b"a"]]
    assert list(iterate_rows(Plain([]))) == []


@pytest.mark.parametrize("skip", [1, 700, 1000, 2000])
def test_leading_rows_can_be_skipped(skip: int) -> None:
    rows = [b"%d" % i for i in range(1000)]

    assert [row for block in iterate_rows(Plain(rows), skip=skip) for row in block] == rows[skip:]


def test_a_sequential_reader_may_be_endless() -> None:
    closed: list[bool] = []

    class Endless:
        def iterator(self) -> Iterator[str]:
            try:
                for i in itertools.count():
                    yield f"{i}"
            finally:
                closed.append(True)

    blocks = iterate_rows(Endless())
    found = [row for _ in range(15) for row in next(blocks)]
    blocks.close()

    assert found == [b"%d" % i for i in range(len(found))]
    assert closed == [True]


def test_wrong_rows_of_a_sequential_reader_are_reported() -> None:
    with pytest.raises(RowsError, match=r"Plain.iterator\(\): row 6 is of type int: 7"):
        list(iterate_rows(Plain(["x"] * 6 + [7]), skip=4))
    with pytest.raises(RowsError, match=r"Plain.iterator\(\): row 0 is None"):
        list(iterate_rows(Plain([None]).iterator))
    reader = Plain([])
    reader.iterator = lambda: "1,2"  # type: ignore[method-assign]
    with pytest.raises(RowsError, match=r"Plain.iterator\(\) returned of type str"):
        list(iterate_rows(reader))


def run(make: Callable[[], tf.data.Dataset]) -> list[list[bytes]]:
    """Returns the batches of a dataset in graph mode, as Estimators read them."""
    found = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        iterator = tf.compat.v1.data.make_initializable_iterator(make())
        batch = iterator.get_next()
        session.run(iterator.initializer)
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                found.append(session.run(batch).tolist())
    return found


@pytest.mark.parametrize("batch_size", [1, 3, 5, 64, 1000])
def test_batches_span_blocks(batch_size: int) -> None:
    reader = Made(lambda start, end: [f"{i}" for i in range(start, end)])
    expected = [b"%d" % i for i in range(SIZE)]

    def make() -> tf.data.Dataset:
        return batches(lambda: read_ranges(reader, ShardLedger(SIZE, 5, 1)), ReaderErrors(), batch_size)

    assert make().element_spec == tf.TensorSpec([None], tf.string)
    for found in (run(make), [batch.tolist() for batch in make().as_numpy_iterator()]):
        assert found == [expected[start : start + batch_size] for start in range(0, SIZE, batch_size)]


def test_an_error_propagates_unchanged_from_a_session() -> None:
    errors = ReaderErrors()

    with pytest.raises(LostConnection) as raised, errors.reraised():
        run(lambda: batches(lambda: read_ranges(Flaky(3), ShardLedger(SIZE, 5, 1)), errors, 8))

    assert "fail_here" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]


@pytest.mark.thorough
def test_rows_reach_a_program_that_has_switched_to_graphs() -> None:
    program = """
        import json
        import tensorflow as tf
        tf.compat.v1.disable_v2_behavior()
        from generic_trainer.executors.dialects.dlrover.sharding.range_reader import batches, iterate_rows, read_ranges
        from generic_trainer.executors.inputs.readers.reader_errors import ReaderErrors
        from generic_trainer.executors.dialects.dlrover.sharding.shard_ledger import ShardLedger

        class Both:
            def read_data_by_index_range(self, start, end):
                return [str(i) for i in range(start, end)]
            def iterator(self):
                return iter(self.read_data_by_index_range(0, 25))

        found = []
        for blocks in (lambda: read_ranges(Both(), ShardLedger(25, 4, 1)), lambda: iterate_rows(Both())):
            dataset = batches(blocks, ReaderErrors(), 10).map(lambda rows: tf.strings.to_number(rows, tf.int32))
            iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
            batch = iterator.get_next()
            with tf.compat.v1.Session() as session:
                session.run(iterator.initializer)
                found += [session.run(batch).tolist() for _ in range(3)]
        print(json.dumps(found))
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    expected = [list(range(10)), list(range(10, 20)), list(range(20, 25))]
    assert json.loads(ended.stdout) == expected * 2
