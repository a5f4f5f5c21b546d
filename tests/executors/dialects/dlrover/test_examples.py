"""tf.Examples and delimited files as input of a DLRover conf: values are converted to the declared columns."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.dlrover.columns import Columns
from generic_trainer.executors.dialects.dlrover.conf import DataSet
from generic_trainer.executors.dialects.dlrover.examples import parse_examples
from generic_trainer.executors.dialects.dlrover.range_source import RangeSource
from generic_trainer.executors.dialects.dlrover.run import train
from generic_trainer.executors.dialects.dlrover.sequential_source import ExampleSource
from generic_trainer.executors.dialects.dlrover.shim.column_info import Column
from generic_trainer.executors.dialects.dlrover.sources import open_source
from generic_trainer.executors.dialects.dlrover.text.delimited import Field, split_values
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.fn_args import FnArgs
from generic_trainer.executors.inputs.readers.reader_errors import ReaderErrors

from ....world import records
from ....world.records import write_examples


def columns(**types: str) -> list[Any]:
    """Makes columns by name; a type ending in "*" is sparse, and the last column is the label."""
    made = [
        Column.create(name=name, dtype=kind.rstrip("*"), is_sparse=kind.endswith("*"), is_label=False)
        for name, kind in types.items()
    ]
    made[-1].is_label = True
    return made


def opened(files: list[pathlib.Path], **types: str) -> Any:
    data = DataSet("train_set", tuple(columns(**types)), batch_size=3, epoch=1)
    return open_source(data, Columns.of(data, "conf.py: C"), [str(file) for file in files], "conf.py: C")


def first_batch(source: Any) -> dict[str, Any]:
    """Returns features and label as lists; a sparse column is a list of lists."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        rows, fed = source.batches(3, ReaderErrors())
        iterator = tf.compat.v1.data.make_initializable_iterator(rows.map(source.decode))
        features, label = iterator.get_next()
        session.run(iterator.initializer, {tensor: value() for tensor, value in fed.items()})
        found = session.run({**features, "label": label})
    return {name: _lists(value) for name, value in found.items()}


def _lists(value: Any) -> list[Any]:
    if not isinstance(value, tf.compat.v1.SparseTensorValue):
        return value.tolist()
    rows: list[list[Any]] = [[] for _ in range(value.dense_shape[0])]
    for (row, _), one in zip(value.indices, value.values, strict=True):
        rows[row].append(one)
    return rows


def write_records(path: pathlib.Path, *rows: dict[str, Any]) -> pathlib.Path:
    return pathlib.Path(write_examples(path, rows, "GZIP"))


def test_values_are_converted_to_the_column_types(tmp_path: pathlib.Path) -> None:
    """ExampleGen reads integers as int64, whatever the conf's types are; the middle row has only a label."""
    row = {"count": [7], "zip": [8001], "size": [0.5], "share": [0.25], "id": [3], "y": [1], "word": [b"a"]}
    empty = {"count": np.array([], int), "zip": np.array([], int), "y": [0]}
    types = {"count": "float32", "zip": "string", "size": "float64", "share": "string", "id": "int32", "word": "string"}
    records = write_records(tmp_path / "a", row, empty, {**row, "zip": [9], "other": [1]})
    source = opened([records], **types, y="int64")
    assert isinstance(source, ExampleSource)
    assert first_batch(source) == {
        "count": [7.0, 0.0, 7.0],
        "zip": [b"8001", b"", b"9"],
        "size": [0.5, 0.0, 0.5],
        "share": [b"0.25", b"", b"0.25"],
        "id": [3, 0, 3],
        "word": [b"a", b"", b"a"],
        "label": [1, 0, 1],
    }


def test_sparse_columns_accept_separate_values_or_text(tmp_path: pathlib.Path) -> None:
    """In a CSV they share one field, which ExampleGen does not split."""
    row = {"words": [b"a", b"b"], "text": [b"c\x01d"], "ids": [1, 2], "numbers": [b"5\x016"], "whole": [7, 8], "y": [0]}
    types = {"words": "string*", "text": "string*", "ids": "int64*", "numbers": "int32*", "whole": "float32*"}
    assert first_batch(opened([write_records(tmp_path / "a", row, {"y": [1]})], **types, y="int64")) == {
        "words": [[b"a", b"b"], []],
        "text": [[b"c", b"d"], []],
        "ids": [[1, 2], []],
        "numbers": [[5, 6], []],
        "whole": [[7.0, 8.0], []],
        "label": [0, 1],
    }


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (
            {"x": "int32", "y": "int64"},
            "the column 'x' has the dtype int32, but the examples in .*a contain float32 values. Set its dtype",
        ),
        (
            {"w": "float32", "y": "int64"},
            "the column 'w' has the dtype float32, but the examples in .*a contain string values",
        ),
        ({"a": "float32", "b": "int64"}, "a have none of the columns a, b; they have w, x, y"),
    ],
)
def test_values_that_do_not_fit_a_column_are_reported_before_training(
    types: dict[str, str], message: str, tmp_path: pathlib.Path
) -> None:
    write_records(tmp_path / "a", {"x": [0.5], "w": [b"a"], "y": [1]})
    with pytest.raises(InputError, match=rf"conf.py: C: train_set: .*{message}"):
        opened([tmp_path / "a"], **types)


