"""What `init` writes: modules that are formatted, whatever the columns are called, and that learn."""

from __future__ import annotations

import ast
import datetime
import importlib
import json
import os
import pathlib
import random
import subprocess
import sys
from typing import Any

import pytest
import yaml

from generic_trainer import InputError
from generic_trainer.pipelines.scaffold.column_statistics import analyze_columns
from generic_trainer.pipelines.scaffold.literals import assignment, literal
from generic_trainer.pipelines.scaffold.planning import make_plan
from generic_trainer.pipelines.scaffold.project import make_project, make_sample, module_name
from generic_trainer.pipelines.scaffold.reading import read_data
from generic_trainer.pipelines.scaffold.writing import render_files, write_project

from ...world.records import write_examples

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
RUFF = [str(pathlib.Path(sys.executable).with_name("ruff")), "--config", str(REPOSITORY / "pyproject.toml")]
ODD = (
    "{{ x }}",
    'say "x"',
    "it's",
    "both '\"",
    "a, b",
    "class",
    "lambda",
    "Größe (cm)",
    "a/b",
    "back\\slash",
    "#",
    "$1",
)


def scaffold(data: str, folder: pathlib.Path, label: str = "", task: str = "auto") -> str:
    """Does what `init` does, and returns the module's name."""
    raw = read_data(data)
    plan = make_plan(raw, analyze_columns(raw), label, task)
    project = make_project(str(folder), plan, data)
    write_project(str(folder), {**render_files(project, plan), project.sample: make_sample(plan)})
    return project.module


def rows_of(names: tuple[str, ...], count: int = 1200) -> list[dict[str, Any]]:
    """Makes examples in which every column has something to do with the label."""
    choose = random.Random(0)
    rows = []
    for number in range(count):
        sold = choose.random() < 0.4
        when = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(hours=5 * number)
        good = choose.choices(["lovely", "great"] if sold else ["dirty", "cold"], k=2)
        row = {
            "number": choose.gauss(5 + sold, 1),
            "tail": choose.expovariate(1) ** 4,
            "parsed": "?" if number % 9 == 0 else f"{choose.gauss(sold, 1):.2f}",
            "category": choose.choice(["Ulm", "Köln"] if sold else ["Bonn", "Ulm"]),
            "code": choose.randrange(4) + sold,
            "words": " ".join(choose.choices(["the", "food", "was", "and"], k=6) + good),
            "day": when.strftime("%Y-%m-%d %H:%M"),
            "start_time": int(when.timestamp()),
            "flag": int(sold) if number % 7 else 1 - sold,
            "label": "yes" if sold else "no",
        }
        if number % 5 == 0:
            del row["number"], row["category"], row["day"]
        rows.append(
            {
                names[place] if place < len(names) else name: row[name]
                for place, name in enumerate(_ORDER)
                if name in row
            }
        )
    return rows


_ORDER = ("number", "parsed", "category", "words", "label", "day", "tail", "code", "flag", "start_time")


