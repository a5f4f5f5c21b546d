"""`on_bad_records`: what is left out, counted, listed and bounded; and what cannot be."""

from __future__ import annotations

import pathlib
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

from generic_trainer.executors.dialects.elasticdl.readers.open_records import open_records
from generic_trainer.executors.dialects.elasticdl.recordio.records import RecordWriter, read_index
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.examples_format import ExamplesFormat
from generic_trainer.executors.inputs.bad_records import TooManyBadRecordsError, policy, skipping
from generic_trainer.executors.inputs.data_accessor import DataAccessor
from generic_trainer.executors.inputs.parquet.format import PARQUET
from generic_trainer.executors.inputs.tfrecord.framing import frames

from ...world.records import example as example_of
from ...world.records import write_records

SCHEMA = text_format.Parse(
    "".join(
        f'feature {{ name: "{name}" type: {kind} presence {{ min_fraction: 1 min_count: 1 }} '
        "shape { dim { size: 1 } } }"
        for name, kind in (("x", "FLOAT"), ("y", "INT"))
    ),
    schema_pb2.Schema(),
)


def example(number: int, **others: bytes) -> bytes:
    return example_of({"x": float(number), "y": number, **others})


def write(path: pathlib.Path, records: list[bytes], compression: str = "", damaged: tuple[int, ...] = ()) -> str:
    """Writes records; of the damaged ones a bit is flipped, as on a disk: the checksums stay."""
    plain = path.with_name("plain")
    write_records(plain, records)
    data, offset = bytearray(plain.read_bytes()), 0
    plain.unlink()
    for number, record in enumerate(records):
        data[offset + 12] ^= number in damaged
        offset += 16 + len(record)
    if compression:
        with tf.io.gfile.GFile(str(path), "wb") as file:
            import gzip

            file.write(gzip.compress(bytes(data)))
    else:
        path.write_bytes(data)
    return str(path)


def numbers(pattern: str, **options: object) -> list[int]:
    accessor = DataAccessor.for_format(ExamplesFormat())
    given = {"batch_size": 4, "num_epochs": 1, "shuffle": False, **options}
    batches = accessor.tf_dataset_factory([pattern], TensorFlowDatasetOptions(**given), SCHEMA)
    return [value for batch in batches for value in batch["y"].numpy().ravel().tolist()]


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("threads", [None, -1])
def test_data_accessor_yields_the_good_records_of_all_files(
    tmp_path: pathlib.Path, compression: str, shuffle: bool, threads: int | None
) -> None:
    ending = ".gz" if compression else ""
    write(tmp_path / f"a{ending}", [example(n) for n in range(10)], compression, damaged=(0, 5, 9))
    write(tmp_path / f"b{ending}", [example(n) for n in range(10, 20)], compression)
    no_example, other_type = b"\xff\xff", example(21, y=b"word")
    write(tmp_path / f"c{ending}", [example(20), no_example, other_type, example(23)], compression)

    with skipping(5) as bad:
        found = numbers(f"{tmp_path}/*", shuffle=shuffle, reader_num_threads=threads, num_epochs=2)

    good = [n for n in range(24) if n not in (0, 5, 9, 21, 22)]
    assert sorted(found) == sorted(good * 2)
    assert bad is not None
    listed = bad.to_json()
    assert (listed["count"], listed["readers"]) == (5, ["data_accessor"])
    assert [(pathlib.Path(r["file"]).stem, r["place"].split(", ")[1]) for r in listed["records"]] == [
        *(("a", "record 1"), ("a", "record 6"), ("a", "record 10"), ("c", "record 2"), ("c", "record 3"))
    ]
    assert "y" in listed["records"][-1]["problem"]


