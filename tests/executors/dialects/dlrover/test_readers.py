"""DLRover's readers of both generations on real files."""

from __future__ import annotations

import concurrent.futures
import copy
import gzip
import itertools
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest

from generic_trainer import InputError
from generic_trainer.executors.dialects.dlrover.columns import Columns
from generic_trainer.executors.dialects.dlrover.conf import DataSet
from generic_trainer.executors.dialects.dlrover.shim import path_util, reader_util
from generic_trainer.executors.dialects.dlrover.shim.base_reader import ElasticReader, build_sharding_client
from generic_trainer.executors.dialects.dlrover.shim.column_info import Column
from generic_trainer.executors.dialects.dlrover.shim.fake_reader import FakeReader
from generic_trainer.executors.dialects.dlrover.shim.file_reader import FileReader
from generic_trainer.executors.dialects.dlrover.shim.path_util import parse_uri, reader_for
from generic_trainer.executors.dialects.dlrover.shim.sharding_client import Shard, ShardingClient
from generic_trainer.executors.dialects.dlrover.sources import open_source


class Squares(ElasticReader):
    """A reader as in confs for DLRover's main branch."""

    def count_data(self) -> None:
        self._data_nums = 1000

    def read_data_by_index_range(self, start_index: int, end_index: int) -> Iterator[str]:
        for index in range(start_index, end_index):
            yield f"{index},{index * index}"


SQUARES = [f"{index},{index * index}" for index in range(1000)]


class ByShards(ElasticReader):
    """A reader as in first-generation confs: whole shards, with a custom iterator."""

    def __init__(
        self, path: str | None = None, num_epochs: int = 1, batch_size: int = 64, enable_dynamic_sharding: bool = True
    ) -> None:
        super().__init__(
            path=path,
            num_epochs=num_epochs,
            batch_size=batch_size,
            enable_dynamic_sharding=enable_dynamic_sharding,
        )

    def count_data(self) -> None:
        self._data_nums = 100

    def iterator(self) -> Iterator[str]:
        while True:
            shard = self.data_shard_client.fetch_shard()
            if not shard:
                break
            for index in range(shard.start, shard.end):
                yield SQUARES[index]


class RowAShard(ByShards):
    """Like DLRover's own fake reader: one row per shard, whatever its size."""

    def iterator(self) -> Iterator[str]:
        while (shard := self.data_shard_client.fetch_shard()) is not None:
            yield SQUARES[shard.start]


class WithoutSuper(ElasticReader):
    def __init__(self, path: str) -> None:
        self.path = path

    def count_data(self) -> None:
        self._data_nums = 3

    def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str]:
        return [self._path] * (end_index - start_index)


class Shouting(FileReader):
    """A reader that transforms the rows of its base class's iterator."""

    def iterator(self) -> Iterator[str]:
        for row in super().iterator():
            yield row.upper()


@pytest.fixture
def csv(tmp_path: pathlib.Path) -> str:
    """A header and ten rows."""
    path = tmp_path / "train.csv"
    path.write_text("x,y\n" + "".join(f"{x},{2 * x}\n" for x in range(10)))
    return str(path)


TEN = [f"{x},{2 * x}" for x in range(10)]


# ElasticReader


def test_the_constructor_neither_counts_nor_reads() -> None:
    class Untouched(ElasticReader):
        def count_data(self) -> None:
            raise AssertionError

        def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str]:
            raise AssertionError

    reader = Untouched("some/path", 3, 32, False, 5)
    assert (reader.path, reader._path, reader._num_epochs, reader._batch_size) == ("some/path", "some/path", 3, 32)
    assert (reader.enable_dynamic_sharding, reader.num_minibatches_per_shard) == (False, 5)
    assert (reader._data_nums, reader.data_shard_client) == (None, None)
    plain = Untouched()
    assert (plain._path, plain._num_epochs, plain._batch_size) == (None, 1, 64)
    assert (plain.enable_dynamic_sharding, plain.num_minibatches_per_shard) == (True, 10)


def test_setters_set_their_attributes() -> None:
    reader = Squares("a")
    reader.set_path("b")
    reader.set_num_epochs(7)
    reader.set_batch_size(8)
    reader.set_enable_dynamic_sharding(False)
    reader.set_num_minibatches_per_shard(9)
    assert (reader.path, reader._num_epochs, reader._batch_size) == ("b", 7, 8)
    assert (reader.enable_dynamic_sharding, reader.num_minibatches_per_shard) == (False, 9)


