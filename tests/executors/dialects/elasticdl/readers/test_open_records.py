"""Every file format gives a model file's `feed` the records of ElasticDL's readers, or an error with the remedy."""

from __future__ import annotations

import csv
import gzip
import pathlib
import random
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.elasticdl.readers.open_records import open_records
from generic_trainer.executors.dialects.elasticdl.readers.reader_params import RECORD_IO
from generic_trainer.executors.dialects.elasticdl.readers.records import Records, Shard
from generic_trainer.executors.dialects.elasticdl.recordio import records as recordio
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.inputs.csv import rows as csv_rows
from generic_trainer.executors.inputs.readers.record_files import CSV, PARQUET, TEXT, TF_RECORD

from .....world.records import write_records

IRIS = "sepal.length,sepal.width,variety\n5.1,3.5,Setosa\n7.0,3.2,Versicolor\n"


@pytest.fixture(autouse=True)
def no_maxcompute(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROJECT", "AK", "SK"):
        monkeypatch.delenv(f"MAXCOMPUTE_{name}", raising=False)


def values(records: Records) -> list[Any]:
    with records.reraising():
        return [row.tolist() if isinstance(row, np.ndarray) else row for row in records.dataset().as_numpy_iterator()]


def write(path: pathlib.Path, text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def write_recordio(path: pathlib.Path, records: list[bytes], chunk_bytes: int = 50) -> str:
    with recordio.RecordWriter(str(path), chunk_bytes=chunk_bytes) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def test_csv_yields_vectors_of_the_columns_in_the_requested_order(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "iris.csv", IRIS)

    records = open_records(path, {"columns": ["variety", "sepal.length"], "sep": ","})

    assert values(records) == [[b"Setosa", b"5.1"], [b"Versicolor", b"7.0"]]
    assert records.kind == CSV
    assert records.metadata.column_names == ["variety", "sepal.length"]
    assert records.dataset().element_spec == tf.TensorSpec([2], tf.string)
    assert records.shards() is None


def test_csv_without_columns_is_lines_with_the_header_among_them(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "iris.csv", IRIS)

    for params in ({}, {"reader_type": "CSV"}, {"reader_type": "Text"}):
        records = open_records(path, params)
        assert values(records) == IRIS.encode().splitlines()
        assert records.kind == TEXT
        assert records.metadata.column_names is None


def test_csv_with_a_separator_alone_gives_all_columns(tmp_path: pathlib.Path) -> None:
    records = open_records(write(tmp_path / "iris.csv", IRIS.replace(",", "\t")), {"sep": "\t"})

    assert values(records)[0] == [b"5.1", b"3.5", b"Setosa"]
    assert records.metadata.column_names == ["sepal.length", "sepal.width", "variety"]


def test_csv_may_repeat_a_column(tmp_path: pathlib.Path) -> None:
    records = open_records(write(tmp_path / "a.csv", "a,b\n1,2\n"), {"columns": ["b", "a", "b"]})

    assert values(records) == [[b"2", b"1", b"2"]]


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_csv_is_read_as_the_csv_module_reads_it(tmp_path: pathlib.Path, sep: str, ending: str) -> None:
    """Random cells with special characters, written by Python's csv module, and a few rows that it never writes."""
    rng = random.Random(sep + ending)
    cells = ["", "a", " a ", "é", "a,b", "a;b", "a\tb|", "line\nline", "\r\n", '"', '""', 'say "hi"', "'", "NA", "1.50"]
    rows = [[rng.choice(cells) for _ in range(3)] for _ in range(500)]
    path = tmp_path / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=sep, lineterminator=ending).writerows([["x", "the y", "z"], *rows])
        file.write(sep.join(["a", 'mid"dle', ' "led" ']) + ending + ending)  # quotes inside, and an empty line

    records = open_records(str(path), {"columns": ["z", "x", "the y"], "sep": sep})

    with path.open(newline="", encoding="utf-8") as file:
        expected = [
            [z.encode(), x.encode(), y.encode()] for x, y, z in (row for row in csv.reader(file, delimiter=sep) if row)
        ]
    assert values(records) == expected[1:]
    assert expected[-1] == [b' "led" ', b"a", b'mid"dle']


def test_csv_is_read_across_block_borders(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", 64)
    rows = [[str(i), f'"two\n""lines"" of {i}"'] for i in range(200)]
    path = write(tmp_path / "a.csv", "n,text\n" + "".join(",".join(row) + "\n" for row in rows))

    records = open_records(path, {"columns": ["text", "n"]})

    assert values(records) == [[f'two\n"lines" of {i}'.encode(), str(i).encode()] for i in range(200)]


def test_csv_may_be_gzipped_and_begin_with_a_byte_order_mark(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.csv.gz", "a,b\n1,2\n")
    write(tmp_path / "b.csv", "\ufeffa,b\n3,4\n")
    write(tmp_path / "c.csv", gzip.compress(b"b,a\n6,5\n"))  # columns in another order, gzipped without .gz in the name

    records = open_records(str(tmp_path), {"columns": ["a", "b"]})

    assert values(records) == [[b"1", b"2"], [b"3", b"4"], [b"5", b"6"]]


def test_a_header_alone_has_no_records(tmp_path: pathlib.Path) -> None:
    assert values(open_records(write(tmp_path / "a.csv", "a,b\n"), {"columns": ["a"]})) == []


def test_columns_missing_from_a_header_are_reported_before_anything_is_read(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.csv", IRIS)
    write(tmp_path / "b.csv", IRIS.replace("variety", "Variety"))

    with pytest.raises(
        InputError, match=r"b\.csv: there is no column 'variety'\. Did you mean 'Variety'\? It has sepal"
    ):
        open_records(str(tmp_path), {"columns": ["variety"]})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "a,b\n1,2\n3\n",
            r"row 3 \(counting the header\): it has 1 value, but the header has 2 columns. The row is '3'",
        ),
        ("a,b\n1,2,3\n", r"row 2 \(counting the header\): it has 3 values, but the header has 2 columns."),
        ("a,a,b\n1,2,3\n", "2 columns are named 'a'; column names must be unique"),
        ("\n1,2\n", "its first line must contain the column names"),
        (b"\xff\xfe,a\n", "line 1: not valid CSV: the byte 0xff is not UTF-8"),
    ],
)
def test_invalid_csv_is_reported(tmp_path: pathlib.Path, text: str | bytes, what: str) -> None:
    with pytest.raises(InputError, match=f"{re.escape(str(tmp_path))}/a.csv[:,].*{what}"):
        values(open_records(write(tmp_path / "a.csv", text), {"columns": ["a"]}))


def test_text_yields_lines(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.txt", "one\r\ntwo\n")
    write(tmp_path / "b.txt.gz", "\nthree")

    assert values(open_records(str(tmp_path))) == [b"one", b"two", b"", b"three"]


def test_truncated_gzipped_text_is_reported(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a.txt.gz", "".join(f"line {i * i}\n" for i in range(9000)))
    intact = pathlib.Path(path).read_bytes()
    assert len(values(open_records(path))) == 9000

    pathlib.Path(path).write_bytes(intact[: len(intact) // 2])

    with pytest.raises(InputError, match=r"a\.txt\.gz is a truncated or damaged gzip file"):
        values(open_records(path))


def test_tf_records_are_recognized_gzipped_or_not(tmp_path: pathlib.Path) -> None:
    write_records(tmp_path / "a", [b"1", b""])
    write_records(tmp_path / "b", [b"2"], "GZIP")
    write_records(tmp_path / "c", [b"3"])
    write_records(tmp_path / "empty", [])

    records = open_records(str(tmp_path))

    assert records.kind == TF_RECORD
    assert values(records) == [b"1", b"", b"2", b"3"]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_a_damaged_tf_record_file_is_named(tmp_path: pathlib.Path, compression: str) -> None:
    write_records(tmp_path / "a", [b"1"] * 9, compression)
    path = write_records(tmp_path / "b", [random.Random(i).randbytes(500) for i in range(9)], compression)
    pathlib.Path(path).write_bytes(pathlib.Path(path).read_bytes()[:-700])

    with pytest.raises(
        InputError, match=r"b: .* damaged or truncated: corrupted record at \d+, record \d: it is truncated"
    ):
        values(open_records(str(tmp_path)))


def test_recordio_is_recognized_and_read_in_order(tmp_path: pathlib.Path) -> None:
    all_records = [str(i).encode() * (i % 7) for i in range(300)]
    write_recordio(tmp_path / "a", all_records[:100])
    write_recordio(tmp_path / "b", all_records[100:])

    records = open_records(str(tmp_path))

    assert records.kind == RECORD_IO
    assert values(records) == all_records
    assert values(records) == all_records  # again, as in another epoch


def test_recordio_is_read_by_shards(tmp_path: pathlib.Path) -> None:
    all_records = [str(i).encode() for i in range(100)]
    path = write_recordio(tmp_path / "a", all_records)
    records = open_records(path)

    assert records.shards() == [Shard(path, 0, 100)]
    some = [Shard(path, 90, 95), Shard(path, 10, 12)]
    assert list(records.dataset(some).as_numpy_iterator()) == all_records[90:95] + all_records[10:12]


def test_a_broken_chunk_keeps_its_error_out_of_tf_data(tmp_path: pathlib.Path) -> None:
    path = write_recordio(tmp_path / "a", [b"x" * 40] * 9)
    offset = recordio.read_index(path)[5].offset
    damaged = bytearray(pathlib.Path(path).read_bytes())
    damaged[offset + 25] ^= 1
    pathlib.Path(path).write_bytes(damaged)

    with pytest.raises(InputError, match=f"a: the RecordIO chunk at byte {offset} is damaged"):
        values(open_records(path))


def test_other_errors_propagate(tmp_path: pathlib.Path) -> None:
    records = open_records(write_recordio(tmp_path / "a", [b"not a number"]))

    with pytest.raises(tf.errors.InvalidArgumentError), records.reraising():
        list(records.dataset().map(tf.strings.to_number))


def test_parquet_yields_dicts_of_tensors(tmp_path: pathlib.Path) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int32()),
            "fare": pa.array([0.5, None, 2.5]),
            "name": pa.array(["a", None, "ü"]),
            "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
            "paid": pa.array([True, False, True]),
            "tags": pa.array([["u"], [], ["v", "w"]]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)

    records = open_records(str(tmp_path / "a.parquet"))

    assert records.kind == PARQUET
    assert records.metadata.column_names == ["id", "fare", "name", "kind", "paid", "tags"]
    rows = list(records.dataset().as_numpy_iterator())
    assert [row["id"] for row in rows] == [1, 2, 3]
    assert rows[0]["id"].dtype == np.int32
    assert np.isnan(rows[1]["fare"])
    assert [row["name"] for row in rows] == [b"a", b"", "ü".encode()]
    assert [row["kind"] for row in rows] == [b"x", b"y", b"x"]
    assert [bool(row["paid"]) for row in rows] == [True, False, True]
    assert [row["tags"].tolist() for row in rows] == [[b"u"], [], [b"v", b"w"]]


def test_parquet_yields_selected_columns(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": [2], "when": pa.array([0], pa.timestamp("s"))}), tmp_path / "a.parquet")

    records = open_records(str(tmp_path / "a.parquet"), {"columns": ["b", "a"]})

    assert list(records.dataset().as_numpy_iterator()) == [{"b": 2, "a": 1}]
    with pytest.raises(InputError, match="column 'when' has the unsupported type timestamp"):
        open_records(str(tmp_path / "a.parquet"))
    with pytest.raises(InputError, match="there is no column 'c'"):
        open_records(str(tmp_path / "a.parquet"), {"columns": ["c"]})


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (["1", "x"], pa.string(), r"2\.parquet, row 2: column 'a' is string, but int64 in the first file: .*'x'"),
        ([None, None], pa.time32("ms"), r"2\.parquet: column 'a' is time32\[ms\], but int64 in the first file"),
        ([[], []], pa.list_(pa.struct({"x": pa.int64()})), r"2\.parquet: column 'a' is struct<x: int64>, but int64 in"),
    ],
)
def test_another_type_in_a_later_parquet_file(
    given: list[Any], kind: pa.DataType, said: str, tmp_path: pathlib.Path
) -> None:
    first = [[1]] if pa.types.is_list(kind) else [1]
    pq.write_table(pa.table({"a": first}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.array(given, kind)}), tmp_path / "2.parquet")
    records = open_records([str(tmp_path / name) for name in ("1.parquet", "2.parquet")])
    with pytest.raises(InputError, match=said):
        values(records)


def test_a_missing_number_in_parquet_is_reported(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"a": [1, None]}), tmp_path / "a.parquet")

    with pytest.raises(
        InputError, match=r"a\.parquet, row 2: column 'a' has no value\. Fill such rows, or omit the column"
    ):
        values(open_records(str(tmp_path / "a.parquet")))


