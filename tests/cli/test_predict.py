"""`generic-trainer predict` with real SavedModels and files."""

from __future__ import annotations

import contextlib
import csv
import datetime
import decimal
import gzip
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from generic_trainer.cli.predict import predict as predict_command
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.evaluation.plan import BINARY, LOGITS, EvaluationPlan, OutputPlan
from generic_trainer.executors.modules.keras_version import choose

from ..world.records import example, write_records

RESTORED = "before TensorFlow 2.16" not in choose("auto", []).reason
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A SavedModel with a signature for each kind of input."""
    import tensorflow as tf

    def takes(**specs: tuple[list | None, Any]) -> Any:
        return tf.function(input_signature=[tf.TensorSpec(*spec, name=name) for name, spec in specs.items()])

    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = tf.Variable(3.0)

        @takes(examples=([None], tf.string))
        def parsing(self, examples: Any) -> dict[str, Any]:
            spec = {
                "x": tf.io.FixedLenFeature([], tf.float32),
                "n": tf.io.FixedLenFeature([], tf.int64, default_value=-1),
                "words": tf.io.VarLenFeature(tf.string),
                "ids": tf.io.RaggedFeature(tf.int64),
            }
            parsed = tf.io.parse_example(examples, spec)
            words = tf.strings.reduce_join(tf.sparse.to_dense(parsed["words"]), axis=1)
            return {"y": self.weight * parsed["x"], "n": parsed["n"], "words": words,
                    "sum": tf.reduce_sum(parsed["ids"], axis=1)}  # fmt: skip

        @takes(x=([None, 2], tf.float32), n=([None], tf.int32), words=([None, None], tf.string))
        def named(self, x: Any, n: Any, words: Any) -> dict[str, Any]:
            return {"y": x * tf.cast(n, tf.float32)[:, None], "words": words}

        @takes(x=([1, 2], tf.float32))
        def one(self, x: Any) -> dict[str, Any]:
            return {"y": self.weight * x}

        @takes(x=([4], tf.float64))
        def four(self, x: Any) -> dict[str, Any]:
            return {"y": x / 2}

        @takes(example=([], tf.string))
        def scalar(self, example: Any) -> dict[str, Any]:
            return {"y": tf.io.parse_single_example(example, {"n": tf.io.FixedLenFeature([], tf.int64)})["n"] + 1}

        @takes(text=([None], tf.string))
        def text(self, text: Any) -> dict[str, Any]:
            return {"length": tf.strings.length(text), "text": text}

        @takes(x=([None], tf.float32))
        def odd(self, x: Any) -> dict[str, Any]:
            return {"log": tf.math.log(x), "is_small": x < 1.0}

        @takes(x=([None], tf.float32))
        def scores(self, x: Any) -> dict[str, Any]:
            return {"probabilities": tf.nn.softmax(tf.stack([x, -x], axis=1)), "half": x / 2}

        @takes(x=([None, None], tf.float32))
        def unbatched(self, x: Any) -> dict[str, Any]:
            return {"y": x, "total": tf.reduce_sum(x)}

    built = Model()
    names = ("named", "one", "four", "scalar", "text", "odd", "scores", "unbatched")
    folder = tmp_path_factory.mktemp("model")
    tf.saved_model.save(
        built,
        str(folder / "saved"),
        signatures={"serving_default": built.parsing, **{name: getattr(built, name) for name in names}},
    )
    return folder / "saved"


@pytest.fixture
def ask(model: pathlib.Path, tmp_path: pathlib.Path) -> Callable[..., list[dict]]:
    """Runs predict in this process and returns the JSON lines; raises the command's exceptions."""

    def run(*examples: object, model: pathlib.Path = model, output: str = "out.jsonl", **flags: object) -> Any:
        line = ["--model", str(model), "--output", str(tmp_path / output)]
        for file in examples:
            line += ["--examples", str(file)]
        for name, value in flags.items():
            for one in value if isinstance(value, list) else [value]:
                line += [f"--{name.replace('_', '-')}", *([] if one is True else [str(one)])]
        done = CliRunner().invoke(predict_command, line)
        assert not list(tmp_path.glob("*.part-*"))
        if done.exception:
            raise done.exception
        if not output.endswith(".jsonl"):
            return tmp_path / output
        rows = [json.loads(row, parse_constant=pytest.fail) for row in (tmp_path / output).read_text().splitlines()]
        signature = flags.get("signature", "serving_default")
        count = "1 prediction" if len(rows) == 1 else f"{len(rows)} predictions"
        shown = [line for line in done.output.splitlines() if not line.endswith("the only one with strings.")]  # logged
        assert shown == [f"{count} of the signature {signature!r}: {tmp_path}/out.jsonl"]
        return rows

    return run


Ask = Callable[..., Any]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_tf_records_are_passed_unchanged(ask: Ask, tmp_path: pathlib.Path, compression: str) -> None:
    records = [example(x=[0.1 * i], n=[i], words=[b"a", b"b"], ids=[i, 1], other=[b"ignored"]) for i in range(7)]
    write_records(tmp_path / "part-0", records[:4], compression)
    write_records(tmp_path / "part-1", records[4:], compression)
    rows = ask(tmp_path / "part-*", batch_size=3)
    assert [row["n"] for row in rows] == list(range(7))  # in the order of the files, including the smaller last batches
    assert rows[1] == {"n": 1, "sum": 2, "words": "ab", "y": 0.3}  # 0.3 instead of the double 0.30000001192092896
    assert ask(tmp_path / "part-1", tmp_path / "part-*")[0]["n"] == 4  # in the order of --examples, without duplicates


