"""Every reader on values that are odd; docs/howto/bad_data.md shows the same table, which is compared."""

from __future__ import annotations

import math
import pathlib
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

from generic_trainer.executors.dialects.dlrover.columns import Columns
from generic_trainer.executors.dialects.dlrover.conf import DataSet
from generic_trainer.executors.dialects.dlrover.shim.column_info import Column
from generic_trainer.executors.dialects.dlrover.sources import open_source
from generic_trainer.executors.dialects.dlrover.text.delimited import Field, check_format
from generic_trainer.executors.dialects.dlrover.text.row_checks import split_row
from generic_trainer.executors.dialects.elasticdl.readers.csv_records import column_names, csv_blocks, strings_of_block
from generic_trainer.executors.dialects.elasticdl.readers.open_records import open_records
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.examples_format import TF_EXAMPLE, ExamplesFormat
from generic_trainer.executors.inputs.bad_records import skipping
from generic_trainer.executors.inputs.csv.columns import BYTES, FLOAT, INT, from_tf_examples, typed_columns
from generic_trainer.executors.inputs.csv.plain_copy import plain_data
from generic_trainer.executors.inputs.data_accessor import DataAccessor
from generic_trainer.executors.inputs.example_files import find_example_files
from generic_trainer.executors.inputs.message_text import join_names, short_repr
from generic_trainer.executors.inputs.parquet.format import PARQUET
from generic_trainer.executors.inputs.parse_errors import locate_bad_records, tracking_parsers
from generic_trainer.executors.inputs.readers.reader_errors import MAX_COLUMNS
from generic_trainer.executors.preflight.raw_csv import csv_examples
from generic_trainer.executors.saved_models.prediction.predict import _long_values
from generic_trainer.pipelines.scaffold.reading import read_data

from ...world.records import write_examples

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "howto" / "bad_data.md"
LONGEST_MESSAGE = 6000  # characters; TensorFlow adds where in its own code it was
SCHEMA = text_format.Parse(
    "".join(
        f'feature {{ name: "{name}" type: {kind} presence {{ min_fraction: 1 min_count: 1 }} '
        "shape { dim { size: 1 } } }"
        for name, kind in (("x", "FLOAT"), ("s", "BYTES"), ("y", "INT"))
    ),
    schema_pb2.Schema(),
)
COLUMNS = tuple(
    Column.create(name=name, dtype=dtype, is_label=name == "y")
    for name, dtype in (("x", "float32"), ("s", "string"), ("y", "int64"))
)
BIG = b"a" * (10 << 20)
Row = dict[str, Any]
Read = Callable[[str], list[Row]]

# Name: which column of the row in the middle is another, its text, and its value where a file holds values.
NO, KINDS = object(), {}  # type: tuple[object, dict[str, tuple[str, bytes, Any]]]
KINDS.update(
    {
        "NaN": ("x", b"nan", math.nan),
        "-inf": ("x", b"-inf", -math.inf),
        "-0": ("x", b"-0", -0.0),
        "1e39": ("x", b"1e39", 1e39),
        "1e400": ("x", b"1e400", NO),
        "2^31": ("y", b"2147483648", 2**31),
        "2^63": ("y", b"9223372036854775808", 2**63),
        "1.5 for an integer": ("y", b"1.5", 1.5),
        "no number": ("x", b"", None),
        "no label": ("y", b"", None),
        "empty text": ("s", b"", b""),
        "no UTF-8": ("s", b"\xff\xfe", b"\xff\xfe"),
        "zero byte": ("s", b"a\0b", b"a\0b"),
        "10 MB text": ("s", BIG, BIG),
        "10 MB for a number": ("x", BIG, BIG),
    }
)
GOOD: Row = {"x": 1.5, "s": b"a", "y": 1}


def tf_records(path: pathlib.Path, column: str, _: bytes, value: Any) -> None:
    write_examples(path, (GOOD, {**GOOD, column: value}, GOOD))


