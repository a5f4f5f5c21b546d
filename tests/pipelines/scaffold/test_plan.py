"""What `init` finds in data: how it is read, what the label is, what becomes of each column, and what it refuses."""

from __future__ import annotations

import csv
import datetime
import pathlib
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from generic_trainer import InputError
from generic_trainer.pipelines.scaffold.column_statistics import (
    FLOAT,
    INT,
    NOTHING,
    SEVERAL,
    TEXT,
    Column,
    analyze_columns,
)
from generic_trainer.pipelines.scaffold.planning import Plan, make_plan
from generic_trainer.pipelines.scaffold.reading import read_data
from generic_trainer.pipelines.scaffold.roles import (
    CATEGORY,
    DATE,
    LEFT_OUT,
    MILLISECONDS,
    NUMBER,
    PARSED,
    SECONDS,
    WORDS,
)

from ...world.records import write_examples

Write = Callable[..., str]
ROWS = 200


@pytest.fixture
def table(tmp_path: pathlib.Path) -> Write:
    """Writes a CSV of columns {name: values, or a function of the row's number}; returns its path."""

    def write(columns: dict[str, Any], rows: int = ROWS, name: str = "data.csv") -> str:
        path = tmp_path / name
        with path.open("w", newline="", encoding="utf-8") as file:
            file.write(",".join(columns) + "\n")
            writer = csv.writer(file, lineterminator="\n")
            for row in range(rows):
                writer.writerow([made(row) if callable(made) else made[row] for made in columns.values()])
        return str(path)

    return write


def plan_of(path: str, label: str = "", task: str = "auto") -> Plan:
    raw = read_data(path)
    return make_plan(raw, analyze_columns(raw), label, task)


def columns_of(path: str) -> dict[str, Column]:
    return {column.name: column for column in analyze_columns(read_data(path))}


def kinds(plan: Plan) -> dict[str, str]:
    return {role.column.name: role.kind for role in plan.roles}


def test_the_statistics_are_those_of_the_values_that_are_there(table: Write) -> None:
    path = table(
        {
            "whole": ["1", "", "3", "3"],
            "real": ["0.5", "nan", "", "1.5"],
            "words": ["a b", "a b", "", "é"],
            "empty": ["", "", "", ""],
        },
        rows=4,
    )
    columns = columns_of(path)
    assert {name: column.kind for name, column in columns.items()} == {
        "whole": INT,
        "real": FLOAT,
        "words": TEXT,
        "empty": NOTHING,
    }
    whole, real, words = columns["whole"], columns["real"], columns["words"]
    assert (whole.missing, whole.distinct, whole.frequent, whole.first_missing) == (1, 2, ((3, 2), (1, 1)), 2)
    assert whole.numbers is not None
    assert whole.numbers.mean == pytest.approx(7 / 3)
    assert (real.missing, real.first_missing) == (2, 2)  # what is no number is missing, too
    assert real.numbers is not None
    assert (real.numbers.smallest, real.numbers.largest, real.numbers.mean) == (0.5, 1.5, 1.0)
    assert (words.missing, words.frequent) == (1, (("a b", 2), ("é", 1)))
    assert words.words == pytest.approx(5 / 3)  # 2, 2 and 1


def test_types_are_those_that_example_gen_gives(table: Write) -> None:
    """https://github.com/tensorflow/tfx-bsl, csv_decoder: int64, else float, else text; a longer integer is text."""
    columns = {
        "long": lambda row: str(2**63 + row),
        "infinite": lambda row: "1" if row else "inf",
        "sign": lambda row: -row,
        "mixed": lambda row: "n/a" if row == 7 else row,
    }
    assert [column.kind for column in columns_of(table(columns, rows=9)).values()] == [TEXT, FLOAT, INT, TEXT]


def test_records_of_examples_are_read_with_their_gaps(tmp_path: pathlib.Path) -> None:
    rows = [{"size": [0.5], "name": ["a"], "tags": ["x", "y"]}, {"size": [1.5], "tags": ["x"], "late": [3]}]
    write_examples(tmp_path / "train" / "part.gz", rows)
    write_examples(tmp_path / "eval" / "part.gz", [{"size": [9.0]}])
    columns = columns_of(str(tmp_path))  # of split data those to train on
    assert {name: (column.kind, column.missing) for name, column in columns.items()} == {
        "late": (INT, 1),
        "name": (TEXT, 1),
        "size": (FLOAT, 0),
        "tags": (SEVERAL, 0),
    }