def test_several_values_require_a_sparse_column(tmp_path: pathlib.Path) -> None:
    source = opened([write_records(tmp_path / "a", {"x": [1, 2], "y": [1]})], x="int64", y="int64")
    message = r"a tf\.Example has several values of\] \[x\] .*is_sparse=True"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        first_batch(source)


def test_records_and_files_of_other_formats(tmp_path: pathlib.Path) -> None:
    records.write_records(tmp_path / "a", [b"\xff\xff no example"])
    with pytest.raises(InputError, match=r"a is a TFRecord file, but not of tf\.Examples"):
        opened([tmp_path / "a"], y="int64")
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(
        InputError,
        match=r"train_set: .*b\.parquet is Parquet\. Only TFRecords of tf\.Examples and delimited text can replace",
    ):
        opened([tmp_path / "b.parquet"], y="int64")


def test_transformed_examples_are_rejected() -> None:
    with pytest.raises(InputError, match=r"conf.py: C: .* these are transformed. Remove the preprocessing_fn"):
        train(object, FnArgs(transform_graph_path="transform_graph"), "conf.py: C")


def test_a_shard_may_be_empty(tmp_path: pathlib.Path) -> None:
    files = [write_records(tmp_path / "a"), write_records(tmp_path / "b", {"y": [5]})]
    assert first_batch(opened(files, y="int64")) == {"label": [5]}


def test_a_header_determines_the_column_order(tmp_path: pathlib.Path) -> None:
    for name, row in (("a.csv", '1,"b, c",2,0.5'), ("b.csv", "2,d,3,1.5")):
        (tmp_path / name).write_text(f'visit,word,y,"x"\n{row}\n')
    source = opened([tmp_path / "a.csv", tmp_path / "b.csv"], x="float32", word="string", y="int64")
    assert isinstance(source, RangeSource)
    assert first_batch(source) == {"x": [0.5, 1.5], "word": [b"b, c", b"d"], "label": [2, 3]}


@pytest.mark.parametrize("header", ["", "left,right\n"])
def test_without_a_matching_header_columns_are_read_in_declared_order(
    header: str, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "rows.data").write_text(f"{header}1,2\n3,4\n")  # the extension does not show the format
    assert first_batch(opened([tmp_path / "rows.data"], x="float32", y="int64")) == {"x": [1.0, 3.0], "label": [2, 4]}
    said = (
        f"the first row of {tmp_path}/rows.data does not match the columns, and is skipped as a header: 'left,right'."
    )
    assert (said in caplog.text) == bool(header)


def test_a_header_with_one_column_missing_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("x,z\n1,2\n")
    with pytest.raises(InputError, match=rf"train_set: {tmp_path}/a.csv: the header lacks the column 'y'; it has x, z"):
        opened([tmp_path / "a.csv"], x="float32", y="int64")


def test_all_files_must_have_the_same_header(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("y,x\n1,2\n")
    with pytest.raises(InputError, match=r"a.csv begins with the header 'x,y', and .*b.csv with 'y,x'"):
        opened([tmp_path / "a.csv", tmp_path / "b.csv"], x="float32", y="int64")


def test_a_bad_row_is_named_by_the_columns_of_the_header(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("id,y,x\nseven,1,2\n8,1,two\n")
    source = opened([tmp_path / "a.csv"], x="float32", y="int64")
    with pytest.raises(InputError, match=r"a.csv, row 2 after the header: the field 'x' is 'two'"):
        source.examine()
    assert np.shape(source.columns.row) == (3,)


def test_a_column_adds_few_ops_to_an_exported_graph() -> None:
    fields = [Field(f"number {index}", "float32") for index in range(5)]
    fields += [Field(f"words {index}", "string", is_sparse=True) for index in range(5)]
    with tf.Graph().as_default() as graph:
        examples = tf.compat.v1.placeholder(tf.string, [None])
        columns = parse_examples(examples, fields, {}, "|", sparse_as_text=True)
        for field in fields[5:]:
            split_values(columns[field.name], field, "|")
    # DLRover's export of its deepfm example has 4,909 ops, 40 columns, and may grow by a fifth.
    assert len(graph.get_operations()) < 24 * len(fields)