def test_record_batches_are_of_the_good_records(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a", [*(example(n) for n in range(9)), b"\xff\xff"], damaged=(3,))
    accessor = DataAccessor.for_format(ExamplesFormat())
    options = RecordBatchesOptions(4, num_epochs=1, shuffle=False)
    with skipping(2) as bad:
        batches = list(accessor.record_batch_factory([path], options, SCHEMA))
    assert [value[0] for batch in batches for value in batch.column("y").to_pylist()] == [0, 1, 2, 4, 5, 6, 7, 8]
    assert bad is not None
    assert bad.count == 2


def test_more_bad_records_than_the_limit_are_an_error_that_lists_them(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a", [example(n) for n in range(9)], damaged=(2, 4, 7))
    with skipping(2), pytest.raises(TooManyBadRecordsError) as error:
        numbers(path)
    assert "3 records cannot be read, but on_bad_records=skip:2 skips at most 2" in str(error.value)
    assert all(f"{path}, byte {frame.offset}, record {frame.number + 1}: its checksum is wrong" in str(error.value)
               for frame in frames(path) if frame.record is None)  # fmt: skip


def test_without_the_option_a_damaged_record_is_an_error(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a", [example(n) for n in range(9)], damaged=(2,))
    assert policy("a test") is None
    with pytest.raises(tf.errors.DataLossError):
        numbers(path)


def test_a_damaged_length_is_an_error_with_the_option_too(tmp_path: pathlib.Path) -> None:
    path = pathlib.Path(write(tmp_path / "a", [example(n) for n in range(9)]))
    data = bytearray(path.read_bytes())
    data[3 * (16 + len(example(0))) + 8] ^= 1  # of a length's checksum
    path.write_bytes(data)
    with (
        skipping(100),
        pytest.raises(InputError, match=r"record 4: its length is wrong.*the number of unreadable records is unknown"),
    ):
        numbers(str(path))


def test_the_complete_records_of_a_truncated_file_are_read(tmp_path: pathlib.Path) -> None:
    path = pathlib.Path(write(tmp_path / "a", [example(n) for n in range(1, 9)]))
    path.write_bytes(path.read_bytes()[:-5])
    with skipping(1) as bad:
        assert numbers(str(path)) == list(range(1, 8))
    assert bad is not None
    assert "it is truncated" in bad.to_json()["records"][0]["problem"]


def test_records_of_elasticdl(tmp_path: pathlib.Path) -> None:
    files = [write(tmp_path / "a", [b"1", b"2", b"3"], damaged=(1,)), write(tmp_path / "b.gz", [b"4", b"5"], "GZIP")]
    with skipping(1) as bad:
        assert list(open_records(files).dataset().as_numpy_iterator()) == [b"1", b"3", b"4", b"5"]
    assert bad is not None
    assert bad.to_json()["records"][0]["place"] == "byte 17, record 2"


def test_a_chunk_of_recordio_is_left_out_as_a_whole(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.recordio"
    with RecordWriter(str(path), chunk_bytes=30) as writer:
        for number in range(12):
            writer.write(b"record %03d" % number)
    index = read_index(str(path))
    data = bytearray(path.read_bytes())
    data[index[1].offset + 25] ^= 1
    path.write_bytes(data)
    records = open_records(str(path))
    with pytest.raises(InputError, match=r"chunk at byte \d+ is damaged: its checksum"), records.reraising():
        list(records.dataset())
    with skipping(3) as bad, records.reraising():
        found = list(records.dataset().as_numpy_iterator())
    assert found == [b"record %03d" % n for n in range(12) if not 3 <= n < 6]
    assert bad is not None
    assert bad.count == 3
    with skipping(2), pytest.raises(TooManyBadRecordsError), records.reraising():
        list(records.dataset())


def test_rows_of_csv_with_other_numbers_of_values_are_left_out(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3\n4,5\n6,7,8\n9,10\n")
    records = open_records(str(path), {"columns": ["b"]})
    with skipping(2) as bad, records.reraising():
        assert [row[0] for row in records.dataset().as_numpy_iterator()] == [b"2", b"5", b"10"]
    assert bad is not None
    assert [r["place"] for r in bad.to_json()["records"]] == [
        "row 3 (counting the header)",
        "row 5 (counting the header)",
    ]


def test_a_quote_that_is_not_closed_swallows_nothing_in_silence(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,2\n"3\n4,5\n6,7\n')
    records = open_records(str(path), {"columns": ["b"]})
    with skipping(2), pytest.raises(InputError, match=r"a quote may be unclosed|not CSV"), records.reraising():
        list(records.dataset())


def parquet(path: pathlib.Path) -> str:
    """Writes three row groups of four rows; the second one has a flipped bit, which its page's checksum tells."""
    table = pa.table({"x": pa.array(np.arange(12, dtype=np.float32)), "y": pa.array(np.arange(12))})
    pq.write_table(table, path, row_group_size=4, write_page_checksum=True, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[data.find(struct.pack("<4q", 4, 5, 6, 7)) + 8] ^= 8
    path.write_bytes(data)
    return str(path)


@pytest.mark.skipif(int(pa.__version__.split(".")[0]) < 13, reason="older ones do not look at a page's checksum")
def test_a_row_group_of_parquet_is_left_out_as_a_whole(tmp_path: pathlib.Path) -> None:
    path = parquet(tmp_path / "a.parquet")
    accessor = DataAccessor.for_format(ExamplesFormat(PARQUET))
    options = RecordBatchesOptions(3, num_epochs=1, shuffle=False)

    def rows() -> list[int]:
        return [v[0] for b in accessor.record_batch_factory([path], options, SCHEMA) for v in b.column("y").to_pylist()]

    with pytest.raises(InputError, match=r"a\.parquet: the Parquet file is damaged"):
        rows()
    with skipping(4) as bad:
        assert rows() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert bad is not None
    assert (bad.count, bad.to_json()["records"][0]["place"]) == (4, "row group 1, 4 rows")
    records = open_records(path)
    with skipping(4), records.reraising():
        assert [int(row["y"]) for row in records.dataset()] == [0, 1, 2, 3, 8, 9, 10, 11]