def parquet(path: pathlib.Path, column: str, _: bytes, value: Any) -> None:
    columns = {name: [good, value if name == column else good, good] for name, good in GOOD.items()}
    if isinstance(value, bytes):
        columns[column] = [b"1.5", value, b"1.5"]
    kinds = {"y": pa.uint64() if value == 2**63 else pa.float64() if value == 1.5 else pa.int64()}
    pq.write_table(pa.table({name: pa.array(values, kinds.get(name)) for name, values in columns.items()}), path)


def text(path: pathlib.Path, column: str, value: bytes, _: Any) -> None:
    odd = b",".join({"x": b"1.5", "s": b"a", "y": b"1", column: value}.values())
    path.write_bytes(b"\n".join([*([b"x,s,y"] if path.suffix == ".csv" else []), b"1.5,a,1", odd, b"1.5,a,1", b""]))


def tensors(payload: str) -> Read:
    def read(path: str) -> list[Row]:
        accessor = DataAccessor.for_format(ExamplesFormat(payload))
        options = TensorFlowDatasetOptions(1, num_epochs=1, shuffle=False)
        with tracking_parsers():  # as the trainer does
            data = accessor.tf_dataset_factory([path], options, SCHEMA)
            try:
                return [{name: value.numpy()[0, 0] for name, value in batch.items()} for batch in data]
            except tf.errors.InvalidArgumentError as error:
                found = list(locate_bad_records(error))
                if path in str(error) or found:
                    raise InputError("".join(found) or str(error)) from None
                raise

    return read


def arrow(path: str) -> list[Row]:
    accessor = DataAccessor.for_format(ExamplesFormat(TF_EXAMPLE))
    found = accessor.record_batch_factory([path], RecordBatchesOptions(1, num_epochs=1, shuffle=False), SCHEMA)
    return [{name: value[0][0] if value[0] else None for name, value in b.to_pydict().items()} for b in found]


def elasticdl(**params: Any) -> Read:
    def read(path: str) -> list[Row]:
        records = open_records(path, params)
        with records.reraising():
            rows = list(records.dataset().as_numpy_iterator())
        return [dict(zip(GOOD, row, strict=True)) if isinstance(row, np.ndarray) else row for row in rows]

    return read


def lines(path: str) -> list[Row]:
    """Text is what a module cuts itself."""
    return [dict(zip(GOOD, row.split(b","), strict=True)) for row in elasticdl()(path)]  # type: ignore[attr-defined]


def dlrover(path: str) -> list[Row]:
    data = DataSet("train_set", COLUMNS, reader=None, batch_size=1, epoch=1)
    columns = Columns.of(data, "conf")
    rows: list[Row] = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        source = open_source(data, columns, [path], "conf")
        features, labels = source.training_input()
        source.begin(session, None)
        try:
            while True:
                found = session.run({**features, "y": labels})
                rows.append({name: value[0] for name, value in found.items()})
        except tf.errors.OutOfRangeError:
            return rows
        except (tf.errors.OpError, UnicodeDecodeError):
            source.explain()
            raise


def predicted(path: str) -> list[Row]:
    found: list[Row] = []
    with _long_values():
        for batch in (batch for file in find_example_files([path]) for batch in file.batches(1)):
            kinds = {"x": FLOAT, "s": BYTES, "y": INT}
            columns = from_tf_examples(batch) if batch.records else typed_columns(batch, kinds)
            rows = {name: value.to_pylist()[0] for name, value in columns.items()}
            found.append({name: value[0] if value else None for name, value in rows.items()})
    return found


def _plain(path: str) -> str:
    """Returns the copy that both make first of a file that CsvExampleGen cannot read."""
    return plain_data(path, f"{path}-copy")[0]


def check_of_csv(path: str) -> list[Row]:
    return [values_of(record) for record in csv_examples([_plain(path)])[0]]


def values_of(record: bytes) -> Row:
    features = tf.train.Example.FromString(record).features.feature
    values = {
        name: list(getattr(f, f.WhichOneof("kind") or "", tf.train.BytesList()).value) for name, f in features.items()
    }
    return {name: value[0] if value else None for name, value in values.items()}