def test_csv_cells_get_the_types_that_the_graph_parses(ask: Ask, tmp_path: pathlib.Path) -> None:
    # x holds integers only, n floats as pandas writes a column with gaps, words a number: the graph wants otherwise.
    (tmp_path / "data.csv").write_text('x,n,words,other\n1,3.0,17,?\n\n2,,"a, ""b""\nc",\n')
    expected = [
        {"n": 3, "sum": 0, "words": "17", "y": 3.0},
        {"n": -1, "sum": 0, "words": 'a, "b"\nc', "y": 6.0},
    ]
    assert ask(tmp_path / "data.csv") == expected
    with gzip.open(tmp_path / "data.csv.gz", "wb") as file:
        file.write(b"\xef\xbb\xbf" + (tmp_path / "data.csv").read_bytes().replace(b"\n", b"\r\n"))
    expected[1]["words"] = 'a, "b"\r\nc'
    assert ask(tmp_path / "data.csv.gz") == expected


def test_json_lines_hold_values_and_lists(ask: Ask, tmp_path: pathlib.Path) -> None:
    lines = [{"x": 1, "words": ["é", {"b64": "/w=="}], "ids": [1, 2, 3]}, {"x": [2.5], "n": 4, "ids": None, "more": {}}]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert ask(tmp_path / "data.jsonl") == [
        {"n": -1, "sum": 6, "words": {"b64": "w6n/"}, "y": 3.0},
        {"n": 4, "sum": 0, "words": "", "y": 7.5},
    ]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "tfrecord"])
