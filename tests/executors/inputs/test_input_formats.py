"""The contract of InputFormat: each installed format, and the one that docs/howto/custom_format.md adds."""

from __future__ import annotations

import contextlib
import gzip
import json
import pathlib
import pickle
import re
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.tfxio.dataset_options import RecordBatchesOptions, TensorFlowDatasetOptions

from generic_trainer.executors.dialects.elasticdl.recordio.records import RecordWriter
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.examples_format import ExamplesFormat, payload_formats
from generic_trainer.executors.inputs.bad_data_notes import bad_data_described
from generic_trainer.executors.inputs.bad_records import TooManyBadRecordsError, skipping
from generic_trainer.executors.inputs.csv.columns import from_tf_examples
from generic_trainer.executors.inputs.data_accessor import DataAccessor
from generic_trainer.executors.inputs.input_format import (
    InputFormat,
    format_of,
    format_of_payload,
    formats,
    payload_format_of,
    recognized,
)
from generic_trainer.executors.preflight.sample import take

from ...world.records import example, write_examples

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "howto" / "custom_format.md"
ENDINGS = {"csv": "csv", "json_lines": "jsonl", "parquet": "parquet", "recordio": "recordio", "tfrecord": "tfrecord"}
ENDINGS["avro"] = "avro"
NAMES = list(ENDINGS)
READ = [name for name in NAMES if name != "recordio"]  # by `predict`
TRAINED = ["avro", "parquet", "tfrecord"]  # by data_accessor
SCHEMA = text_format.Parse(
    "".join(
        f'feature {{ name: "{name}" type: {kind} presence {{ min_fraction: 1 }} shape {{ dim {{ size: 1 }} }} }}'
        for name, kind in (("x", "FLOAT"), ("y", "INT"), ("s", "BYTES"))
    ),
    schema_pb2.Schema(),
)
Row = dict[str, Any]


def rows(count: int) -> list[Row]:
    return [{"x": number + 0.5, "y": number, "s": f"s{number}"} for number in range(count)]


@pytest.fixture(autouse=True)
def avro(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs the package of the page."""
    folder = tmp_path / "site"
    information = folder / "avro_examples-1.0.dist-info"
    information.mkdir(parents=True)
    module = re.search(r'title="avro_examples/avro_examples\.py"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert module
    (folder / "avro_examples.py").write_text(module[1])
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: avro-examples\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[generic_trainer.input_formats]\navro = avro_examples:Avro\n")
    monkeypatch.syspath_prepend(folder)
    yield
    sys.modules.pop("avro_examples", None)


def form_of(name: str) -> InputFormat:
    return formats()[name]


def write(path: pathlib.Path, name: str, some: list[Row]) -> str:
    """Writes rows as a file of a format; a row may lack values, which are None."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "csv":
        cells = [",".join("" if row[key] is None else str(row[key]) for key in ("x", "y", "s")) for row in some]
        path.write_text("\n".join(["x,y,s", *cells, ""]))
    elif name == "json_lines":
        path.write_text("".join(json.dumps(row) + "\n" for row in some))
    elif name == "tfrecord":
        write_examples(path, [{key: value for key, value in row.items() if value is not None} for row in some], "")
    elif name == "recordio":
        with RecordWriter(str(path)) as writer:
            for row in some:
                writer.write(example(row))
    elif name == "parquet":
        pq.write_table(pa.Table.from_pylist(some), path)
    else:
        form_of(name).write(str(path), pa.Table.from_pylist(some))  # type: ignore[attr-defined]
    return str(path)


def values_of(form: InputFormat, path: str, size: int = 3) -> list[Row]:
    """The rows that `predict` reads; numbers of text as floats."""
    found: list[Row] = []
    for batch in form.batches(path, size):
        columns = dict(batch.columns)
        if batch.is_serialized:
            columns = {
                key: [value[0] for value in column.to_pylist()] for key, column in from_tf_examples(batch).items()
            }
        for row in zip(*columns.values(), strict=True):
            found.append(dict(zip(columns, row, strict=True)))
    return [
        {"x": float(row["x"]), "y": int(row["y"]), "s": row["s"].decode() if isinstance(row["s"], bytes) else row["s"]}
        for row in found
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_recognized_by_its_ending_or_its_first_bytes(name: str, tmp_path: pathlib.Path) -> None:
    form = form_of(name)
    named = write(tmp_path / f"A.{ENDINGS[name].upper()}", name, rows(3))
    unnamed = write(tmp_path / "part-0", name, rows(3))

    assert type(recognized(named)) is type(form)
    assert type(format_of(unnamed)) is type(form)
    if form.is_text or name == "tfrecord":
        pathlib.Path(f"{unnamed}.gz").write_bytes(gzip.compress(pathlib.Path(unnamed).read_bytes()))
        assert type(format_of(f"{unnamed}.gz")) is type(form)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("csv", "json_lines")])