def init(path: str) -> list[Row]:
    columns = {name: column.to_pylist() for name, column in read_data(_plain(path)).columns.items()}
    return [{name: column[row][0] if column[row] else None for name, column in columns.items()} for row in range(3)]


READERS: dict[str, tuple[Callable[..., None], str, Read]] = {
    "data_accessor, TFRecord": (tf_records, "a.tfrecord", tensors(TF_EXAMPLE)),
    "data_accessor, Arrow": (tf_records, "a.tfrecord", arrow),
    "data_accessor, Parquet": (parquet, "a.parquet", tensors(PARQUET)),
    "ElasticDL, CSV": (text, "a.csv", elasticdl(columns=list(GOOD))),
    "ElasticDL, text": (text, "a.txt", lines),
    "ElasticDL, Parquet": (parquet, "a.parquet", elasticdl()),
    "DLRover, TFRecord": (tf_records, "a.tfrecord", dlrover),
    "DLRover, CSV": (text, "a.csv", dlrover),
    "DLRover, text": (text, "a.txt", dlrover),
    "predict, TFRecord": (tf_records, "a.tfrecord", predicted),
    "predict, CSV": (text, "a.csv", predicted),
    "check --data, CSV": (text, "a.csv", check_of_csv),
    "init, CSV": (text, "a.csv", init),
}


@pytest.mark.thorough_cases("DLRover, TFRecord", "DLRover, text", "ElasticDL, Parquet", "ElasticDL, text")
@pytest.mark.parametrize("reader", READERS)
def test_the_table_of_values(reader: str, tmp_path: pathlib.Path) -> None:
    write, name, read = READERS[reader]
    found = []
    for number, (column, of_text, value) in enumerate(KINDS.values()):
        if write is not text and (value is NO or (write is tf_records and not _fits(column, value))):
            found.append("-")
            continue
        path = tmp_path / str(number) / name
        path.parent.mkdir()
        write(path, column, of_text, value)
        found.append(outcome(read, str(path), column, of_text, value))
        path.unlink()
    line = f"| {reader} | {' | '.join(found)} |"
    assert line in PAGE.read_text().splitlines(), line


def _fits(column: str, value: Any) -> bool:
    """Returns whether a tf.Example can hold it."""
    return value != 2**63 and (column, value) != ("x", 1e39)


def outcome(read: Read, path: str, column: str, of_text: bytes, value: Any) -> str:
    """Returns what a cell of the table says; the other values must be right, and messages short."""
    try:
        rows = read(path)
    except InputError as error:
        is_good = path in str(error) and len(str(error)) < LONGEST_MESSAGE
        return "error" if is_good else f"no good message: {str(error)[:1000]}"
    assert len(rows) == 3
    assert [row["y"] for row in rows[::2]] in ([1, 1], [b"1", b"1"], [1.0, 1.0])
    got = rows[1][column]
    if got is None:
        return "none"
    if isinstance(got, bytes) and got == of_text:
        return "as it is"
    if isinstance(got, bytes) and got.decode() == of_text.decode("latin-1"):
        return "Latin-1"
    if value is not NO and not isinstance(got, bytes) and _bits(got) == _bits(value):
        return "as it is"
    return str(got)


def _bits(value: Any) -> Any:
    """Returns what tells -0 from 0, and a NaN from none."""
    return (
        struct.pack("<d", math.nan if math.isnan(value) else value)
        if isinstance(value, (float, np.floating))
        else value
    )


WIDE = 200_000


def test_a_row_of_many_values_is_an_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,y\n" + b"1,2\n" * 3 + b"1" + b",1" * 1_000_000 + b"\n3,4\n")
    with pytest.raises(
        InputError, match=r"a\.csv: row 5 \(counting the header\): it has 1000001 values, but the header has 2"
    ) as error:
        list(csv_blocks([str(path)], ["y"], ","))
    assert len(str(error.value)) < 1000
    with skipping(1):
        assert np.concatenate(
            [strings_of_block(*block) for block in csv_blocks([str(path)], ["y"], ",")]
        ).ravel().tolist() == [b"2"] * 3 + [b"4"]


