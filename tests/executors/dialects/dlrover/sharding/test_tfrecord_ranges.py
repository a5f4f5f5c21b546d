"""Ranges of records out of TFRecord files, plain and gzipped."""

from __future__ import annotations

import gzip
import pathlib

import pytest

from generic_trainer.executors.dialects.dlrover.sharding.tfrecord_ranges import TfRecordRanges
from generic_trainer.executors.errors import InputError

from .....world.records import write_records

RECORDS = [f"record {number}".encode() * (number % 7) for number in range(300)]  # some of them empty


@pytest.fixture
def files(tmp_path: pathlib.Path) -> list[str]:
    """Returns two plain files and a gzipped one, with all records in their order."""
    parts = {"a": RECORDS[:130], "b.gz": RECORDS[130:250], "c": RECORDS[250:]}
    return [write_records(tmp_path / name, records) for name, records in parts.items()]


@pytest.mark.parametrize(("start", "end"), [(0, 300), (0, 1), (63, 66), (100, 260), (299, 300), (140, 141), (131, 132)])
def test_ranges_are_the_records_in_the_files_order(files: list[str], start: int, end: int) -> None:
    assert TfRecordRanges(files).read_range(start, end) == RECORDS[start:end]


def test_ranges_one_after_the_other_and_back_again(files: list[str]) -> None:
    records = TfRecordRanges(files)
    records.count_data()

    assert records._data_nums == 300
    for start in (*range(0, 300, 30), 150, 140, 0):
        assert records.read_range(start, start + 30) == RECORDS[start : start + 30]
    assert not records.thread_safe
    assert TfRecordRanges([files[0], files[2]]).thread_safe


@pytest.mark.parametrize("name", ["a", "b.gz", "c"])
def test_a_truncated_file_is_found_when_records_are_counted(
    tmp_path: pathlib.Path, files: list[str], name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-3])

    with pytest.raises(InputError, match=f"{name}.* damaged"):
        TfRecordRanges(files).count_data()


def test_a_flipped_bit_is_found_when_the_record_is_read(tmp_path: pathlib.Path, files: list[str]) -> None:
    whole = bytearray((tmp_path / "a").read_bytes())
    place = whole.index(b"record 100")
    whole[place] ^= 1
    (tmp_path / "a").write_bytes(whole)
    records = TfRecordRanges(files)

    assert records.read_range(0, 100) == RECORDS[:100]
    with pytest.raises(InputError, match="corrupted record at"):
        records.read_range(100, 101)


def test_a_file_that_became_shorter(tmp_path: pathlib.Path, files: list[str]) -> None:
    records = TfRecordRanges(files)
    records.count_data()
    whole = gzip.decompress((tmp_path / "b.gz").read_bytes())
    first = whole[: 12 + len(RECORDS[130]) + 4]
    (tmp_path / "b.gz").write_bytes(gzip.compress(first))

    with pytest.raises(InputError, match="fewer records than when they were counted"):
        records.read_range(130, 140)