def test_named_inputs_are_fed_by_feature(ask: Ask, tmp_path: pathlib.Path, kind: str) -> None:
    path = tmp_path / f"data.{kind}"
    rows = [{"x": [i, 2.0 * i], "n": i, "words": ["a"], "other": i} for i in range(3)]
    if kind == "csv":
        path.write_text("x,n,words\n" + "".join(f"{i},{i},a\n" for i in range(3)))
        with pytest.raises(InputError, match=r"data.csv, row 1: feature 'x' has 1 value, not 2; the signature takes"):
            ask(path, signature="named")
        return
    if kind == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        write_records(path, [example(x=[float(i), 2.0 * i], n=[i], words=[b"a"], other=[b""]) for i in range(3)])
    assert ask(path, signature="named", batch_size=2) == [
        {"words": ["a"], "y": [0.0, 0.0]},
        {"words": ["a"], "y": [1.0, 2.0]},
        {"words": ["a"], "y": [4.0, 8.0]},
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"x": [1, 2, 3], "n": 1, "words": "a"}, "row 2: feature 'x' has 3 values, not 2; the signature takes float32"),
        (
            {"x": [1, 2], "n": 1, "words": ["a", "b"]},
            "row 2: feature 'words' has 2 values, not 1 like the first example of its batch",
        ),
        ({"x": [1, 2], "n": None, "words": "a"}, "row 2: feature 'n' is missing; the signature takes int32"),
        ({"x": [1, 2], "words": "a"}, "row 2: feature 'n' is missing; the signature takes int32"),
        ({"x": [1, 2], "n": 1.5, "words": "a"}, "row 2: feature 'n' is 1.5; the model takes whole numbers."),
        (
            {"x": [1, 2], "n": 2**31, "words": "a"},
            "row 2: feature 'n' has the value 2147483648; the signature takes int32",
        ),
        ({"x": "?", "n": 1, "words": "a"}, "row 2: feature 'x' is '?'; the model takes numbers."),
        ({"x": [1, 2], "n": 1, "words": 5}, "row 2: feature 'words' is 5; the model takes strings."),
        ([1], "line 2: each line must be a JSON object"),
    ],
)
def test_invalid_values_are_reported_with_file_row_and_feature(
    ask: Ask, tmp_path: pathlib.Path, line: Any, message: str
) -> None:
    good = {"x": [1, 2], "n": 1, "words": "a"}
    (tmp_path / "data.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in (good, line, good)))
    (tmp_path / "out.jsonl").write_text("of before")
    with pytest.raises(InputError) as error:
        ask(tmp_path / "data.jsonl", signature="named")
    assert f"{tmp_path}/data.jsonl, {message}" in str(error.value)
    assert (tmp_path / "out.jsonl").read_text() == "of before"


def test_a_missing_column_is_named_with_the_nearest_one(ask: Ask, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"x": [1, 2], "n": 1, "wodrs": "a"}\n')
    message = r"no feature 'words'.* available features: n, wodrs, x\. Did you mean 'wodrs'\?"
    with pytest.raises(InputError, match=message):
        ask(tmp_path / "data.jsonl", signature="named")


def test_a_file_with_another_separator_is_explained(ask: Ask, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data.csv").write_text("x;n;words\n1;1;a\n")
    for signature in ("named", "serving_default"):
        with pytest.raises(InputError, match=r"x;n;words\. Its values are separated by ';'; separate them by commas\."):
            ask(tmp_path / "data.csv", signature=signature)


def test_damaged_files_are_named(ask: Ask, tmp_path: pathlib.Path) -> None:
    cases = {
        "short.csv": (b"x,n\n1,2\n3\n", r"short.csv, row 2 \(line 3\): it has 1 value, but the header has 2 columns"),
        "twice.csv": (b"x,x\n1,2\n", r"twice.csv: its first line must contain the column names, each once"),
        "quote.csv": (b'x,n\n1,"2\n', r"quote.csv, line 2: not valid CSV: unexpected end of data"),
        "text.tfrecord": (
            b"x,n\n1,2\n3,4\n5,6\n",
            r"text.tfrecord is not a TFRecord file, or is damaged from its first byte",
        ),
        "cut.csv": (
            gzip.compress(b"x\n" + os.urandom(999).hex().encode())[:-99],
            "cut.csv is a truncated or damaged gzip file",
        ),
        "broken.jsonl": (b'{"x": 1}\n{"x": \n', r"broken.jsonl, line 2: each line must be a JSON object"),
    }
    for name, (content, message) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            ask(tmp_path / name)


def test_an_example_that_the_model_fails_on_is_named(ask: Ask, tmp_path: pathlib.Path) -> None:
    records = [example(x=[1.0]), example(x=[1.0]), example(n=[1]), example(x=[1.0])]
    write_records(tmp_path / "data", records)
    with pytest.raises(InputError) as error:
        ask(tmp_path / "data")
    assert f"{tmp_path}/data, row 3: the signature 'serving_default' fails: InvalidArgumentError" in str(error.value)
    assert "Feature: x (data type: float) is required but could not be found." in str(error.value)
    assert "[[" not in str(error.value)


def test_raw_examples_for_a_model_of_transformed_ones_are_reported_with_a_remedy(
    ask: Ask, tmp_path: pathlib.Path
) -> None:
    write_records(tmp_path / "raw", [example(n=[1])])
    with pytest.raises(InputError) as error:
        ask(tmp_path / "raw")
    assert f"{tmp_path}/raw, row 1: no feature x, which the signature 'serving_default' requires; " in str(error.value)
    assert "available features: n. If" in str(error.value)
    assert "pass Transform's output (transformed_examples)" in str(error.value)


@pytest.mark.parametrize(("place", "run"), [("model", "model_run"), ("model/7", "model_run/7")])
def test_the_signature_of_the_evaluation_plan_is_used(
    model: pathlib.Path, tmp_path: pathlib.Path, place: str, run: str
) -> None:
    """It is in the run record beside the model of `train` or of the Trainer component."""
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "Format-Serving").symlink_to(model)
    (tmp_path / run).mkdir(parents=True)
    plan = EvaluationPlan("named", takes_tensors=True)
    (tmp_path / run / "run.json").write_text(json.dumps({"evaluation_plan": plan.to_json()}))
    (tmp_path / "data.jsonl").write_text('{"x": [1, 2], "n": 2, "words": "a"}\n')
    line = ["--examples", str(tmp_path / "data.jsonl"), "--output", "-", "--model", str(tmp_path / place)]
    assert CliRunner().invoke(predict_command, line).output.splitlines()[0] == '{"words": ["a"], "y": [2.0, 4.0]}'


def test_fixed_batches_and_none_at_all(ask: Ask, tmp_path: pathlib.Path) -> None:
    (tmp_path / "x.jsonl").write_text("".join(f'{{"x": [{i}, {i}], "n": {i}}}\n' for i in range(5)))
    assert [row["y"] for row in ask(tmp_path / "x.jsonl", signature="one")] == [[3.0 * i] * 2 for i in range(5)]
    assert [row["y"] for row in ask(tmp_path / "x.jsonl", signature="scalar")] == [1, 2, 3, 4, 5]
    (tmp_path / "x.csv").write_text("x\n" + "".join(f"{i / 10}\n" for i in range(6)))
    rows = ask(tmp_path / "x.csv", signature="four")  # the output of the second batch lacks two examples
    assert [row["y"] for row in rows] == [i / 10 / 2 for i in range(6)]


def test_one_string_input_without_a_parser(ask: Ask, tmp_path: pathlib.Path) -> None:
    (tmp_path / "text.csv").write_bytes(b"text,n\nabc,1\n\xff,2\n")
    rows = [{"length": 3, "text": "abc"}, {"length": 1, "text": {"b64": "/w=="}}]
    assert ask(tmp_path / "text.csv", signature="text") == rows
    write_records(tmp_path / "text", [example(text=[b"abc"]), example(text=[b"\xff"])])
    assert ask(tmp_path / "text", signature="text") == rows
    # No feature has the name of the input, so the input is the whole record.
    write_records(tmp_path / "raw", [b"not a tf.Example", b"\xff"])
    assert ask(tmp_path / "raw", signature="text")[0] == {"length": 16, "text": "not a tf.Example"}


def test_an_input_of_strings_gets_the_only_feature_with_strings(ask: Ask, tmp_path: pathlib.Path) -> None:
    """Neither the whole record, which the graph does not parse, nor a guess among several features."""
    (tmp_path / "a.csv").write_text("i,f,title\n1,1,1\n2,2,2\n")
    (tmp_path / "b.csv").write_text("i,f,title\n2,2.5,1_0\n")
    rows = ask(tmp_path / "a.csv", tmp_path / "b.csv", signature="text")
    assert [row["text"] for row in rows] == ["1", "2", "1_0"]  # a string, as the last of all rows shows
    (tmp_path / "c.csv").write_text("i,body,title\n2,b,t\n")
    with pytest.raises(InputError, match=r"c.csv, row 1: no feature 'text', .*takes \(its inputs: text \(string\)\); "):
        ask(tmp_path / "c.csv", signature="text")


@pytest.mark.parametrize(
    ("later", "named"), [({"title": [b"a"], "text": [b"b"]}, "text"), ({"title": [b"a"], "body": [b"b"]}, "body")]
)
def test_later_examples_with_more_strings_are_an_error(
    ask: Ask, tmp_path: pathlib.Path, later: dict[str, Any], named: str
) -> None:
    write_records(tmp_path / "data", [*[example(title=[b"a"])] * 600, example(**later)])
    with pytest.raises(InputError, match=rf"data, row \d+: the first examples have only .*'title'.* {named}, too"):
        ask(tmp_path / "data", signature="text")


def test_json_lines_are_strict_json(ask: Ask, tmp_path: pathlib.Path) -> None:
    (tmp_path / "x.csv").write_text("x\n-1\n0\n1\ninf\n")
    assert ask(tmp_path / "x.csv", signature="odd") == [  # log(-1), log(0), log(1), log(inf)
        {"is_small": True, "log": "NaN"},
        {"is_small": True, "log": "-Infinity"},
        {"is_small": False, "log": 0.0},
        {"is_small": False, "log": "Infinity"},
    ]


def test_csv_has_a_column_for_each_value(ask: Ask, tmp_path: pathlib.Path) -> None:
    lines = [{"x": [0.1, i], "n": 1, "words": [f"a, {i}"]} for i in range(3)]
    (tmp_path / "x.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    path = ask(tmp_path / "x.jsonl", signature="named", batch_size=2, output="out.csv")
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["words", "y_0", "y_1"],
            ["a, 0", "0.1", "0.0"],
            ["a, 1", "0.1", "1.0"],
            ["a, 2", "0.1", "2.0"],
        ]
    (tmp_path / "wide.jsonl").write_text(json.dumps({"x": [1, 2], "n": 1, "words": ["a", "b"]}))
    with pytest.raises(InputError, match=r"differ in length between batches.* first words, y_0, y_1, then words_0"):
        ask(tmp_path / "x.jsonl", tmp_path / "wide.jsonl", signature="named", output="out.csv")


FORMULAS = (
    "=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\u00a0=1", "\ufeff=1", "\x00=1", "\uff1d1",
    "\uff0b1", "\uff0d1", "\uff20A", "\ufe661", "=", "-", "--1", "-1.5 EUR", "'=1", "''=1", "\ttext", "=1,2;=3",
    "=a\n=b\r\nc", '=HYPERLINK("http://a/?b="&A1,"c")',
)  # fmt: skip
TEXTS = (
    "", "text", "-1.5", "+3", "-1e5", ".5", "-.5", "-007", "a=1", "a\n=1", "a\r=1", "'text", "'", "1-2", "é", '"=1"',
)  # fmt: skip


def test_texts_that_are_formulas_are_escaped_by_option(ask: Ask, tmp_path: pathlib.Path) -> None:
    texts = [*FORMULAS, *TEXTS]
    lines = [{"text": text, "=id": text, "x": -1.5, "n": -2} for text in texts]
    (tmp_path / "x.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    flags = {"signature": "text", "with_inputs": True, "batch_size": 7}

    def rows(**more: object) -> list[list[str]]:
        with ask(tmp_path / "x.jsonl", output="out.csv", **flags, **more).open(newline="") as file:
            return list(csv.reader(file))

    assert rows() == [
        ["input_text", "=id", "x", "n", "length", "text"],
        *([text, text, "-1.5", "-2", str(len(text.encode())), text] for text in texts),
    ]
    expected = {text: f"'{text}" for text in FORMULAS} | {text: text for text in TEXTS}
    assert rows(escape_formulas=True) == [
        ["input_text", "'=id", "x", "n", "length", "text"],
        *([expected[text], expected[text], "-1.5", "-2", str(len(text.encode())), expected[text]] for text in texts),
    ]


@pytest.mark.parametrize("output", ["out.jsonl", "out.parquet", "out.tfrecord", "-"])
def test_formulas_are_escaped_in_csv_only(ask: Ask, tmp_path: pathlib.Path, output: str) -> None:
    (tmp_path / "x.csv").write_text("x\n1\n")
    with pytest.raises(InputError, match=r"--escape-formulas: --output .* is not CSV"):
        ask(tmp_path / "x.csv", output=output, escape_formulas=True)


def tf_features(path: pathlib.Path) -> list[Any]:
    import tensorflow as tf

    dataset = tf.data.TFRecordDataset(str(path), "GZIP" if path.suffix == ".gz" else "")
    return [tf.train.Example.FromString(one.numpy()).features.feature for one in dataset]


@pytest.mark.parametrize("ending", [".tfrecord", ".tfrecord.gz"])
def test_tf_records_of_predictions(ask: Ask, tmp_path: pathlib.Path, ending: str) -> None:
    write_records(tmp_path / "data", [example(x=[1.5], n=[i], words=[b"\xff"]) for i in range(3)])
    path = ask(tmp_path / "data", batch_size=2, output=f"out{ending}")
    features = tf_features(path)
    assert [feature["n"].int64_list.value[:] for feature in features] == [[0], [1], [2]]
    assert features[0]["y"].float_list.value[:] == [4.5]
    assert features[0]["words"].bytes_list.value[:] == [b"\xff"]


JOINED = [{"key": "007", "n": 1, "x": 0.5}, {"key": "010", "n": None, "x": 1.5}, {"key": "9a", "n": 3, "x": -2.0}]


def joined_examples(folder: pathlib.Path, kind: str) -> pathlib.Path:
    path = folder / f"joined.{kind}"
    if kind == "tfrecord":
        rows = [{name: [value] for name, value in row.items() if value is not None} for row in JOINED]
        return write_records(path, [example(**{**row, "key": [row["key"][0].encode()]}) for row in rows])
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(JOINED), path)
    elif kind == "csv":
        path.write_text("key,n,x\n" + "".join(f"{row['key']},{row['n'] or ''},{row['x']}\n" for row in JOINED))
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in JOINED))
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "tfrecord"])
def test_columns_of_the_examples_are_written_first(ask: Ask, tmp_path: pathlib.Path, kind: str) -> None:
    path = joined_examples(tmp_path, kind)
    rows = ask(path, id=["key"], batch_size=2)
    assert [list(row) for row in rows] == [["key", "n", "sum", "words", "y"]] * 3
    assert [row["key"] for row in rows] == ["007", "010", "9a"]  # text, although the first batch has only numbers
    rows = ask(path, id=["key"], with_inputs=True, batch_size=2)
    assert list(rows[0])[:3] == (["key", "input_n", "x"])  # n is also an output
    assert [[row["key"], row["input_n"], row["x"], row["y"]] for row in rows] == [
        ["007", 1, 0.5, 1.5],
        ["010", None, 1.5, 4.5],
        ["9a", 3, -2.0, -6.0],
    ]