def test_what_becomes_of_each_kind_of_column(table: Write) -> None:
    choose = random.Random(0)
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)

    def when(row: int) -> datetime.datetime:
        return begin + datetime.timedelta(hours=7 * row)

    path = table(
        {
            "fare": lambda row: f"{choose.gauss(9, 2):.2f}" if row % 5 else "",
            "count": lambda row: choose.randrange(1000),
            "weight": lambda row: "?" if row % 9 == 0 else f"{choose.random():.3f}",
            "city": lambda row: choose.choice(["Ulm", "Bonn", "Köln"]),
            "hour": lambda row: choose.randrange(6),
            "zip_code": lambda row: choose.choice([89073, 53111, 50667]),
            "paid": lambda row: choose.choice(["true", "false"]),
            "review": lambda row: f"the {row} food was {choose.random()} good",
            "day": lambda row: when(row).strftime("%Y-%m-%d"),
            "start_time": lambda row: int(when(row).timestamp()),
            "updated_at": lambda row: int(1000 * when(row).timestamp()),
            "bill_date": lambda row: when(row).strftime("%m/%d/%Y"),
            "id": lambda row: 7 * row,
            "number": lambda row: row + 1,
            "name": lambda row: f"person-{row}",
            "version": "x" * ROWS,
            "note": lambda row: "once" if row == 3 else "",
            "label": lambda row: choose.choice(["a", "b"]),
        }
    )
    assert kinds(plan_of(path)) == {
        "fare": NUMBER,
        "count": NUMBER,
        "weight": PARSED,
        "city": CATEGORY,
        "hour": CATEGORY,
        "zip_code": CATEGORY,
        "paid": CATEGORY,
        "review": WORDS,
        "day": DATE,
        "start_time": SECONDS,
        "updated_at": MILLISECONDS,
        "bill_date": LEFT_OUT,
        "id": LEFT_OUT,
        "number": LEFT_OUT,
        "name": LEFT_OUT,
        "version": LEFT_OUT,
        "note": LEFT_OUT,
    }


@pytest.mark.parametrize(
    ("values", "task", "classes"),
    [
        (["yes", "no", "no"], "binary", ("no", "yes")),
        (["cat", "dog", "dog"], "binary", ("dog", "cat")),  # the rarer one is what is looked for
        ([0, 1, 1], "binary", (0, 1)),
        ([1, 2, 2], "binary", (2, 1)),
        (["1.0", "0.0", "0.0"], "binary", (0.0, 1.0)),
        (["red", "green", "blue"], "multiclass", ("blue", "green", "red")),
        ([3, 1, 2], "multiclass", (1, 2, 3)),
        (["0.5", "1.5", "2.5"], "regression", ()),
        (range(300), "regression", ()),
    ],
)
def test_the_task_follows_from_the_labels_values(
    table: Write, values: Sequence[Any], task: str, classes: tuple[Any, ...]
) -> None:
    choose = random.Random(0)
    path = table({"x": lambda row: choose.random(), "target": lambda row: values[row % len(values)]}, rows=300)
    label = plan_of(path).label
    assert (label.task, label.classes, label.why) == (task, classes, "by its name")
    if task == "multiclass" and values == [3, 1, 2]:
        assert plan_of(path, task="regression").label.task == "regression"


def test_the_last_column_is_taken_when_no_name_tells_and_a_majority_is_pointed_out(table: Write) -> None:
    choose = random.Random(0)
    columns = {"x": lambda row: choose.random(), "sold": lambda row: "yes" if row % 10 == 0 else "no"}
    label = plan_of(table(columns)).label
    assert label.column.name == "sold"
    assert label.why.startswith("last column")
    assert label.warning == "90% of the rows are 'no': always predicting it gives an accuracy of 0.90."


def test_transform_is_taken_where_there_are_words_gaps_or_labels_that_are_no_ids(table: Write) -> None:
    choose = random.Random(0)
    x = {"x": lambda row: f"{choose.random():.4f}"}
    assert not plan_of(table({**x, "y": lambda row: row % 3})).transforms
    assert not plan_of(table({**x, "y": lambda row: row / 7})).transforms
    assert plan_of(table({**x, "y": lambda row: row % 3 + 1})).transforms
    assert plan_of(table({**x, "gap": lambda row: choose.random() if row else "", "y": lambda row: row % 3})).transforms
    assert plan_of(table({**x, "word": lambda row: "ab"[row % 2], "y": lambda row: row % 3})).transforms


def test_of_many_rows_the_first_are_read_and_transform_takes_what_may_come(table: Write) -> None:
    choose = random.Random(0)
    path = table({"x": lambda row: choose.random(), "y": lambda row: row % 2}, rows=9000)
    raw = read_data(path, rows=4096)
    assert (raw.size, raw.is_whole) == (4096, False)
    assert make_plan(raw, analyze_columns(raw)).transforms