def test_a_reader_gets_the_batch_size_and_the_epochs_of_the_conf() -> None:
    reader = Squares("squares")
    columns = (Column.create(name="y", dtype="int64", is_label=True),)
    data = DataSet("train_set", columns, reader=reader, batch_size=7, epoch=2)

    open_source(data, Columns.of(data, "conf"), [], "conf")

    assert (reader._batch_size, reader._num_epochs, reader._data_nums) == (7, 2, 1000)


def test_building_the_client_counts_without_handing_out_shards() -> None:
    reader = Squares()
    reader.build_sharding_client()
    assert reader._data_nums == 1000
    assert reader.data_shard_client is None


def test_the_iterator_without_a_client_yields_all_rows_each_time() -> None:
    reader = Squares(batch_size=7)
    assert list(reader.iterator()) == list(reader.iterator()) == SQUARES


def test_the_iterator_asks_for_ranges_of_bounded_size() -> None:
    class Noting(Squares):
        asked: list[int]

        def read_data_by_index_range(self, start_index: int, end_index: int) -> Iterator[str]:
            self.asked.append(end_index - start_index)
            return super().read_data_by_index_range(start_index, end_index)

    reader = Noting(batch_size=20)
    reader.asked = []
    assert list(reader.iterator()) == SQUARES
    assert reader.asked == [200] * 5  # 20 rows per batch, 10 batches per shard


def test_the_iterator_reads_what_the_client_hands_out() -> None:
    reader = Squares()
    reader.data_shard_client = ShardingClient("squares", 2, 2, 5, num_minibatches_per_shard=1)
    assert list(reader.iterator()) == SQUARES[:5] * 2


@pytest.mark.parametrize("kind", [ByShards, RowAShard])
def test_first_generation_readers_are_read_by_ranges(kind: type[ByShards]) -> None:
    reader = kind("path", num_epochs=2)
    assert list(reader.read_data_by_index_range(3, 6)) == list(reader.read_range(3, 6)) == SQUARES[3:6]
    assert reader.data_shard_client is None


def test_first_generation_readers_use_the_assigned_client() -> None:
    client = build_sharding_client(batch_size=30, dataset_size=100)
    reader = ByShards()
    reader.data_shard_client = client
    assert list(reader.read_range(0, 2)) == SQUARES[:2]  # takes no shards from the client
    assert reader.data_shard_client is client
    assert list(reader.iterator()) == SQUARES[:100]


def test_a_reader_that_does_not_call_super_still_works() -> None:
    reader = WithoutSuper("row")
    assert (reader._path, reader._batch_size, reader._num_epochs, reader.data_shard_client) == ("row", 64, 1, None)
    assert list(reader.iterator()) == ["row"] * 3


def test_ranges_are_read_with_a_custom_iterator(csv: str) -> None:
    reader = Shouting(csv, skip_header=False)
    assert list(reader.read_range(0, 2)) == ["X,Y", "0,0"]
    assert list(Squares().read_range(0, 2)) == SQUARES[:2]


def test_threads_may_read_ranges_of_a_first_generation_reader() -> None:
    reader = ByShards()
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        ranges = [(start, start + 10) for start in range(0, 100, 10)] * 5
        for (start, end), rows in zip(ranges, threads.map(lambda span: reader.read_range(*span), ranges), strict=True):
            assert rows == SQUARES[start:end]


def test_an_iterator_without_a_client_cannot_be_read_by_ranges() -> None:
    class Stream(ByShards):
        def iterator(self) -> Iterator[str]:
            yield from SQUARES

    with pytest.raises(
        InputError, match=r"Stream: its iterator\(\) does not call self\.data_shard_client\.fetch_shard"
    ):
        Stream().read_range(0, 2)


def test_an_unset_count_is_reported() -> None:
    class Forgetful(Squares):
        def count_data(self) -> None:
            self.count = 10

    with pytest.raises(InputError, match=r"Forgetful: count_data\(\) did not set self\._data_nums"):
        Forgetful().build_sharding_client()


def test_classes_without_read_methods_are_rejected_on_construction() -> None:
    class OnlyCounts(ElasticReader):
        def count_data(self) -> None:
            self._data_nums = 1

    class OnlyReads(ElasticReader):
        def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str]:
            return []

    with pytest.raises(TypeError, match=r"OnlyCounts does not define read_data_by_index_range"):
        OnlyCounts()
    with pytest.raises(TypeError, match=r"OnlyReads.*abstract method '?count_data"):
        OnlyReads()


# ShardingClient