@pytest.mark.parametrize("kind", ["csv", "parquet", "tfrecord"])
def test_tables_of_predictions_have_the_types_of_the_examples(ask: Ask, tmp_path: pathlib.Path, kind: str) -> None:
    path = ask(joined_examples(tmp_path, "csv"), with_inputs=True, id=["key"], batch_size=2, output=f"out.{kind}")
    if kind == "csv":
        assert path.read_text().splitlines()[:3] == [
            "key,input_n,x,n,sum,words,y",
            "007,1,0.5,1,0,,1.5",
            "010,,1.5,-1,0,,4.5",
        ]
    elif kind == "parquet":
        table = pq.read_table(path)
        assert [str(kind) for kind in table.schema.types[:4]] == ["string", "int64", "double", "int64"]
        assert table.to_pylist()[1] == {
            "key": "010",
            "input_n": None,
            "x": 1.5,
            "n": -1,
            "sum": 0,
            "words": "",
            "y": 4.5,
        }
        assert pq.ParquetFile(path).num_row_groups == 1  # not one for each batch
    else:
        features = tf_features(path)
        assert [one["key"].bytes_list.value[:] for one in features] == [[b"007"], [b"010"], [b"9a"]]
        assert [one["input_n"].int64_list.value[:] for one in features] == [[1], [], [3]]