def require_style(folder: pathlib.Path) -> None:
    """Checks with ruff, by this project's own rules; tests need no docstrings."""
    for arguments in (["check", "--per-file-ignores", "test_*.py:D1"], ["format", "--check"]):
        done = subprocess.run(
            [RUFF[0], *arguments, *RUFF[1:], str(folder)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("text", [*ODD, "", "a\nb", "\0", "\\'", '\\\\\'""', "🙂\u200b"])
def test_any_text_is_the_same_after_it_was_source(text: str) -> None:
    assert ast.literal_eval(literal(text)) == text


def test_long_assignments_are_one_item_a_line() -> None:
    assert assignment("A", ("x",), "one") == 'A = ("x",)  # one'
    names = tuple(f"column_{number}" for number in range(12))
    lines = assignment("NAMES", names, "many").splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("NAMES = (  # many", '    "column_0",', ")")
    assert ast.literal_eval("\n".join(lines).partition(" = ")[2]) == names


VARIANTS = {
    "all": ((), ""),
    "numbers_only": (("number", "tail"), "number"),
    "gaps_and_regression": (("number", "tail", "code"), "tail"),
    "words_only": (("words", "label"), "label"),
    "one_category": (("category", "label"), "label"),
    "dates_only": (("day", "label"), "label"),
    "times_only": (("start_time", "label"), "label"),
    "both_times": (("day", "start_time", "category"), "category"),
    "parsed_only": (("parsed", "label"), "label"),
    "code_and_classes": (("code", "number", "category"), "category"),
    "plain_binary": (("tail", "flag"), "flag"),
    "plain_classes": (("tail", "flag", "code"), "code"),
    "plain_regression": (("tail", "flag", "code"), "tail"),
}


def test_a_modules_dates_are_those_of_datetime(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    write_examples(
        tmp_path / "data", [{"day": row["day"], "label": row["label"]} for row in rows_of(()) if "day" in row]
    )
    name = scaffold(str(tmp_path / "data"), tmp_path / "dates_of_a_module")
    monkeypatch.syspath_prepend(str(tmp_path / name))
    module = importlib.import_module(name)
    choose = random.Random(0)
    begin = datetime.datetime(1800, 1, 1, tzinfo=datetime.timezone.utc)
    times = [begin + datetime.timedelta(minutes=choose.randrange(400 * 365 * 1440)) for _ in range(5000)]
    times += [begin, begin.replace(year=2199, month=12, day=31), begin.replace(year=2000, month=2, day=29)]
    seconds = module.parse_dates(tf.constant([[time.strftime("%Y-%m-%d %H:%M")] for time in times]))
    assert seconds.numpy()[:, 0].tolist() == [int(time.timestamp()) for time in times]
    parts = {name: value.numpy()[:, 0].tolist() for name, value in module.split_time(seconds).items()}
    assert parts == {
        "hour": [time.hour for time in times],
        "weekday": [time.weekday() for time in times],
        "month": [time.month - 1 for time in times],
    }
    others = tf.constant([[text] for text in ("", "x", "1799-12-31", "2200-01-01", "2020-00-01", "2020-13-01")])
    assert set(module.parse_dates(others).numpy()[:, 0].tolist()) == {module.MISSING_TIME}


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_written_is_formatted_and_has_no_more_than_it_needs(variant: str, tmp_path: pathlib.Path) -> None:
    names, label = VARIANTS[variant]
    rows = rows_of(())
    if variant == "both_times":
        rows = [row for row in rows if "category" in row]
    if variant in ("code_and_classes", "numbers_only", "one_category", "both_times"):
        rows = [row for row in rows if "number" in row]
    write_examples(tmp_path / "data", [{name: row[name] for name in names or row if name in row} for row in rows])
    module = scaffold(str(tmp_path / "data"), tmp_path / "made", label or "label")
    require_style(tmp_path / "made")
    source = (tmp_path / "made" / f"{module}.py").read_text()
    constants = {node.targets[0].id for node in ast.parse(source).body if isinstance(node, ast.Assign)}
    unused = [name for name in constants if source.count(name) < 2]
    assert not unused


def test_odd_names_are_names_only(tmp_path: pathlib.Path) -> None:
    for first in range(0, len(ODD), 6):
        names = ODD[first : first + 6]
        folder = tmp_path / str(first)
        write_examples(tmp_path / "data", rows_of(names))
        module = scaffold(str(tmp_path / "data"), folder, names[4])
        require_style(folder)
        assert f"LABEL = {literal(names[4])}\n" in (folder / f"{module}.py").read_text()
        assert yaml.safe_load((folder / "pipeline.yaml").read_text())["label"] == names[4]


def test_a_sample_is_the_same_each_time_and_keeps_the_datas_order(
    taxi_csv: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    raw = read_data(str(taxi_csv / "data.csv"))
    plan = make_plan(raw, analyze_columns(raw), "tips")
    sample = make_sample(plan)
    assert sample == make_sample(plan)
    header, *lines = sample.decode().splitlines()
    whole = (taxi_csv / "data.csv").read_text().splitlines()
    assert header == whole[0]
    assert len(lines) == 1000
    remaining = iter(whole[1:])
    assert all(any(line == other for other in remaining) for line in lines)


def test_a_sample_has_whole_rows_of_values_with_line_breaks(tmp_path: pathlib.Path) -> None:
    content = "x,note,y\n" + "".join(f'{number % 7},"a,\n{number % 3}",{number % 2}\n' for number in range(40))
    (tmp_path / "data.csv").write_text(content)
    raw = read_data(str(tmp_path / "data.csv"))
    assert make_sample(make_plan(raw, analyze_columns(raw), "y")).decode() == content


@pytest.mark.parametrize(
    ("folder", "module"),
    [
        ("taxi", "taxi"),
        ("Chicago Taxi-2024", "chicago_taxi_2024"),
        ("iris/", "iris"),
        ("2024", "model_2024"),
        ("class", "class_model"),
        ("json", "json_model"),
        ("keras", "keras_model"),
        ("test_it", "test_it_model"),
        ("größe", "model_gre"),
        ("数据", "model_model"),
    ],
)
def test_the_module_is_called_as_no_other_one_is(folder: str, module: str) -> None:
    assert module_name(folder) == module


def test_all_files_are_written_or_none(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match="cannot write there"):
        write_project(str(tmp_path / "p"), {"a.py": b"", "a.py/b": b""})
    assert list(tmp_path.iterdir()) == []
    write_project(str(tmp_path / "p"), {"a.py": b"1"})
    with pytest.raises(InputError, match="is not empty"):
        write_project(str(tmp_path / "p"), {"a.py": b"2"})
    (tmp_path / "p" / "mine.txt").touch()
    write_project(str(tmp_path / "p"), {"a.py": b"2", "b/c": b""}, force=True)
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["a.py", "b", "mine.txt"]
    assert (tmp_path / "p" / "a.py").read_bytes() == b"2"
    with pytest.raises(InputError, match="is a file"):
        write_project(str(tmp_path / "p" / "a.py"), {"a.py": b"2"}, force=True)


TRANSFORM = """
import importlib, json, os, sys, tempfile

import tensorflow as tf
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata.dataset_metadata import DatasetMetadata

sys.path.insert(0, sys.argv[1])
module = importlib.import_module("made")
rows = json.loads(sys.argv[2])
kinds = {str: tf.string, int: tf.int64, float: tf.float32}
spec = {name: tf.io.VarLenFeature(kinds[type(value)]) for row in rows for name, value in row.items()}
data = [{name: [row[name]] if name in row else [] for name in spec} for row in rows]
with tft_beam.Context(temp_dir=tempfile.mkdtemp()):
    metadata = DatasetMetadata.from_feature_spec(spec)
    (made, _), _ = (data, metadata) | tft_beam.AnalyzeAndTransformDataset(module.preprocessing_fn)
print(json.dumps([{name: value.tolist() for name, value in row.items()} for row in made], default=bytes.decode))
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_gaps_get_the_mean_or_id_0_and_times_are_taken_apart(tmp_path: pathlib.Path) -> None:
    rows = rows_of((), 300)
    write_examples(tmp_path / "data", rows)
    scaffold(str(tmp_path / "data"), tmp_path / "made")
    some = [{"label": row["label"]} if number == 1 else row for number, row in enumerate(rows[:60])]
    leap = datetime.datetime(2024, 2, 29, 23, 15, tzinfo=datetime.timezone.utc)
    some[2] = {**some[2], "day": "2024-02-29 23:15", "start_time": int(leap.timestamp()), "category": "Rome"}
    run = [sys.executable, "-c", TRANSFORM, str(tmp_path / "made"), json.dumps(some)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    made = [{name: value[0] for name, value in row.items()} for row in json.loads(done.stdout.splitlines()[-1])]
    assert [row["label"] for row in made] == [row["label"] == "yes" for row in some]
    nothing = {name: value for name, value in made[1].items() if name != "label"}
    assert set(nothing.values()) == {0}
    for name in ("number", "parsed"):
        there = [one[f"{name}_scaled"] for one, row in zip(made, some, strict=True) if row.get(name, "?") != "?"]
        assert sum(there) / len(there) == pytest.approx(0, abs=1e-5)
        assert sum(value**2 for value in there) / len(there) == pytest.approx(1, abs=1e-4)
    for one, row in zip(made, some, strict=True):
        for name in ("day", "start_time"):
            if name in row:
                text = f"{row[name]}+00:00"
                when = datetime.datetime.fromisoformat(text) if name == "day" else _at(row[name])
                assert (one[f"{name}_hour"], one[f"{name}_weekday"]) == (when.hour + 1, when.weekday() + 1)
                assert one[f"{name}_month"] == when.month
    assert made[2]["category_id"] == 0  # a fourth city, of which `init` saw three
    assert len({row["category_id"] for row in made if row["category_id"]}) == 3


def _at(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


TRAIN = """
import importlib, json, os, sys

import numpy as np
import tensorflow as tf

from generic_trainer import FnArgs

found = {}
for folder in sys.argv[1:]:
    name = os.path.basename(folder)
    sys.path.insert(0, folder)
    module = importlib.import_module(name)
    args = FnArgs(train_files=[f"{folder}.train"], eval_files=[f"{folder}.eval"], serving_model_dir=f"{folder}/model",
                  model_run_dir=f"{folder}/run", checkpoint_dir=f"{folder}/run/checkpoints", seed=1)
    module.run_fn(args)
    records = [record.numpy() for record in tf.data.TFRecordDataset(f"{folder}.eval")]
    serve = tf.saved_model.load(f"{folder}/model").signatures["serving_default"]
    [answers] = serve(examples=tf.constant(records)).values()
    feature = [tf.train.Example.FromString(record).features.feature["target"] for record in records]
    labels = [(one.int64_list.value or one.float_list.value)[0] for one in feature]
    found[name] = {"answers": answers.numpy().tolist(), "labels": list(labels)}
print(json.dumps(found))
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_numbers_alone_are_learned_without_transform(tmp_path: pathlib.Path) -> None:
    """On data that everybody knows: classes far more often right than the majority, values nearer than the mean."""
    import numpy as np
    from sklearn import datasets

    folders = []
    for name in ("iris", "wine", "breast_cancer", "diabetes"):
        data = getattr(datasets, f"load_{name}")()
        kind = float if name == "diabetes" else int
        order = np.random.default_rng(0).permutation(len(data.target))
        rows = [
            {**{feature: float(value) for feature, value in zip(data.feature_names, data.data[row], strict=True)}}
            | {"target": kind(data.target[row])}
            for row in order
        ]
        cut = 2 * len(rows) // 3
        write_examples(tmp_path / name, rows)
        module = scaffold(str(tmp_path / name), tmp_path / f"{name}_numbers")
        write_examples(tmp_path / f"{module}.train", rows[:cut])
        write_examples(tmp_path / f"{module}.eval", rows[cut:])
        folders.append(str(tmp_path / module))
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}  # Keras 3
    line = [sys.executable, "-c", TRAIN, *folders]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for name, least in (("iris", 0.9), ("wine", 0.9), ("breast_cancer", 0.93)):
        answers, labels = (np.array(found[f"{name}_numbers"][key]) for key in ("answers", "labels"))
        chosen = answers.argmax(axis=1) if answers.shape[1] > 1 else answers[:, 0] > 0.5
        assert (chosen == labels).mean() > least, name  # the majority: 0.33, 0.4 and 0.63
    answers, labels = (np.array(found["diabetes_numbers"][key]) for key in ("answers", "labels"))
    assert ((answers[:, 0] - labels) ** 2).mean() < 0.7 * labels.var()


@pytest.mark.slow
def test_a_column_that_is_constant_in_the_training_data_does_no_harm(tmp_path: pathlib.Path) -> None:
    """Pixels at the edge of scanned digits, of which some are set in examples of the eval split only."""
    import numpy as np
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    rare = (images > 0).sum(axis=0) < 30
    in_eval = (images[:, rare] > 0).any(axis=1) | (np.arange(len(images)) % 3 == 0)
    rows = [
        {**{f"pixel{place}": float(value) for place, value in enumerate(image)}, "target": int(digit)}
        for image, digit in zip(images, digits, strict=True)
    ]
    write_examples(tmp_path / "data", rows)
    module = scaffold(str(tmp_path / "data"), tmp_path / "rare", "target")
    for split, chosen in (("train", ~in_eval), ("eval", in_eval)):
        write_examples(
            tmp_path / f"{module}.{split}", [row for row, is_chosen in zip(rows, chosen, strict=True) if is_chosen]
        )
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}  # Keras 3
    line = [sys.executable, "-c", TRAIN, str(tmp_path / module)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])[module]
    answers, labels = np.array(found["answers"]), np.array(found["labels"])
    assert (answers.argmax(axis=1) == labels).mean() > 0.9


@pytest.mark.thorough
@pytest.mark.slow
def test_a_projects_own_test_passes(tmp_path: pathlib.Path) -> None:
    write_examples(tmp_path / "data", rows_of(ODD[:10], 400))
    module = scaffold(str(tmp_path / "data"), tmp_path / "odd", ODD[4])
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_{module}.py"]
    passed = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path / "odd", timeout=600)
    assert passed.returncode == 0, passed.stdout[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["binary", pytest.param("regression", marks=pytest.mark.thorough)])
def test_wide_data_get_a_linear_part(tmp_path: pathlib.Path, task: str) -> None:
    import csv

    choose = random.Random(0)
    names = [f"x{number}" for number in range(60)]
    with open(tmp_path / "wide.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "y"])
        for _ in range(300):
            row = [round(choose.gauss(0, 1), 3) for _ in names]
            score = row[0] - row[1] + choose.gauss(0, 0.1)
            writer.writerow([*row, int(score > 0) if task == "binary" else round(score, 3)])
    module = scaffold(str(tmp_path / "wide.csv"), tmp_path / "project", "y", task)
    source = (tmp_path / "project" / f"{module}.py").read_text()
    assert "LINEAR_L2" in source
    require_style(tmp_path / "project")
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_{module}.py"]
    done = subprocess.run(line, cwd=tmp_path / "project", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