@pytest.mark.thorough
def test_many_columns_are_read_and_not_listed(tmp_path: pathlib.Path) -> None:
    path, names = tmp_path / "a.csv", [f"c{number}" for number in range(WIDE)]
    path.write_text(f"{','.join(names)}\n{','.join(['1'] * WIDE)}\n")
    [block] = csv_blocks([str(path)], [names[-1], names[0]], ",")
    assert strings_of_block(*block).numpy().tolist() == [[b"1", b"1"]]
    [whole] = csv_blocks([str(path)], column_names(str(path), ","), ",")
    assert strings_of_block(*whole).shape == (1, WIDE)
    for read in (
        lambda: list(csv_blocks([str(path)], ["c"], ",")),
        lambda: check_format([Field(name, "string") for name in names], ",", "|"),
        lambda: check_format([Field("c", "string")] * MAX_COLUMNS, ",", "|"),
    ):
        with pytest.raises(InputError) as error:
            read()
        assert len(str(error.value)) < 1000


@pytest.mark.thorough
def test_many_columns_of_parquet(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({**{f"c{number}": [1] for number in range(MAX_COLUMNS)}, "y": [2]}), path)
    assert list(elasticdl(columns=["y"])(str(path))) == [{"y": 2}]
    with pytest.raises(InputError, match=r"a\.parquet: it has 65,537 columns.*select those that the model reads"):
        elasticdl()(str(path))
    with pytest.raises(InputError, match=r"has no column 'x', 's'; it has c0, .* and 65,507 more") as error:
        tensors(PARQUET)(str(path))
    assert len(str(error.value)) < 1000


def test_an_example_of_many_features(tmp_path: pathlib.Path) -> None:
    row = {**GOOD, **dict.fromkeys((f"c{number}" for number in range(WIDE)), 1)}
    path = write_examples(tmp_path / "a.tfrecord", [row])
    for read in (tensors(TF_EXAMPLE), arrow, dlrover):
        assert read(path) == [GOOD]


@pytest.mark.thorough
@pytest.mark.slow
def test_a_line_of_100_mb(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,s,y\n1.5," + b"a" * (100 << 20) + b",1\n1.5,a,1\n")
    for read in (elasticdl(columns=list(GOOD)), dlrover, predicted):
        assert [len(row["s"]) for row in read(str(path))] == [100 << 20, 1]


def test_quotes_in_quotes_take_time_in_proportion() -> None:
    row = b'1,"' + b'""' * (5 << 20) + b'",2'
    assert split_row(row) == [b"1", b'"' * (5 << 20), b"2"]


def test_all_records_without_a_label(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_examples(path, [{"x": 1.0, "s": b"a", "yy": 1}])
    with pytest.raises(InputError, match=r"a\.tfrecord have no value for the label 'y'; they have s, x, yy\."):
        dlrover(str(path))
    with pytest.raises(InputError, match=r"a\.tfrecord: the record at byte 0, record 1, cannot be parsed: .*y "):
        tensors(TF_EXAMPLE)(str(path))


def test_a_decoder_that_refused_a_record_refuses_no_other(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_examples(path, ({**GOOD, "s": 3 if number == 4 else b"a", "y": number} for number in range(9)))
    with skipping(1) as bad:
        assert [row["y"] for row in arrow(str(path))] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert bad is not None
    assert bad.count == 1


def test_what_is_quoted_is_cut() -> None:
    assert short_repr(BIG) == f"'{'a' * 200}'…"
    assert short_repr("é") == "'é'"
    assert len(short_repr([BIG.decode()] * 2)) < 300
    assert join_names(["a", "b"]) == "a, b"
    assert join_names([BIG.decode()] * 100).endswith(" and 70 more")
    assert len(join_names([BIG.decode()] * 100)) < 7000