def test_a_damaged_parquet_file_is_reported(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match="not a Parquet file, or damaged"):
        open_records(write(tmp_path / "a.parquet", b"PAR1 and nothing else"))


def test_files_folders_patterns_and_lists_of_them_are_read_in_order(tmp_path: pathlib.Path) -> None:
    for name in ("b", "a", "c"):
        write(tmp_path / f"{name}.txt", name)
    write(tmp_path / "_SUCCESS", "")
    write(tmp_path / ".hidden", "no")
    write(tmp_path / "with[brackets].txt", "d")

    def read(*origins: str) -> list[bytes]:
        return values(open_records([f"{tmp_path}/{origin}" for origin in origins]))

    assert read("") == [b"a", b"b", b"c", b"d"]
    assert read("[bc].txt") == [b"b", b"c"]
    assert read("with[brackets].txt") == [b"d"]
    assert read("c.txt", "*") == [b"c", b"a", b"b", b"d"]


def test_missing_data_is_reported(tmp_path: pathlib.Path) -> None:
    (tmp_path / "folder" / "below").mkdir(parents=True)
    write(tmp_path / "train.csv", IRIS)
    write_records(tmp_path / "folder" / "below" / "empty", [])

    with pytest.raises(InputError, match="folder: there are no records; the folder contains no file"):
        open_records(str(tmp_path / "folder"))
    with pytest.raises(InputError, match=r"trian\.csv: there is no such file.* Did you mean 'train\.csv'\?"):
        open_records(str(tmp_path / "trian.csv"))
    with pytest.raises(InputError, match="empty: there are no records; every file is empty"):
        open_records(str(tmp_path / "folder" / "below" / "*"))
    with pytest.raises(InputError, match="the path, pattern or table name is empty"):
        open_records("")


