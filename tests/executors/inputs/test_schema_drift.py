"""Files to evaluate on that differ from those to train on; the table of docs/howto/bad_data.md is compared."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from generic_trainer import FnArgs
from generic_trainer.executors.dialects.elasticdl.readers.open_records import open_records
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.examples_format import TF_EXAMPLE
from generic_trainer.executors.inputs.parquet.format import PARQUET
from generic_trainer.executors.preflight.check import check
from generic_trainer.executors.preflight.example_facts import (  # fmt: skip
    FeatureFacts,
    differences,
    facts_of,
    first_problems,
    value_warnings,
)
from generic_trainer.executors.preflight.request import CheckRequest
from generic_trainer.executors.preflight.sample import take

from ...world.records import write_examples
from .test_bad_values import dlrover, tensors

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "howto" / "bad_data.md"
ROWS = 24
Row = dict[str, Any]


def row(number: int) -> Row:
    return {"x": number + 0.5, "s": b"ab"[number % 2 : number % 2 + 1], "y": number % 2}


def without(name: str) -> Callable[[Row], Row]:
    return lambda row: {key: value for key, value in row.items() if key != name}


DRIFTS: dict[str, Callable[[Row], Row]] = {
    "column missing": without("x"),
    "label missing": without("y"),
    "column renamed": lambda row: {{"s": "t"}.get(name, name): value for name, value in row.items()},
    "other type": lambda row: {**row, "x": b"old"},
    "two values": lambda row: {**row, "x": [row["x"]] * 2},
    "column more": lambda row: {**row, "z": 1},
    "other order": lambda row: dict(reversed(row.items())),
    "unknown word": lambda row: {**row, "s": b"c"},
}


def parquet(path: pathlib.Path, rows: list[Row]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


def csv(path: pathlib.Path, rows: list[Row]) -> None:
    def cell(value: Any) -> str:
        return (
            value.decode()
            if isinstance(value, bytes)
            else " ".join(map(str, value))
            if isinstance(value, list)
            else f"{value}"
        )

    lines = [list(rows[0]), *([cell(value) for value in values.values()] for values in rows)]
    path.write_text("".join(f"{','.join(line)}\n" for line in lines))


def lines(path: pathlib.Path, rows: list[Row]) -> None:
    """Without a header."""
    csv(path, rows)
    path.write_text(path.read_text().partition("\n")[2])


def both(**params: Any) -> Callable[[str, str], list[Row]]:
    """ElasticDL reads a job's files as one set."""

    def read(train: str, evaluation: str) -> list[Row]:
        records = open_records([train, evaluation], params)
        with records.reraising():
            rows = list(records.dataset().as_numpy_iterator())[ROWS:]
        return [one if isinstance(one, dict) else dict(zip("xsy", one.tolist(), strict=True)) for one in rows]

    return read


def checked(train: str, evaluation: str) -> str:
    samples = [take([path], f"{path}-sample") for path in (train, evaluation)]
    facts = [facts_of(sample.records) for sample in samples]
    wrong, odd = differences(*facts, all(sample.whole for sample in samples))
    return "error" if wrong else "warning" if odd else "read"


READERS: dict[str, tuple[Callable[..., None], str, Callable[[str, str], Any]]] = {
    "data_accessor, TFRecord": (write_examples, "tfrecord", lambda _, path: tensors(TF_EXAMPLE)(path)),
    "data_accessor, Parquet": (parquet, "parquet", lambda _, path: tensors(PARQUET)(path)),
    "ElasticDL, CSV with columns": (csv, "csv", both(columns=["x", "s", "y"])),
    "ElasticDL, CSV with sep alone": (csv, "csv", both(sep=",")),
    "ElasticDL, Parquet": (parquet, "parquet", both()),
    "DLRover, CSV": (csv, "csv", lambda _, path: dlrover(path)),
    "DLRover, text": (lines, "txt", lambda _, path: dlrover(path)),
    "DLRover, TFRecord": (write_examples, "tfrecord", lambda _, path: dlrover(path)),
    "check, TFRecord": (write_examples, "tfrecord", checked),
    "check, Parquet": (parquet, "parquet", checked),
}


