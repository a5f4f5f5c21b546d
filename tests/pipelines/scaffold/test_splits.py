"""Test splits: of the pipeline, of folders, and by time."""

from __future__ import annotations

import csv
import io
import json
import pathlib
from typing import Any

import pytest

from generic_trainer import InputError
from generic_trainer.pipelines.definition.examples import example_gen_for, is_split_with_test
from generic_trainer.pipelines.scaffold.column_statistics import analyze_columns
from generic_trainer.pipelines.scaffold.planning import Plan, make_plan
from generic_trainer.pipelines.scaffold.project import make_sample
from generic_trainer.pipelines.scaffold.reading import read_data
from generic_trainer.pipelines.scaffold.time_split import split_by_time


def splits_of(node: Any) -> tuple[dict[str, str], dict[str, int]]:
    """Returns {split: pattern} of the input and {split: buckets} of the output."""
    config = {name: json.loads(node.exec_properties[name] or "{}") for name in ("input_config", "output_config")}
    read = {split["name"]: split["pattern"] for split in config["input_config"]["splits"]}
    written = config["output_config"].get("split_config", {}).get("splits", [])
    return read, {split["name"]: split["hash_buckets"] for split in written}


def write(path: pathlib.Path, rows: list[list[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)


def test_a_fifth_of_the_data_is_for_the_test(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.csv", [["x", "y"], [1, 2]])
    read, written = splits_of(example_gen_for(str(tmp_path), test_split=True))
    assert (read, written) == ({"single_split": "a.csv"}, {"train": 3, "eval": 1, "test": 1})
    _, written = splits_of(example_gen_for(str(tmp_path)))
    assert "test" not in written


def test_folders_are_splits(tmp_path: pathlib.Path) -> None:
    for name in ("train", "eval"):
        write(tmp_path / name / "a.csv", [["x", "y"], [1, 2]])
    node = example_gen_for(str(tmp_path))
    assert type(node).__name__ == "CsvExampleGen"
    assert splits_of(node)[0] == {"train": "train/*.csv", "eval": "eval/*.csv"}
    assert not is_split_with_test(str(tmp_path))
    with pytest.raises(InputError, match="is split already, and has no folder test/"):
        example_gen_for(str(tmp_path), test_split=True)
    write(tmp_path / "test" / "a.csv", [["x", "y"], [1, 2]])
    assert splits_of(example_gen_for(str(tmp_path)))[0]["test"] == "test/*.csv"
    assert is_split_with_test(str(tmp_path))
    with pytest.raises(InputError, match="is split already"):
        example_gen_for("gs://bucket/data", "splits", test_split=True)


def plan_of(folder: pathlib.Path, times: list[object], name: str = "day") -> Plan:
    rows = [[time, number / 7, number % 2] for number, time in enumerate(times)]
    write(folder / "a.csv", [[name, "x", "y"], *rows])
    raw = read_data(str(folder / "a.csv"))
    return make_plan(raw, analyze_columns(raw), "y")


@pytest.mark.parametrize("name", ["day", "start_time"])
def test_the_newest_rows_are_the_test_split(tmp_path: pathlib.Path, name: str) -> None:
    days = [f"2024-{1 + number % 12:02}-{1 + number % 28:02}" for number in range(100)]
    times: list[object] = (
        [*days] if name == "day" else [1_700_000_000 + 60 * ((number * 37) % 100) for number in range(100)]
    )
    found = split_by_time(plan_of(tmp_path, times, name), name, str(tmp_path / "out"))
    assert list(found) == ["data/train/data.csv", "data/eval/data.csv", "data/test/data.csv"]
    read = [list(csv.DictReader(path.read_text().splitlines())) for path in found.values()]
    assert sum(map(len, read)) == 100
    assert 15 <= len(read[2]) <= 20
    latest = [max(row[name] for row in rows) for rows in read]
    first = [min(row[name] for row in rows) for rows in read]
    assert latest[0] < first[1] <= latest[1] < first[2]  # no time is in two splits


@pytest.mark.parametrize("text", ["a\rb", "a\nb", "a\r\nb", "\r", 'a"b', "a,b", " a "])
def test_a_split_and_a_sample_keep_every_text(text: str, tmp_path: pathlib.Path) -> None:
    rows = [[f"2024-01-{1 + number % 28:02}", f"{text}{number % 3}", number % 2] for number in range(100)]
    write(tmp_path / "a.csv", [["day", "text", "y"], *rows])
    raw = read_data(str(tmp_path / "a.csv"))
    plan = make_plan(raw, analyze_columns(raw), "y")
    files = [path.read_bytes() for path in split_by_time(plan, "day", str(tmp_path / "out")).values()]
    for content in (files, [make_sample(plan)]):
        read = [row for part in content for row in csv.DictReader(io.StringIO(part.decode(), newline=""))]
        assert sorted(row["text"] for row in read) == sorted(str(row[1]) for row in rows)


def test_what_cannot_be_split_by_time_is_refused(tmp_path: pathlib.Path) -> None:
    plan = plan_of(tmp_path, [f"2024-01-{1 + number % 28:02}" for number in range(100)])
    with pytest.raises(InputError, match=r"--split-by-time x: this is no column with times; columns with times: day"):
        split_by_time(plan, "x", str(tmp_path / "out"))
    plan = plan_of(tmp_path, ["2024-01-01"] * 99 + ["2024-01-02"])
    with pytest.raises(InputError, match="too few different times"):
        split_by_time(plan, "day", str(tmp_path / "out"))