def test_files_of_different_formats_are_reported(tmp_path: pathlib.Path) -> None:
    write_recordio(tmp_path / "a", [b"1"])
    write_records(tmp_path / "b", [b"1"])

    with pytest.raises(InputError, match=r"different kinds: .*/a \(RecordIO\), .*/b \(TFRecord\)"):
        open_records(str(tmp_path))


def test_a_file_of_unknown_format_is_reported_unless_its_reader_is_named(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "iris.data", "a,b\n1,2\n")

    with pytest.raises(InputError, match=r"iris\.data: it begins with 61 2c 62.* Set the format: reader_type='CSV'"):
        open_records(path, {"columns": ["a"]})
    assert values(open_records(path, {"columns": ["a"], "reader_type": "CSV"})) == [[b"1"]]


def test_files_on_other_file_systems_are_read(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet")
    write_recordio(tmp_path / "recordio", [b"one"])
    write_records(tmp_path / "tfrecord", [b"two"], "GZIP")
    write(tmp_path / "a.csv", "a,b\n1,2\n")
    write(tmp_path / "b.csv.gz", "b,a\n4,3\n")
    write(tmp_path / "a.txt.gz", "line\n")
    for path in tmp_path.iterdir():
        with tf.io.gfile.GFile(f"ram://open_records/{path.name}", "wb") as file:
            file.write(path.read_bytes())

    def read(name: str, **params: Any) -> list[Any]:
        return values(open_records(f"ram://open_records/{name}", params))

    assert read("*.parquet") == [{"a": 1}, {"a": 2}]
    assert read("recordio") == [b"one"]
    assert read("tfrecord") == [b"two"]
    assert read("*.csv*", columns=["a"]) == [[b"1"], [b"3"]]
    assert read("a.txt.gz") == [b"line"]
    with pytest.raises(InputError, match="of different kinds"):
        read("")