@pytest.mark.thorough_cases("DLRover, TFRecord", "DLRover, text", "ElasticDL, Parquet")
@pytest.mark.parametrize("reader", READERS)
def test_the_table_of_drifts(reader: str, tmp_path: pathlib.Path) -> None:
    write, ending, read = READERS[reader]
    good = [row(number) for number in range(ROWS)]
    train = tmp_path / f"train.{ending}"
    write(train, good)
    found = []
    for number, drift in enumerate(DRIFTS.values()):
        path = tmp_path / str(number) / f"eval.{ending}"
        path.parent.mkdir()
        rows = [drift(one) for one in good]
        write(path, rows)
        found.append(outcome(lambda path=path: read(str(train), str(path)), rows))  # type: ignore[misc]
    line = f"| {reader} | {' | '.join(found)} |"
    assert line in PAGE.read_text().splitlines(), line


def outcome(read: Callable[[], Any], rows: list[Row]) -> str:
    """Returns what a cell of the table says."""
    try:
        got = read()
    except InputError as error:
        is_good = len(str(error)) < 6000 and ("eval." in str(error) or "the header lacks" in str(error))
        return "error" if is_good else f"no good message: {str(error)[:500]}"
    if isinstance(got, str):
        return got
    assert len(got) == ROWS
    wrong = {name: got[1].get(name) for name in rows[1] if name in "xsy" and not _same(got[1].get(name), rows[1][name])}
    others = {name: value for name, value in got[1].items() if name not in rows[1] and name in "xsy"}
    missing = {name: value for name, value in others.items() if not any(_same(value, one) for one in rows[1].values())}
    return ", ".join(f"{name} is {value}" for name, value in {**missing, **wrong}.items()) or "read"


def _same(got: Any, wanted: Any) -> bool:
    if isinstance(got, bytes) and not isinstance(wanted, bytes):  # the module makes numbers of text
        return got == " ".join(map(str, wanted if isinstance(wanted, list) else [wanted])).encode()
    return bool(got == wanted)


MODULE = """
import tensorflow as tf

LABEL_KEY = "y"


def run_fn(fn_args):
    tf.saved_model.save(tf.Module(), fn_args.serving_model_dir)
"""


def test_the_check_names_what_differs(tmp_path: pathlib.Path) -> None:
    """It reads no schema, so that nothing fails for that."""
    good = [row(number) for number in range(ROWS)]
    write_examples(tmp_path / "train", good)
    write_examples(
        tmp_path / "eval",
        [{**one, "x": b"old", "s": b"c"} for one in good[:-3]] + [without("y")(one) for one in good[:3]],
    )
    (tmp_path / "mine.py").write_text(MODULE)
    files = {"train_files": [str(tmp_path / "train")], "eval_files": [str(tmp_path / "eval")]}
    text = check(CheckRequest(str(tmp_path / "mine.py"), FnArgs(**files, train_steps=1))).get("examples").text
    for said in (
        "feature 'x' is FLOAT in train and mixed in eval",
        "feature 's' has the value 'c' in eval, which does not occur in train",
        "3 of 24 eval examples have no label 'y'",
    ):
        assert said in text


def test_texts_that_are_all_different_are_no_vocabulary() -> None:
    """Only the first values of a feature are kept, which must not make them look like few."""
    texts = [f"text {number}".encode() for number in range(11_000)]
    train, evaluation = FeatureFacts("BYTES"), FeatureFacts("BYTES")
    for text in texts:
        train.take("BYTES", [text])
    evaluation.take("BYTES", [b"a new text"])
    assert differences({"text": train}, {"text": evaluation}, True) == ([], [])


def test_what_is_odd_about_values_is_counted() -> None:
    fact = FeatureFacts("FLOAT")
    for value in (1.0, float("nan"), float("-inf"), 3.0):
        fact.take("FLOAT", [value])
    assert (fact.lowest, fact.highest, fact.not_finite) == (1.0, 3.0, 2)
    assert value_warnings({"x": fact}, "x", "train", 5) == [
        "1 of 5 train examples have no label 'x'",
        "feature 'x' has 2 NaN or infinite values in train",
    ]
    assert first_problems([str(number) for number in range(25)])[-2:] == ["19", "and 5 more"]