def test_shards_come_in_order_epoch_after_epoch() -> None:
    client = ShardingClient("clicks", 2, 2, 9, num_minibatches_per_shard=2)
    once = [Shard("clicks", 0, 4), Shard("clicks", 4, 8), Shard("clicks", 8, 9)]
    assert [client.fetch_shard() for _ in range(8)] == [*once, *once, None, None]
    assert client.report_batch_done(task_ids=[1]) is False


def test_zero_epochs_are_endless_and_zero_rows_give_no_shard() -> None:
    endless = ShardingClient("clicks", 1, 0, 2, num_minibatches_per_shard=2)
    assert [endless.fetch_shard() for _ in range(50)] == [Shard("clicks", 0, 2)] * 50
    assert ShardingClient("clicks", 1, 0, 0).fetch_shard() is None
    assert ShardingClient("clicks", 1, 3, 0).fetch_shard() is None


# FileReader


def rows_of(reader: FileReader) -> list[str]:
    reader.count_data()
    return reader.read_data_by_index_range(0, reader._data_nums or 0)


def test_the_first_row_is_skipped_by_default(csv: str) -> None:
    assert rows_of(FileReader(csv)) == list(FileReader(csv).iterator()) == TEN
    assert rows_of(FileReader(csv, False)) == ["x,y", *TEN]
    assert FileReader(csv).read_data_by_index_range(9, 10) == ["9,18"]
    assert FileReader(csv).header() == "x,y"
    assert FileReader(csv, skip_header=False).header() is None


def test_the_header_setting_can_be_changed_later(csv: str) -> None:
    reader = FileReader(csv)
    assert reader.counted() == 10
    reader.skip_header = False
    assert reader.counted() == 11
    assert reader.read_data_by_index_range(0, 1) == ["x,y"]


@pytest.mark.parametrize("way", ["scheme", "file_name", "path object", "gzipped"])
def test_ways_to_name_the_file(way: str, csv: str, tmp_path: pathlib.Path) -> None:
    if way == "gzipped":
        (tmp_path / "packed").write_bytes(gzip.compress(pathlib.Path(csv).read_bytes()))
    reader = {
        "scheme": lambda: FileReader(f"file://{csv}"),
        "file_name": lambda: FileReader(file_name=csv, num_epochs=2, batch_size=8, enable_dynamic_sharding=False),
        "path object": lambda: FileReader(pathlib.Path(csv)),
        "gzipped": lambda: FileReader(str(tmp_path / "packed")),
    }[way]()
    assert rows_of(reader) == TEN


def test_a_file_is_not_opened_before_it_is_read_and_errors_name_it(tmp_path: pathlib.Path) -> None:
    reader = FileReader(str(tmp_path / "later.csv"))
    with pytest.raises(InputError, match=r"later\.csv: there is no such file"):
        reader.count_data()
    (tmp_path / "later.csv").write_text("h\n1\n")
    assert rows_of(reader) == ["1"]
    reader.set_path(str(tmp_path / "other.csv"))
    (tmp_path / "other.csv").write_text("h\n2\n3\n")
    assert rows_of(reader) == ["2", "3"]
    with pytest.raises(InputError, match="FileReader has no path"):
        FileReader().count_data()