REFUSED = {
    "no_such_file": (None, {}, r"data.csv does not exist"),
    "empty": ("", {}, "is empty"),
    "header_only": ("a,b\n", {}, "has no rows below the header"),
    "one_column": ("a\n1\n2\n", {}, "has only one column, 'a'"),
    "semicolons": ("a;b\n1;2\n", {}, "are the columns separated by commas?"),
    "numbers_for_names": ("1.5,2,3\n4,5,6\n", {}, "its first line must contain the column names; it is 1.5, 2, 3"),
    "name_twice": ("a,a\n1,2\n", {}, "each once"),
    "too_few_values": ("a,b\n1,2\n3\n", {}, r"row 2 \(line 3\): it has 1 value, but the header has 2 columns"),
    "misspelled_label": ("tips,fare\n1,2\n", {"label": "tip"}, "Did you mean 'tips'?"),
    "label_missing": ("x,y\n1,2\n3,\n5,6\n", {}, "missing in 1 of 3 rows, first in row 2"),
    "label_constant": ("x,y\n1,2\n3,2\n", {}, "is 2 in every row: there is nothing to learn"),
    "label_empty": ("x,y\n1,\n3,\n", {}, "cannot be learned: it has no values"),
    "text_for_regression": ("x,y\n1,a\n3,b\n", {"task": "regression"}, "--task regression: the label 'y' is text"),
    "text_among_numbers": (
        "x,y\n" + "".join(f"{row},{row}.5\n" for row in range(30)) + "1,n/a\n",
        {"task": "regression"},
        "data.csv, row 31 after the header: the label 'y' is 'n/a', but most labels are numbers. Correct or remove",
    ),
    "three_for_binary": ("x,y\n1,a\n3,b\n4,c\n", {"task": "binary"}, "has 3 values; use --task multiclass"),
    "nothing_to_learn_from": (
        "x,y\n1,a\n1,b\n",
        {},
        "no columns are left to predict 'y' from. x is left out: constant",
    ),
}


def test_a_text_among_class_ids_is_a_class_with_a_warning(table: Write) -> None:
    plan = plan_of(table({"x": lambda row: row % 11 / 2, "y": lambda row: "n/a" if row == 40 else row % 3}))
    assert plan.label.classes == ("0", "1", "2", "n/a")
    assert "row 41 after the header: the label 'y' is 'n/a', but most labels are numbers" in plan.label.warning


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_with_the_reason(case: str, tmp_path: pathlib.Path) -> None:
    content, wishes, message = REFUSED[case]
    path = tmp_path / "data.csv"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        plan_of(str(path), **wishes)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data.txt", b"a,b\n1,2\n", "is not a CSV file: .* names that end in .csv"),
        ("data.json", b'{"a": 1}\n', "a pipeline reads CSV files"),
        ("data.parquet", b"PAR1\0\0\0\0" * 9, "a pipeline reads CSV files"),
        ("data.csv", b"a,b\n1,\0\n", "is not a CSV file"),
        (
            "data.csv.gz",
            b"\x1f\x8b\x08\0\0\0\0\0\0\x03K\xd2I\xe2\x02\0\xd6;\xa6\xd3\x05\0\0\0",
            "is not a CSV file",
        ),
        ("data.tfrecord", b"what is this? it is no record at all", "is not a TFRecord file, or is damaged"),
    ],
)
def test_other_formats_are_refused(tmp_path: pathlib.Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        plan_of(str(tmp_path / name))


def test_without_a_label_that_can_be_told_the_candidates_are_listed(table: Write, tmp_path: pathlib.Path) -> None:
    columns = {"size": lambda row: row / 7, "kind": lambda row: "ab"[row % 2], "name": lambda row: f"person-{row}"}
    with pytest.raises(
        InputError, match=r"the last column, 'name', cannot be a label. Set --label; suitable columns: size, kind\."
    ):
        plan_of(table(columns))
    write_examples(tmp_path / "records", [{"size": [row / 7], "kind": ["ab"[row % 2]]} for row in range(50)])
    with pytest.raises(
        InputError, match=r"tf\.Examples have no last column. Set --label; suitable columns: kind, size\."
    ):
        plan_of(str(tmp_path / "records"))


def test_all_files_of_a_folder_must_have_the_same_columns(table: Write, tmp_path: pathlib.Path) -> None:
    table({"x": lambda row: row, "y": lambda row: row % 2}, name="a.csv")
    assert read_data(str(tmp_path)).size == ROWS
    table({"y": lambda row: row, "x": lambda row: row % 2}, name="b.csv")
    with pytest.raises(InputError, match=r"b\.csv has different columns from .*a\.csv: y, x"):
        read_data(str(tmp_path))