def test_lists_and_objects_are_written_beside_predictions(ask: Ask, tmp_path: pathlib.Path) -> None:
    lines = [
        {"x": 1, "ids": [1], "more": {"a": [1]}, "mixed": 2, "raw": {"b64": "/w=="}},
        {"x": 2, "ids": [2, 3], "mixed": "é"},
    ]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = ask(tmp_path / "data.jsonl", with_inputs=True)
    names = ("ids", "more", "mixed", "raw")
    assert [[row[name] for name in names] for row in rows] == [
        [[1], '{"a": [1]}', "2", {"b64": "/w=="}],
        [[2, 3], None, "é", None],
    ]
    table = pq.read_table(ask(tmp_path / "data.jsonl", with_inputs=True, output="out.parquet"))
    assert table.select(["ids", "mixed", "raw"]).to_pylist() == [
        {"ids": [1], "mixed": "2", "raw": '{"b64": "/w=="}'},
        {"ids": [2, 3], "mixed": "é", "raw": None},
    ]
    rows = list(csv.DictReader(ask(tmp_path / "data.jsonl", with_inputs=True, output="out.csv").open()))
    assert [(row["ids"], row["mixed"], row["raw"]) for row in rows] == [
        ("[1]", "2", '{"b64": "/w=="}'),
        ("[2, 3]", "é", ""),
    ]


@pytest.mark.parametrize(("kind", "what"), [("csv", "column"), ("parquet", "column"), ("tfrecord", "feature")])
def test_an_unknown_id_names_the_known_ones(ask: Ask, tmp_path: pathlib.Path, kind: str, what: str) -> None:
    with pytest.raises(
        InputError, match=rf"--id kye: .*{kind} has no {what} .*; it has key, n, x\. Did you mean 'key'\?"
    ):
        ask(joined_examples(tmp_path, kind), id=["kye"])
    (tmp_path / "other.csv").write_text("n,x\n1,2\n")
    with pytest.raises(InputError, match=r"--id key: .*other.csv has no column of this name; it has n, x\."):
        ask(joined_examples(tmp_path, kind), tmp_path / "other.csv", id=["key"])


