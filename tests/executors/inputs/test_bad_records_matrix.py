"""Every reader on every kind of damage; docs/howto/bad_data.md shows the same table, which is compared."""

from __future__ import annotations

import gzip
import pathlib
import zlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

from generic_trainer.executors.dialects.dlrover.sharding.tfrecord_ranges import TfRecordRanges
from generic_trainer.executors.dialects.dlrover.shim.file_reader import FileReader
from generic_trainer.executors.dialects.elasticdl.readers.open_records import open_records
from generic_trainer.executors.dialects.elasticdl.recordio import snappy_framing
from generic_trainer.executors.dialects.elasticdl.recordio.records import RecordWriter
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.examples_format import TF_EXAMPLE, ExamplesFormat
from generic_trainer.executors.inputs.data_accessor import DataAccessor
from generic_trainer.executors.inputs.example_files import find_example_files
from generic_trainer.executors.inputs.parquet.format import PARQUET
from generic_trainer.executors.inputs.tfrecord.framing import check_tf_records
from generic_trainer.executors.preflight.sample import take

from ...world.records import write_records
from .test_bad_records import SCHEMA, example

ROWS = 50
PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "howto" / "bad_data.md"
Read = Callable[[str], int]


def tf_records(path: pathlib.Path) -> None:
    write_records(path, map(example, range(ROWS)), compression="")


def csv(path: pathlib.Path) -> None:
    path.write_text("x,y\n" + "".join(f"{n}.0,{n}\n" for n in range(ROWS)))


def lines(path: pathlib.Path) -> None:
    path.write_text("".join(f"{n}.0,{n}\n" for n in range(ROWS)))


def recordio(path: pathlib.Path) -> None:
    with RecordWriter(str(path), chunk_bytes=200) as writer:
        for number in range(ROWS):
            writer.write(example(number))


def parquet(path: pathlib.Path) -> None:
    table = pa.table({"x": pa.array(np.arange(ROWS, dtype=np.float32)), "y": np.arange(ROWS)})
    pq.write_table(table, path, row_group_size=10)


def tensors(payload: str) -> Read:
    def read(path: str) -> int:
        options = TensorFlowDatasetOptions(8, num_epochs=1, shuffle=False)
        accessor = DataAccessor.for_format(ExamplesFormat(payload))
        try:
            return sum(int(batch["y"].shape[0]) for batch in accessor.tf_dataset_factory([path], options, SCHEMA))
        except tf.errors.DataLossError:
            check_tf_records([path])  # as the trainer does when the module's training raises it
            raise

    return read


def arrow(payload: str) -> Read:
    def read(path: str) -> int:
        options = RecordBatchesOptions(8, num_epochs=1, shuffle=False)
        accessor = DataAccessor.for_format(ExamplesFormat(payload))
        return sum(batch.num_rows for batch in accessor.record_batch_factory([path], options, SCHEMA))

    return read


def opened(**params: object) -> Read:
    def read(path: str) -> int:
        records = open_records(path, params)
        with records.reraising():
            return sum(1 for _ in records.dataset())

    return read


def ranges(path: str) -> int:
    reader = TfRecordRanges([path])
    reader.count_data()
    return len(reader.read_range(0, reader._data_nums))


def file_reader(path: str) -> int:
    reader = FileReader(path, skip_header=False)
    return len(reader.read_data_by_index_range(0, reader.counted()))


def predicted(path: str) -> int:
    return sum(batch.size for file in find_example_files([path]) for batch in file.batches(8))


def checked(path: str) -> int:
    return take([path], f"{path}-sample").count


READERS: dict[str, tuple[Callable[[pathlib.Path], None], str, Read]] = {
    "data_accessor, TFRecord": (tf_records, "a.tfrecord", tensors(TF_EXAMPLE)),
    "data_accessor, Arrow": (tf_records, "a.tfrecord", arrow(TF_EXAMPLE)),
    "data_accessor, Parquet": (parquet, "a.parquet", tensors(PARQUET)),
    "ElasticDL, TFRecord": (tf_records, "a.tfrecord", opened()),
    "ElasticDL, CSV": (csv, "a.csv", opened(columns=["x", "y"])),
    "ElasticDL, text": (lines, "a.txt", opened()),
    "ElasticDL, RecordIO": (recordio, "a.recordio", opened()),
    "ElasticDL, Parquet": (parquet, "a.parquet", opened()),
    "DLRover, TFRecord": (tf_records, "a.tfrecord", ranges),
    "DLRover, text": (lines, "a.txt", file_reader),
    "predict, TFRecord": (tf_records, "a.tfrecord", predicted),
    "predict, CSV": (csv, "a.csv", predicted),
    "check, TFRecord": (tf_records, "a.tfrecord", checked),
    "check, text": (lines, "a.txt", checked),
    "check, RecordIO": (recordio, "a.recordio", checked),
    "check, Parquet": (parquet, "a.parquet", checked),
}
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 2
SAVED_MODEL = b"\x08\x01\x12\xd6\x05\n\x10saved_model_main_op" + bytes(range(1, 256)) * 2


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda data: data[: len(data) * 2 // 3 + 3],
    "bit flipped": flipped,
    "empty": lambda data: b"",
    "gzip": gzip.compress,
    "gzip, cut off": lambda data: gzip.compress(data)[:-30],
    "zlib": zlib.compress,
    "snappy": snappy_framing.compress,
    "PNG": lambda data: PNG,
    "text": lambda data: b"it is no data at all\nnot one row of it\n",
    "SavedModel": lambda data: SAVED_MODEL,
}


@pytest.mark.parametrize("reader", READERS)
def test_the_table_of_the_docs(reader: str, tmp_path: pathlib.Path) -> None:
    write, name, read = READERS[reader]
    found = []
    for number, fault in enumerate(FAULTS.values()):
        path = tmp_path / str(number) / name
        path.parent.mkdir()
        write(path)
        path.write_bytes(fault(path.read_bytes()))
        found.append(outcome(read, str(path)))
    assert f"| {reader} | {' | '.join(found)} |" in PAGE.read_text().splitlines()


def outcome(read: Read, path: str) -> str:
    """Returns what a cell of the table says."""
    try:
        count = read(path)
    except InputError as error:
        return "error" if path in str(error) else "an error without the file's name"
    return {ROWS: "read", 0: "none"}.get(count, f"{count} rows")


@pytest.mark.parametrize("reader", ["data_accessor, TFRecord", "ElasticDL, CSV", "ElasticDL, RecordIO"])
def test_the_name_ends_in_gz_but_the_content_is_not_gzipped(reader: str, tmp_path: pathlib.Path) -> None:
    write, name, read = READERS[reader]
    path = tmp_path / f"{name}.gz"
    write(path)
    if reader.startswith("data_accessor"):
        with pytest.raises(InputError, match=r"is not gzipped, but its name ends in \.gz"):
            read(str(path))
    else:
        assert read(str(path)) == ROWS