def test_tabs_at_the_ends_of_rows_are_fields(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tb\tc\r\n\t\t\r\n1\t\t\r\n")
    assert rows_of(FileReader(str(tmp_path / "train.tsv"))) == ["\t\t", "1\t\t"]


@pytest.mark.parametrize("content", ["", "only,a,header\n"])
def test_files_without_rows(content: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.csv").write_text(content)
    reader = FileReader(str(tmp_path / "train.csv"))
    assert rows_of(reader) == list(reader.iterator()) == []
    assert reader.header() == (content.strip() or None)


def test_threads_may_share_an_unused_file_reader(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.csv").write_text("h\n" + "\n".join(SQUARES))
    reader = FileReader(str(tmp_path / "train.csv"))
    starts = list(range(0, 900, 30)) * 5
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        read = threads.map(lambda start: reader.read_data_by_index_range(start, start + 100), starts)
        for start, rows in zip(starts, read, strict=True):
            assert rows == SQUARES[start : start + 100]


def test_a_file_reader_may_be_copied(csv: str) -> None:
    reader = FileReader(csv)
    reader.count_data()
    assert rows_of(copy.deepcopy(reader)) == TEN


def test_which_readers_are_declared_thread_safe(csv: str) -> None:
    class OwnRows(FileReader):
        def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str]:
            return super().read_data_by_index_range(start_index, end_index)

    class OwnName(FileReader):
        pass

    assert [kind(csv).thread_safe for kind in (FileReader, OwnName, OwnRows, Shouting)] == [True, True, None, None]
    assert getattr(Squares(), "thread_safe", None) is None
    assert reader_for([f"file://{csv}", f"file://{csv}"]).thread_safe is True
    assert reader_for([f"file://{csv}", "fake://x"]).thread_safe is None


# FakeReader


def test_fake_rows_equal_those_of_dlrover() -> None:
    np.random.seed(42)
    expected = []
    for _ in range(100):
        x = np.random.randint(1, 1000)
        expected.append(f"{x},{2 * x + np.random.randint(1, 5)}")
    behind = np.random.randint(1 << 30)
    np.random.seed(42)
    reader = FakeReader()
    rows = [*reader.read_data_by_index_range(0, 1), *reader.read_data_by_index_range(1, 100)]
    assert rows == expected
    assert np.random.randint(1 << 30) == behind
    assert reader.counted() == len(list(reader.iterator())) == 10_000


# Paths


def test_paths_are_split_into_scheme_and_rest() -> None:
    assert parse_uri("file:///home/test/data.csv") == (path_util.FILE_SCHEME, "/home/test/data.csv")
    assert parse_uri(" file://./data.csv ") == ("file://", "./data.csv")
    assert parse_uri("fake://test.data") == (path_util.FAKE_SCHEME, "test.data")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("flie://train.csv", r"'flie://train\.csv'\. It must begin with one of fake://, file://\. Did you mean 'file'"),
        ("odps://project/table", "'odps://project/table'. It must begin with one of"),
        ("train.csv", "For a file, use file://train.csv"),
        ([], r"\[\]\. A list must contain at least one path"),
        (["file://a", "b"], "'b'"),
        (5, r"5\. It must begin with"),
    ],
)
def test_wrong_paths(path: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"Wrong path provided: .*{message}") as caught:
        reader_for(path)
    assert isinstance(caught.value, InputError)


def test_readers_of_paths(csv: str) -> None:
    reader = reader_for(f"file://{csv}")
    assert type(reader) is FileReader
    assert (reader.skip_header, reader.header()) == (True, "x,y")
    assert rows_of(reader) == TEN
    assert type(reader_for("fake://test.data")) is FakeReader
    assert reader_for(reader) is reader  # as in one of DLRover's examples
    assert type(reader_for([f"file://{csv}"])) is FileReader


def test_a_list_of_paths_yields_the_rows_of_all_in_order(csv: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty.csv").write_text("x,y\n")
    (tmp_path / "more.csv").write_text("x,y\n100,200\n101,202\n")
    reader = reader_for([f"file://{path}" for path in (csv, tmp_path / "empty.csv", tmp_path / "more.csv")])
    rows = [*TEN, "100,200", "101,202"]
    assert reader.read_data_by_index_range(9, 11) == rows[9:11]
    assert reader.counted() == 12
    for start, end in itertools.combinations(range(13), 2):
        assert reader.read_data_by_index_range(start, end) == rows[start:end]
    assert list(reader.iterator()) == rows
    assert (reader.skip_header, reader.header()) == (True, "x,y")
    reader.skip_header = False
    assert reader.read_data_by_index_range(10, 14) == ["9,18", "x,y", "x,y", "100,200"]


# The registry


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> object:
    registry = reader_util.reader_registery
    monkeypatch.setattr(registry, "reader_registry", dict(registry.reader_registry))
    return registry


def test_a_conf_may_register_readers_for_custom_schemes(registry) -> None:
    registry.register_reader("squares", ByShards)
    assert registry.get_reader("squares") is ByShards
    assert parse_uri("squares://eval.data") == ("squares://", "eval.data")
    reader = reader_for("squares://eval.data")
    assert type(reader) is ByShards
    assert reader.path == "eval.data"
    registry.unregister_reader("squares")
    registry.unregister_reader("squares")
    assert registry.get_reader("squares") is None
    with pytest.raises(ValueError, match="Wrong path"):
        reader_for("squares://eval.data")


def test_a_conf_may_replace_the_fake_reader(registry) -> None:
    registry.register_reader("fake", RowAShard)
    assert type(reader_for("fake://test.data")) is RowAShard


def test_there_is_one_registry() -> None:
    assert reader_util.ReaderRegistry() is reader_util.reader_registery
    assert reader_util.reader_registery.get_reader("file") is FileReader