@pytest.mark.parametrize("ending", ["json", "avro", "recordio", "tfrecord", "csv", "txt"])
def test_the_first_bytes_of_a_binary_format_precede_the_name(name: str, ending: str, tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / f"a.{ending}", name, rows(3))

    expected = {"csv": "CSV", "txt": None}.get(ending, form_of(name).name)
    assert getattr(recognized(path), "name", None) == expected


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_batches_have_all_rows_and_their_numbers(name: str, size: int, tmp_path: pathlib.Path) -> None:
    form, path = form_of(name), write(tmp_path / f"a.{ENDINGS[name]}", name, rows(10))

    batches = list(form.batches(path, size))

    assert [batch.first for batch in batches] == [1 + sum(b.size for b in batches[:n]) for n in range(len(batches))]
    assert all(0 < batch.size <= size for batch in batches)
    assert batches[-1].where(batches[-1].size - 1) == f"{path}, row 10"
    assert all(0 <= batch.position <= 2 * pathlib.Path(path).stat().st_size for batch in batches)
    assert values_of(form, path, size) == rows(10)


@pytest.mark.parametrize("name", TRAINED)
def test_examples_are_serialized_with_the_values_of_the_file(name: str, tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a", name, rows(5))

    records = [record for batch in form_of(name).examples(path, 2) for record in batch.records]

    features = [tf.train.Example.FromString(record).features.feature for record in records]
    assert [feature["x"].float_list.value[:] for feature in features] == [[row["x"]] for row in rows(5)]
    assert [feature["y"].int64_list.value[:] for feature in features] == [[row["y"]] for row in rows(5)]
    assert [feature["s"].bytes_list.value[:] for feature in features] == [[row["s"].encode()] for row in rows(5)]


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_of_the_same_format(name: str, tmp_path: pathlib.Path) -> None:
    form, path = form_of(name), write(tmp_path / f"a.{ENDINGS[name]}", name, rows(600))

    whole, first = form.copy(path, str(tmp_path / "whole"), None)
    some, _ = form.copy(path, str(tmp_path / "some"), 20)

    assert whole - form.header == 600
    assert some == (600 if name == "recordio" else 20)
    assert len(first) == (0 if form.is_text or name == "recordio" else 512)
    if name in READ:
        assert values_of(form, str(tmp_path / "whole")) == rows(600)
        assert values_of(form, str(tmp_path / "some")) == rows(20 - form.header)


FOREIGN = {
    "PNG": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 2,
    "text": b"it is no data at all\nnot \x00one row of it\n",
    "zlib": b"x\x9c" + bytes(range(1, 200)),
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("content", FOREIGN)
def test_a_file_of_another_kind_is_an_error_with_its_name(name: str, content: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"a.{ENDINGS[name]}"
    path.write_bytes(FOREIGN[content])

    for read in (
        lambda: list(form_of(name).batches(str(path), 8)),
        lambda: form_of(name).copy(str(path), "copy", None),
    ):
        with pytest.raises(InputError, match=re.escape(str(path))):
            read()


@pytest.mark.parametrize("name", NAMES)
def test_a_truncated_file_is_an_error_with_its_name(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"a.{ENDINGS[name]}"
    write(path, name, rows(50))
    content = path.read_bytes()
    is_text = form_of(name).is_text
    path.write_bytes(gzip.compress(content)[:-30] if is_text else content[: len(content) * 2 // 3])

    with pytest.raises(InputError, match=re.escape(str(path))):
        form_of(name).copy(str(path), str(tmp_path / "copy"), None)
    if name in READ:
        with pytest.raises(InputError, match=re.escape(str(path))):
            list(form_of(name).batches(str(path), 8))


@pytest.mark.parametrize("name", NAMES)
def test_empty_files_are_ignored_beside_others_and_alone_an_error(name: str, tmp_path: pathlib.Path) -> None:
    write(tmp_path / "data" / f"a.{ENDINGS[name]}", name, rows(5))
    (tmp_path / "data" / f"b.{ENDINGS[name]}").touch()

    assert take([f"{tmp_path}/data/*"], str(tmp_path / "sample")).count == 5
    with pytest.raises(InputError, match="every file is empty"):
        take([f"{tmp_path}/data/b.*"], str(tmp_path / "other"))


@pytest.mark.parametrize("name", NAMES)
def test_files_of_different_formats_are_an_error(name: str, tmp_path: pathlib.Path) -> None:
    other = "csv" if name == "tfrecord" else "tfrecord"
    write(tmp_path / f"a.{ENDINGS[name]}", name, rows(5))
    write(tmp_path / f"b.{ENDINGS[other]}", other, rows(5))

    with pytest.raises(InputError, match=rf"different kinds: .*a\.{ENDINGS[name]} \(.*b\.{ENDINGS[other]} \("):
        take([f"{tmp_path}/[ab].*"], str(tmp_path / "sample"))


def accessor(name: str) -> DataAccessor:
    made = DataAccessor.for_format(ExamplesFormat(form_of(name).payloads[0]))
    return pickle.loads(pickle.dumps(made))  # noqa: S301 (its own)


def trained(name: str, path: str) -> list[int]:
    options = TensorFlowDatasetOptions(2, num_epochs=1, shuffle=False)
    return [
        value
        for batch in accessor(name).tf_dataset_factory([path], options, SCHEMA)
        for value in batch["y"].numpy()[:, 0]
    ]


def as_arrow(name: str, path: str) -> list[int]:
    options = RecordBatchesOptions(2, num_epochs=1, shuffle=False)
    batches = accessor(name).record_batch_factory([path], options, SCHEMA)
    return [value[0] for batch in batches for value in batch.column("y").to_pylist()]


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("read", [trained, as_arrow])
def test_data_accessor_reads_the_payload(name: str, read: Any, tmp_path: pathlib.Path) -> None:
    assert read(name, write(tmp_path / "a", name, rows(7))) == list(range(7))


@pytest.mark.parametrize("name", TRAINED)
def test_bad_records_are_skipped_one_by_one(name: str, tmp_path: pathlib.Path) -> None:
    """A row without a value that the schema requires: the error keeps its type and text through tf.data."""
    some = rows(7)
    some[2]["y"] = some[5]["y"] = None
    path = write(tmp_path / "a", name, some)

    with skipping(2) as bad:
        assert trained(name, path) == [0, 1, 3, 4, 6]
    assert bad is not None
    found: Any = bad.to_json()
    assert [re.sub(r"^byte [0-9]+, | of those.*", "", record["place"]) for record in found["records"]] == [
        f"{'record' if name == 'tfrecord' else 'row'} {number}" for number in (3, 6)
    ]
    assert found["count"] == 2
    with pytest.raises(TooManyBadRecordsError, match=re.escape(path)), skipping(1), bad_data_described([path]):
        trained(name, path)
    if name != "tfrecord":  # TensorFlow's parser raises its own error
        with pytest.raises(InputError, match=re.escape(f"{path}, row 3: column 'y' has no value")) as caught:
            with bad_data_described([path]):
                trained(name, path)
        assert isinstance(caught.value.__cause__, tf.errors.OpError)


def test_payload_formats_are_those_of_the_installed_formats() -> None:
    assert payload_formats()[0] == "FORMAT_TF_EXAMPLE"
    assert {"FORMAT_AVRO", "FORMAT_PARQUET", "FORMAT_PROTO"} <= set(payload_formats())
    assert payload_format_of(["a.avro", "b/*.avro"]) == "FORMAT_AVRO"
    assert payload_format_of(["a.PARQUET", "b/*.parquet.gz"]) == "FORMAT_PARQUET"
    assert payload_format_of(["a.avro", "b.parquet"]) == payload_format_of([]) == "FORMAT_TF_EXAMPLE"
    with pytest.raises(ValueError, match=r"'FORMAT_ORC' is not one of FORMAT_TF_EXAMPLE, .*FORMAT_AVRO"):
        ExamplesFormat("FORMAT_ORC")
    with pytest.raises(InputError, match="No installed package reads the payload format FORMAT_ORC"):
        format_of_payload("FORMAT_ORC")


def test_a_format_without_rows_is_an_error_with_the_file(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a", "recordio", rows(3))

    for read in (form_of("recordio").batches, form_of("recordio").examples):
        with pytest.raises(InputError, match=re.escape(f"{path}: RecordIO files cannot be read")):
            list(read(path, 8))


def write_blocks(path: pathlib.Path, types: dict[str, Any], some: list[Row]) -> str:
    """Writes an Avro file with a block for each row."""
    import fastavro

    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, some, sync_interval=1)
    return str(path)


def test_a_format_skips_what_it_cannot_decode(tmp_path: pathlib.Path) -> None:
    """The page's format skips a block; one record of these blocks has a text of negative length."""
    path = tmp_path / "a.avro"
    write_blocks(path, {"x": "double", "y": "long", "s": "string"}, rows(5))
    path.write_bytes(path.read_bytes().replace(b"\x04s3", b"\x05s3"))

    message = f"(?s)^{re.escape(str(path))}, block at byte [0-9]+: it cannot be decoded: .*Write the file again"
    for context, end in ((contextlib.nullcontext(), r"\.$"), (skipping(None), ", or pass --on-bad-records=skip:N ")):
        with context, pytest.raises(InputError, match=message + end):
            form_of("avro").copy(str(path), str(tmp_path / "copy"), None)
    with skipping(1) as bad:
        assert trained("avro", str(path)) == [0, 1, 2, 4]
    assert bad is not None
    assert (bad.count, bad.readers) == (1, {"Avro"})


def test_a_type_that_a_format_lacks_is_an_error_with_the_column(tmp_path: pathlib.Path) -> None:
    table = pa.table({"x": [1.0], "day": pa.array([0], pa.date32())})

    with pytest.raises(InputError, match=r"a\.avro: column 'day' is date32\[day\]; Avro has bool, int64, "):
        form_of("avro").write(str(tmp_path / "a.avro"), table)  # type: ignore[attr-defined]


def test_a_part_of_a_file_may_lack_a_columns_values(tmp_path: pathlib.Path) -> None:
    """A block of Avro is a table, whose types are those of its values."""
    path = write_blocks(tmp_path / "a.avro", {"x": ["null", "double", "string"]}, [{"x": None}, {"x": 0.5}])
    assert form_of("avro").copy(path, str(tmp_path / "copy"), None) == (2, [{"x": None}, {"x": 0.5}])

    path = write_blocks(tmp_path / "b.avro", {"x": ["null", "double", "string"]}, [{"x": "text"}, {"x": 0.5}])
    with pytest.raises(InputError, match=f"^{re.escape(path)}: parts of the file have different columns or types: "):
        form_of("avro").copy(path, str(tmp_path / "copy"), None)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1]], pa.list_(pa.timestamp("us"))), r"list<.*timestamp\[us\]>"),
        (pa.array([[1]], pa.list_(pa.decimal128(5, 2))), r"list<.*decimal128\(5, 2\)>"),
        (pa.array([2**63], pa.uint64()), "uint64"),
    ],
)
def test_a_column_that_examples_cannot_have_is_an_error_with_the_file(
    column: pa.Array, message: str, tmp_path: pathlib.Path
) -> None:
    pq.write_table(pa.table({"x": column}), tmp_path / "a")

    with pytest.raises(InputError, match=rf"^{tmp_path}/a: column 'x' is {message}, which examples cannot have: "):
        list(form_of("parquet").examples(str(tmp_path / "a"), 8))