def test_many_small_batches_in_parquet(ask: Ask, tmp_path: pathlib.Path) -> None:
    (tmp_path / "x.csv").write_text("x\n" + "".join(f"{i}\n" for i in range(600)))
    path = ask(tmp_path / "x.csv", signature="odd", id=["x"], batch_size=1, output="out.parquet")
    assert pq.read_table(path)["x"].to_pylist() == list(range(600))
    assert pq.ParquetFile(path).num_row_groups == 1


def test_lists_of_outputs_in_parquet(ask: Ask, tmp_path: pathlib.Path) -> None:
    lines = [{"x": [0.1, i], "n": 1, "words": ["a"] * (1 + i)} for i in range(2)]
    for i, line in enumerate(lines):
        (tmp_path / f"{i}.jsonl").write_text(json.dumps(line))
    table = pq.read_table(ask(tmp_path / "1.jsonl", signature="named", output="out.parquet"))
    assert table.to_pylist() == [{"words": ["a", "a"], "y": [0.1, 1.0]}]
    with pytest.raises(InputError, match=r"first words \(string\), .* then words \(list<.*Use \.jsonl or \.tfrecord"):
        ask(tmp_path / "0.jsonl", tmp_path / "1.jsonl", signature="named", output="out.parquet")
    write_records(tmp_path / "none", [])
    assert len(pq.read_table(ask(tmp_path / "none", output="out.parquet"))) == 0


def test_a_damaged_parquet_file_is_named(ask: Ask, tmp_path: pathlib.Path) -> None:
    path = joined_examples(tmp_path, "parquet")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"joined.parquet: not a Parquet file, or damaged"):
        ask(path)


def test_values_of_parquet_files(ask: Ask, tmp_path: pathlib.Path) -> None:
    """Models take numbers, bytes and lists; dates and decimals are text, as in CSV."""
    path = tmp_path / "x.parquet"
    day, price = datetime.date(2026, 1, 31), decimal.Decimal("1.50")
    row = {"x": 1, "ids": [1, 2], "words": [b"\xff"], "day": day, "price": price, "is_new": True}
    pq.write_table(pa.Table.from_pylist([row, {}]).slice(0, 1), path)
    assert ask(path, with_inputs=True) == [
        {"x": 1, "ids": [1, 2], "input_words": {"b64": "/w=="}, "day": "2026-01-31", "price": "1.50", "is_new": 1}
        | {"n": -1, "sum": 3, "words": {"b64": "/w=="}, "y": 3.0}
    ]
    pq.write_table(pa.table({"x": pa.array([], pa.float32())}), path)
    assert ask(path, id=["x"]) == []
    pq.write_table(pa.table([[1.0], [2.0]], names=["x", "x"]), path)
    with pytest.raises(InputError, match=r"x.parquet has 2 columns named 'x'; column names must be unique"):
        ask(path)


def test_the_predicted_class_is_written_beside_the_scores(ask: Ask, tmp_path: pathlib.Path) -> None:
    (tmp_path / "x.csv").write_text("x\n-1\n2\n")
    assert [row["predicted_class"] for row in ask(tmp_path / "x.csv", signature="scores")] == [1, 0]


@pytest.mark.parametrize(
    ("place", "run", "folder"),
    [
        ("model", "model_run", "."),
        ("Trainer/model/7", "Trainer/model_run/7", "serving"),
        ("Trainer/model/7", "Trainer/model_run/7", "."),
    ],
    ids=["train", "pushed", "pipeline root"],
)
def test_the_evaluation_plan_tells_which_outputs_are_scores(
    model: pathlib.Path, tmp_path: pathlib.Path, place: str, run: str, folder: str
) -> None:
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "Format-Serving").symlink_to(model)
    if place != "model":
        shutil.copytree(model, tmp_path / "serving" / "1795279056")
    (tmp_path / run).mkdir(parents=True)
    plan = EvaluationPlan("scores", outputs=(OutputPlan("half", BINARY, scores=LOGITS),))
    (tmp_path / run / "run.json").write_text(json.dumps({"evaluation_plan": plan.to_json()}))
    (tmp_path / "x.csv").write_text("x\n-1\n0.1\n")
    line = ["--examples", str(tmp_path / "x.csv"), "--output", "-", "--model", str(tmp_path / folder)]
    lines = CliRunner().invoke(predict_command, line).output.splitlines()[:2]
    assert [json.loads(line)["predicted_class"] for line in lines] == [0, 1]


