"""A record that a model file's feed fails on is reported with file, position, column and values, for each reader."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.elasticdl.readers.custom_reader import open_custom
from generic_trainer.executors.dialects.elasticdl.readers.open_records import open_records
from generic_trainer.executors.dialects.elasticdl.readers.record_search import describe_failure, lines_note
from generic_trainer.executors.dialects.elasticdl.readers.records import Records
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.inputs.parse_errors import locate_bad_records, track_feed, tracking_parsers

from .....world import records

SIZE, BAD = 3000, 2500  # records, and the index of the bad one: beyond the first window of the search
ROWS = [("old" if index == BAD else f"{index}.5", "ab", str(index % 3)) for index in range(SIZE)]
LINES = [",".join(row) for row in ROWS]


def write_csv(folder: pathlib.Path) -> Records:
    """Returns the rows in two files with an empty line, which is not a row."""
    (folder / "a.csv").write_text("\n".join(["x,s,y", *LINES[:1000]]) + "\n")
    (folder / "b.csv").write_text("\n".join(["x,s,y", "", *LINES[1000:]]) + "\n")
    return open_records(f"{folder}/*.csv", {"columns": ["y", "x"]})


def write_lines(folder: pathlib.Path) -> Records:
    (folder / "a.txt").write_text("\n".join(LINES) + "\n")
    return open_records(str(folder / "a.txt"))


def write_examples(folder: pathlib.Path) -> Records:
    rows = ({"x": np.array([] if x == "old" else [float(x)])} for x, _, _ in ROWS)
    return open_records(records.write_examples(folder / "a.tfrecord", rows))


def write_parquet(folder: pathlib.Path) -> Records:
    pq.write_table(pa.table({"x": [x for x, _, _ in ROWS]}), folder / "a.parquet")
    return open_records(str(folder / "a.parquet"))


class Reader:
    """A custom reader of lines."""

    records_output_types = tf.string

    def create_shards(self) -> dict[str, tuple[int, int]]:
        return {"all": (0, SIZE)}

    def read_records(self, task: Any) -> Iterator[bytes]:
        del task
        return (line.encode() for line in LINES)


def custom(folder: pathlib.Path) -> Records:
    del folder
    return open_custom(Reader(), "table")


def of_line(line: tf.Tensor) -> tf.Tensor:
    return tf.io.decode_csv(line, [[0.0], [""], [0]])[0]


def of_example(record: tf.Tensor) -> tf.Tensor:
    return tf.io.parse_single_example(record, {"x": tf.io.FixedLenFeature([], tf.float32)})["x"]


CASES: dict[str, tuple[Callable[[pathlib.Path], Records], Callable[[Any], tf.Tensor], str]] = {
    "CSV": (
        write_csv,
        lambda row: tf.strings.to_number(row[1]),
        "b.csv, row 1502 (counting the header): the column 'x' is 'old': feed failed with: StringToNumberOp could not "
        "correctly convert string: old. The record is y='1', x='old'.",
    ),
    "text": (
        write_lines,
        of_line,
        "a.txt, line 2501: feed failed with: Field 0 in record 0 is not a valid float: old.",
    ),
    "TFRecord": (
        write_examples,
        of_example,
        "a.tfrecord, record 2501: feed failed with: Key: x. ",
    ),
    "Parquet": (
        write_parquet,
        lambda row: tf.strings.to_number(row["x"]),
        "a.parquet, record 2501: the column 'x' is 'old': feed failed with",
    ),
    "custom": (custom, of_line, "table, record 2501: feed failed with: Field 0 in record 0 is not a valid float: old."),
}


@pytest.mark.parametrize("case", CASES)
def test_the_record_is_named_even_if_the_feed_shuffles(case: str, tmp_path: pathlib.Path) -> None:
    make, parse, message = CASES[case]

    def feed(dataset: tf.data.Dataset) -> tf.data.Dataset:
        return dataset.map(parse).shuffle(500).batch(7)

    assert message in describe_failure(make(tmp_path), feed)


def test_nothing_is_reported_if_the_feed_accepts_all_records(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n")
    assert describe_failure(open_records(str(tmp_path / "a.txt")), lambda dataset: dataset.repeat()) == ""


def test_an_error_of_the_input_is_located_and_another_is_not(tmp_path: pathlib.Path) -> None:
    records = write_csv(tmp_path)

    def feed(dataset: tf.data.Dataset) -> tf.data.Dataset:
        return dataset.map(lambda row: tf.strings.to_number(row[1]))

    with tracking_parsers():
        track_feed("training", lambda: describe_failure(records, feed))
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            list(feed(records.dataset()))
        [found] = locate_bad_records(raised.value)
        assert "row 1502" in found
        with pytest.raises(tf.errors.InvalidArgumentError) as other:
            tf.gather([1], 5)
        assert list(locate_bad_records(other.value)) == []


def test_csv_that_is_read_as_lines_is_explained(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("x,s,y\n1,a,2\n")
    records = open_records(str(tmp_path / "a.csv"))
    note = "Add --data_reader_params=\"columns=['x', 's', 'y']\" for vectors of strings."
    assert lines_note(records).endswith(note)
    found = describe_failure(records, lambda dataset: dataset.map(of_line))
    assert "a.csv, line 1: feed failed" in found
    assert found.endswith(note)
    assert lines_note(write_lines(tmp_path)) == ""


def test_another_separator_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("x;s;y\n1;a;2\n")
    with pytest.raises(InputError, match=r"no column 'x'.* separated by ';': set sep=';' in --data_reader_params"):
        open_records(str(tmp_path / "a.csv"), {"columns": ["x"]})