def test_progress_with_the_time_left_on_a_terminal(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data.csv").write_text("x\n" + "1\n" * 9)
    line = [sys.executable, "-m", "generic_trainer.cli.main", "predict", "--model", str(model)]
    line += [
        "--examples",
        str(tmp_path / "data.csv"),
        "--output",
        str(tmp_path / "out.csv"),
        "--batch-size",
        "3",
        "--id",
        "x",
    ]
    shown, terminal = os.openpty()
    process = subprocess.Popen(line, stderr=terminal, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"})
    os.close(terminal)
    text = b""
    with contextlib.suppress(OSError):  # at the end, on Linux
        while part := os.read(shown, 4096):
            text += part
    os.close(shown)
    assert process.wait() == 0, text.decode()
    assert b"Reading column types" in text
    assert b"Predicting" in text
    assert b"100%" in text


def test_an_output_without_a_value_for_each_example_is_named(ask: Ask, tmp_path: pathlib.Path) -> None:
    (tmp_path / "x.csv").write_text("x\n1\n2\n")
    with pytest.raises(InputError, match=r"'unbatched' returns total of shape \(\) for 2 examples"):
        ask(tmp_path / "x.csv", signature="unbatched")


def test_empty_files_give_no_predictions(ask: Ask, tmp_path: pathlib.Path) -> None:
    write_records(tmp_path / "data", [])
    assert ask(tmp_path / "data") == []


def test_an_unknown_signature_lists_the_available_ones(ask: Ask, tmp_path: pathlib.Path) -> None:
    (tmp_path / "x.csv").write_text("x\n1\n")
    with pytest.raises(InputError) as error:
        ask(tmp_path / "x.csv", signature="nmaed")
    assert (
        "no signature 'nmaed'; it has four, named, odd, one, scalar, scores, serving_default, text, unbatched. "
        in str(error.value)
    )
    assert str(error.value).endswith("Did you mean 'named'?")


def test_the_default_signature(ask: Ask, tmp_path: pathlib.Path) -> None:
    import tensorflow as tf

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def double(self, x: Any) -> dict[str, Any]:
            return {"y": 2 * x}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def triple(self, x: Any) -> dict[str, Any]:
            return {"y": 3 * x}

    (tmp_path / "x.csv").write_text("x\n1\n")
    built = Model()

    def saved(name: str, **signatures: Any) -> pathlib.Path:
        tf.saved_model.save(built, str(tmp_path / name), signatures=signatures)
        return tmp_path / name

    line = ["--examples", str(tmp_path / "x.csv"), "--output", "-", "--model"]
    predict = CliRunner().invoke(predict_command, [*line, str(saved("a", predict=built.triple, other=built.double))])
    assert predict.output.splitlines()[0] == '{"y": 3.0}'
    only = CliRunner().invoke(predict_command, [*line, str(saved("b", anything=built.double))])
    assert only.output.splitlines()[0] == '{"y": 2.0}'
    # As in exports of DLRover confs: the same inputs as tf.Examples, with missing values.
    both = saved("d", **{"serving_default": built.double, "examples:serving_default": built.triple})
    assert CliRunner().invoke(predict_command, [*line, str(both)]).output.splitlines()[0] == '{"y": 3.0}'
    with pytest.raises(InputError, match=r"it has double, triple. Select one with --signature"):
        ask(tmp_path / "x.csv", model=saved("c", double=built.double, triple=built.triple))


@pytest.mark.parametrize(
    "place", ["Format-Serving", "serving_model_dir", "model/Format-Serving", "17", "serving/17", "export/a/3"]
)
def test_the_model_is_found_where_trainers_and_pushers_leave_it(
    ask: Ask, model: pathlib.Path, tmp_path: pathlib.Path, place: str
) -> None:
    folder = tmp_path / "around"
    (folder / place).parent.mkdir(parents=True)
    (folder / place).symlink_to(model)
    if place.endswith("17"):
        older = (folder / place).with_name("9")  # although it is alphabetically later
        older.mkdir()
        (older / "saved_model.pb").write_bytes(b"")
    (tmp_path / "data.csv").write_text("x\n1\n")
    assert ask(tmp_path / "data.csv", model=folder)[0]["y"] == 3.0


def test_an_op_of_another_package_is_named(ask: Ask, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Renames an op in a saved graph, as seen by a process without the package."""
    from tensorflow.core.protobuf import saved_model_pb2

    (tmp_path / "data.csv").write_text("x\n1\n")
    content = saved_model_pb2.SavedModel.FromString((model / "saved_model.pb").read_bytes())
    [stripped] = [op for op in content.meta_graphs[0].meta_info_def.stripped_op_list.op if op.name == "Log"]
    (tmp_path / "ops").mkdir()
    stripped.name = "Frobnicate"
    (tmp_path / "ops" / "saved_model.pb").write_bytes(content.SerializeToString())
    with pytest.raises(InputError, match=r"the op 'Frobnicate', which no installed package registers\..*--op-package"):
        ask(tmp_path / "data.csv", model=tmp_path / "ops")
    with pytest.raises(InputError, match=r"--op-package no_such_package: no module named 'no_such_package'"):
        ask(tmp_path / "data.csv", op_package="no_such_package")


def test_a_damaged_model_is_named(ask: Ask, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data.csv").write_text("x\n1\n")
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "saved_model.pb").write_bytes((model / "saved_model.pb").read_bytes())
    with pytest.raises(InputError, match=r"cut cannot be loaded: "):
        ask(tmp_path / "data.csv", model=tmp_path / "cut")
    (tmp_path / "cut" / "saved_model.pb").write_bytes((model / "saved_model.pb").read_bytes()[:999])
    with pytest.raises(InputError, match=r"cut is truncated or corrupted, "):
        ask(tmp_path / "data.csv", model=tmp_path / "cut")


def test_a_keras_export(ask: Ask, tmp_path: pathlib.Path) -> None:
    import numpy as np
    import tensorflow as tf

    inputs = {name: tf.keras.Input([1], name=name) for name in ("a", "b")}
    joined = tf.keras.layers.Concatenate()([inputs["a"], inputs["b"]])
    keras_model = tf.keras.Model(inputs, tf.keras.layers.Dense(2, name="scores")(joined))
    keras_model.export(str(tmp_path / "keras"))
    (tmp_path / "data.csv").write_text("b,a\n1,2\n3,4\n5,6\n")
    rows = ask(tmp_path / "data.csv", model=tmp_path / "keras", batch_size=2)
    expected = keras_model({"a": np.array([[2.0], [4], [6]], "f"), "b": np.array([[1.0], [3], [5]], "f")}).numpy()
    [values] = zip(*(row.values() for row in rows), strict=True)
    np.testing.assert_allclose(values, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--model", "/nowhere"], "--model /nowhere: there is no such folder."),
        (["--model", "."], "--model .: no SavedModel in it, nor in its Format-Serving"),
        (["--model", "."], "or a folder with a numeric name. It contains data.csv, folder, folder.csv."),
        (["--examples", "/nowhere/*"], "--examples: no file matches '/nowhere/*'."),
        (["--examples", "folder/"], "no file matches 'folder/'. It is a folder; use 'folder/*'."),
        (["--output", "out.txt"], "--output out.txt: its name must end in .jsonl, .csv, .parquet, .tfrecord"),
        (["--output", "data.csv"], "--output data.csv is one of the input files."),
        (["--output", "folder.csv"], "--output folder.csv: this is a folder"),
    ],
)
def test_arguments_are_checked_before_tensorflow_is_imported(
    arguments: list[str], text: str, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "data.csv").write_text("x\n1\n")
    for folder in ("folder", "folder.csv"):
        (tmp_path / folder).mkdir()
    line = ["predict", "--model", str(model), "--examples", "data.csv", "--output", "out.csv", *arguments]
    program = f"""
        import sys
        from generic_trainer.cli.main import _exit_code
        sys.argv[1:] = {line!r}
        code = _exit_code()
        assert "tensorflow" not in sys.modules
        sys.exit(code)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert text in done.stderr.splitlines()[-1]


def test_standard_output_holds_predictions_alone(command: Command, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data.csv").write_text("x\n1\n2\n")
    done = command("predict", "--model", model, "--examples", tmp_path / "data.csv", "--output", "-")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["y"] for line in done.stdout.splitlines()] == [3.0, 6.0]
    assert done.stderr.splitlines()[-1] == "2 predictions of the signature 'serving_default': standard output"


def running(model: pathlib.Path, examples: pathlib.Path, output: object) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "generic_trainer.cli.main", "predict", "--model", model, "--examples", examples]
    line = [*map(str, line), "--output", str(output), "--batch-size", "1"]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.thorough
@pytest.mark.slow
def test_ctrl_c_and_a_closed_pipe_leave_nothing_behind(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data.csv").write_text("x\n" + "1\n" * 200_000)
    process = running(model, tmp_path / "data.csv", tmp_path / "out" / "predictions.csv")
    piped = running(model, tmp_path / "data.csv", "-")
    deadline = time.monotonic() + 120
    while not any(path.stat().st_size for path in (tmp_path / "out").glob("*.part-*")):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert list((tmp_path / "out").iterdir()) == []
    assert piped.stdout.readline().startswith('{"n": -1')
    piped.stdout.close()  # as `head -1` does
    assert piped.wait(60) == 141
    assert "Traceback" not in piped.stderr.read()
    piped.stderr.close()


@pytest.mark.thorough
@pytest.mark.slow
def test_an_estimators_export(command: Command, tmp_path: pathlib.Path) -> None:
    program = f"""
        from generic_trainer.executors.estimator import restore_estimator
        restore_estimator()
        import json
        import tensorflow as tf
        columns = [tf.feature_column.numeric_column("x"), tf.feature_column.indicator_column(
            tf.feature_column.categorical_column_with_vocabulary_list("color", ["red", "blue"]))]
        estimator = tf.estimator.LinearClassifier(columns, config=tf.estimator.RunConfig(tf_random_seed=1))

        def input_fn():
            features = {{"x": [[1.0], [2.0], [3.0]], "color": [["red"], ["blue"], ["red"]]}}
            return tf.data.Dataset.from_tensors((features, [[0], [1], [1]])).repeat(20)

        estimator.train(input_fn)
        spec = tf.feature_column.make_parse_example_spec(columns)
        receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
        estimator.export_saved_model({str(tmp_path / "export" / "final")!r}, receiver)
        answers = [answer["logistic"][0] for answer in estimator.predict(lambda: input_fn().take(1))]
        print(json.dumps([float(answer) for answer in answers]))
    """
    line = [sys.executable, "-c", textwrap.dedent(program)]
    trained = subprocess.run(line, capture_output=True, text=True, check=False)
    assert trained.returncode == 0, trained.stderr[-3000:]
    (tmp_path / "data.csv").write_text("color,x,label\nred,1,0\nblue,2,1\nred,3,1\n")
    files = ["--model", tmp_path, "--examples", tmp_path / "data.csv"]
    done = command("predict", *files, "--output", tmp_path / "out.jsonl", "--signature", "predict")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["logistic"][0] for row in rows] == pytest.approx(json.loads(trained.stdout.splitlines()[-1]), rel=1e-5)
    assert rows[0]["classes"] in (["0"], ["1"])
    done = command("predict", *files, "--output", "-")
    scored = [json.loads(line) for line in done.stdout.splitlines()]
    assert scored[0]["classes"] == ["0", "1"]
    assert [row["predicted_class"] for row in scored] == [row["classes"][0] for row in rows]
