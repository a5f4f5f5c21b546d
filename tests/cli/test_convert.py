"""`generic-trainer convert`: the added lines, and that a converted module trains as before."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from generic_trainer.cli.convert import convert as convert_command
from generic_trainer.executors.dialects.conversion import convert
from generic_trainer.executors.dialects.estimators.dialect import find_estimator_use
from generic_trainer.executors.errors import InputError, ModuleError

Command = Callable[..., subprocess.CompletedProcess[str]]
TRAINER_FN = "def trainer_fn(fn_args, schema):\n    raise SystemExit  # never executed\n"
ESTIMATORS = """\
from zoo import other
class Mine(tf.estimator.Estimator): 1
wide = tf.estimator.LinearClassifier([])
deep = tf1.estimator.DNNClassifier([4], [])
def net_fn(features, labels): 1
def make(config):
    found = Mine(config)
    return found
def input_fn(fn_args):
    def DNNClassifier(): return 1
    return tf.data.Dataset()
"""
CONF = "class TrainConf:\n    classifier_class = train_set = eval_set = 1\n"


def run(*arguments: object) -> Result:
    path = list(sys.path)
    try:
        return CliRunner().invoke(convert_command, list(map(str, arguments)))
    finally:
        sys.path[:] = path


@pytest.fixture
def file(tmp_path: pathlib.Path) -> Callable[[str | bytes], pathlib.Path]:
    def write(content: str | bytes, name: str = "m.py") -> pathlib.Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


File = Callable[..., pathlib.Path]


def test_it_shows_a_diff_and_changes_nothing(file: File) -> None:
    path = file(TRAINER_FN)
    done = run(path)
    assert done.exit_code == 0
    name = os.path.relpath(path)
    assert done.stdout == textwrap.dedent(f'''\
        --- {name}
        +++ {name}
        @@ -1,2 +1,13 @@
        +from generic_trainer import prepare_for
        +
        +prepare_for("trainer_fn", __name__)
        +
         def trainer_fn(fn_args, schema):
             raise SystemExit  # never executed
        +
        +
        +def run_fn(fn_args):
        +    """Trains with trainer_fn; see generic_trainer.run_as."""
        +    from generic_trainer import run_as
        +
        +    return run_as("trainer_fn", __name__, fn_args)
    ''')
    assert path.read_text() == TRAINER_FN


def test_it_writes_the_shown_diff_once(file: File, tmp_path: pathlib.Path) -> None:
    path = file(TRAINER_FN)
    path.chmod(0o640)
    shown = run(path)
    written = run(path, "--write")
    assert written.stdout == shown.stdout
    assert written.stderr == f"Wrote {path}.\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]
    assert find_estimator_use(str(path))[1] == "def trainer_fn"  # so the Estimator runtime is still restored
    once = path.read_text()
    with pytest.raises(InputError, match=r"m.py, line 9: it already has a run_fn"):
        raise run(path, "--write").exception
    assert path.read_text() == once


PREPARE = b'from generic_trainer import prepare_for\n\nprepare_for("model_fn", __name__)\n'


@pytest.mark.parametrize(
    ("start", "before_call", "code", "between"),
    [
        (b"", b"", b"def model_fn(features): pass", b"\n\n\n"),
        (b"", b"", b"@decorated\ndef model_fn(features): pass\n", b"\n\n"),
        (b"# of us\n\n", b"", b"def model_fn(features): pass\n\n\n\n", b""),
        (
            b'\xef\xbb\xbf"""Doc."""\r\nfrom __future__ import annotations\r\n',
            b"\r\n",
            b"\r\ndef model_fn(): pass\r\n",
            b"\r\n\r\n",
        ),
        (b"\xef\xbb\xbf", b"", b"def model_fn(): pass\n", b"\n\n"),
        (b"# -*- coding: latin-1 -*-\n\n", b"", b"NAME = '\xe9'\nmodel_fn = lambda features: 1\n", b"\n\n"),
        (b'#!/bin/python\n"""Doc\n\nand more."""\n', b"\n", b"from x import *; model_fn = 1\n", b"\n\n"),
        (b"", b"", b"try:\n    from x import model_fn\nexcept ImportError:\n    raise\n", b"\n\n"),
    ],
)
def test_the_bytes_of_files_are_unchanged(
    file: File, start: bytes, before_call: bytes, code: bytes, between: bytes
) -> None:
    path = file(start + code)
    convert(str(path)).write()
    after = path.read_bytes()
    ends = b"\r\n" if b"\r\n" in start else b"\n"
    blank = b"" if code.startswith(b"\r\n") else ends
    added = before_call + PREPARE.replace(b"\n", ends) + blank
    assert after.startswith(start + added + code + between + b"def run_fn(fn_args):")
    assert after.endswith(b"\n") == code.endswith(b"\n")
    assert after.count(b"\r\n") == (after.count(b"\n") if ends == b"\r\n" else 0)
    compile(after, path, "exec")
    assert b'return run_as("model_fn", __name__, fn_args)' in after


@pytest.mark.parametrize("content", [TRAINER_FN, TRAINER_FN.rstrip("\n"), TRAINER_FN.replace("\n", "\r\n")])
def test_patch_accepts_the_diff(file: File, tmp_path: pathlib.Path, content: str) -> None:
    path = file(content)
    conversion = convert(str(path))
    (tmp_path / "change.diff").write_bytes(conversion.diff())
    subprocess.run(["patch", "--binary", str(path), tmp_path / "change.diff"], check=True, capture_output=True)
    assert path.read_bytes() == conversion.after


@pytest.mark.parametrize(
    ("source", "arguments", "line"),
    [
        ("def make(fn_args, schema): pass", ["--function", "make"], '"trainer_fn", __name__, fn_args, function="make"'),
        ("def net(features, labels): pass", ["--function", "net"], '"model_fn", __name__, fn_args, function="net"'),
        ("def model_fn(): 1\ndef trainer_fn(): 1", ["--function", "model_fn"], '"model_fn", __name__, fn_args'),
        ("def build_estimator(): 1", [], '"model_fn", __name__, fn_args, function="build_estimator"'),
        (f"{CONF}class E(Estimator): 1\n", [], '"dlrover", __name__, fn_args, function="TrainConf"'),
        ("class C(Base): 1", ["--function", "C"], '"dlrover", __name__, fn_args, function="C"'),
        ("net = tf.estimator.DNNClassifier([4], [])", [], '"model_fn", __name__, fn_args, function="net"'),
        (f"{ESTIMATORS}", ["--function", "wide"], '"model_fn", __name__, fn_args, function="wide"'),
        (f"{ESTIMATORS}", ["--function", "make"], '"model_fn", __name__, fn_args, function="make"'),
        (f"{ESTIMATORS}", ["--function", "net_fn"], '"model_fn", __name__, fn_args, function="net_fn"'),
        (f"{ESTIMATORS}", ["--function", "Mine"], '"model_fn", __name__, fn_args, function="Mine"'),
        (f"{ESTIMATORS}", ["--function", "other"], '"model_fn", __name__, fn_args, function="other"'),
        (
            "def make(config, params): return new(config)",
            ["--function", "make"],
            '"model_fn", __name__, fn_args, function="make"',
        ),
    ],
)
def test_the_function_can_be_selected(file: File, source: str, arguments: list[str], line: str) -> None:
    assert f"    return run_as({line})".encode() in convert(str(file(source)), *arguments[1:]).after


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        ("x = 1", [], "m.py has neither trainer_fn nor model_fn nor a DLRover conf, so no run_fn can be generated"),
        ("def trainr_fn(a, b): 1", [], "Did you mean 'trainr_fn'?"),
        ("class A:\n    def trainer_fn(a, b): 1", [], "has neither trainer_fn nor model_fn"),
        (
            "from elasticdl.python.common.constants import Mode\ndef custom_model(): 1",
            [],
            "m.py, line 1 (from elasticdl.python.common.constants import Mode): a module of the dialect elasticdl "
            "cannot be converted, and runs as it is: with `generic-trainer train`",
        ),
        ("from x import Modes", [], "so no run_fn can be generated. Set --function"),
        (
            f"{CONF}{CONF.replace('TrainConf', 'Other')}",
            [],
            "m.py defines TrainConf and Other. Choose one with --function",
        ),
        (ESTIMATORS, [], "m.py defines wide and deep and make and net_fn. Choose one with --function"),
        ("def trainer_fn(): 1\ndef model_fn(): 1", [], "defines trainer_fn and model_fn. Choose one with --function"),
        ("def trainer_fn(): 1", ["--function", "trainer"], "has no function 'trainer'. Did you mean 'trainer_fn'?"),
        (
            "def f(a, b, c): 1",
            ["--function", "f"],
            "m.py, line 1: f does not have the form trainer_fn(fn_args, schema) or",
        ),
        ("if 1:\n    run_fn = 1\ndef trainer_fn(): 1", [], "m.py, line 2: it already has a run_fn"),
        ("from x import y as run_fn, trainer_fn", [], "m.py, line 1: it already has a run_fn"),
        ("def trainer_fn(:\n", [], "m.py, line 1: this is not Python 3."),
        ("x = 1\0", [], "m.py, line 1: a NUL byte. The file is not Python source."),
    ],
)
def test_it_reports_why_nothing_is_added(file: File, source: str, arguments: list[str], message: str) -> None:
    path = file(source)
    done = run(path, "--write", *arguments)
    assert isinstance(done.exception, (InputError, ModuleError))
    assert message in str(done.exception)
    assert (done.stdout, path.read_text()) == ("", source)


def test_everything_that_is_missing_is_listed_with_the_lines_to_add(file: File) -> None:
    shown = run(file("def model_fn(features, labels): 1\n"))
    assert shown.exit_code == 0
    for line in ('LABEL_KEY = "…"', "def input_fn(file_pattern", "def serving_input_receiver_fn():"):
        assert f"    {line}" in shown.stderr
    assert not convert(str(file("from parts import *\nmodel = tf.estimator.LinearClassifier([])"))).lacks
    complete = "def input_fn(): 1\ndef model_fn(features, labels): 1\ndef serving_input_receiver_fn(): 1\n"
    assert not convert(str(file(complete))).lacks


ONLY_AS_MAIN = """\
def model_fn(features, labels): 1
if "__main__" == __name__ and True:
    wide = tf.estimator.LinearClassifier([])
"""
ONLY_ELSEWHERE = """\
import tensorflow as tf
if not tf:
    wide = tf.estimator.LinearClassifier([])
"""


def test_only_names_that_an_import_defines_are_offered(file: File) -> None:
    assert convert(str(file(ONLY_AS_MAIN))).function == "model_fn"
    message = r"neither trainer_fn .* does not run here; `generic-trainer script` runs it"
    with pytest.raises(InputError, match=message):
        convert(str(file(ONLY_AS_MAIN.partition("\n")[2])))
    path = file(ONLY_ELSEWHERE)
    done = run(path, "--write")
    assert isinstance(done.exception, ModuleError)
    assert "m.py has no 'wide' after its import, only in code that did not run" in str(done.exception)
    assert (done.stdout, path.read_text()) == ("", ONLY_ELSEWHERE)


@pytest.mark.skipif(importlib.util.find_spec("tensorflow_estimator") is None, reason="needs tensorflow-estimator")
def test_the_result_is_imported_with_what_it_needs_before_it_is_shown(file: File, tmp_path: pathlib.Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "parts.py").write_text("columns = []\n")
    imports = "from __future__ import annotations\nimport tensorflow as tf\nfrom .parts import columns\n"
    name = "package/m.py"
    shown = run(
        file(f"{imports}wide = tf.estimator.LinearClassifier(columns)\nassert 'tf_keras' in str(tf.keras.Model)", name)
    )
    assert '"model_fn", __name__, fn_args, function="wide"' in shown.stdout, shown.exception
    failed = run(file(f"{imports}wide = tf.estimator.LinearClassifier(column)\n", name), "--write")
    assert isinstance(failed.exception, NameError)
    assert 'm.py", line 4' in str(failed.exception.__cause__)
    assert failed.stdout == ""


def test_only_a_file_on_this_machine_is_converted(file: File, tmp_path: pathlib.Path) -> None:
    for reference in ("m@code.zip", "gs://bucket/m.py"):
        with pytest.raises(InputError, match="only a file on this machine can be converted"):
            convert(reference)
    with pytest.raises(ModuleError, match=r"n\.py does not exist\. Did you mean 'm\.py'\?"):
        convert(str(file(TRAINER_FN).with_name("n.py")))


def test_a_symbolic_link_is_preserved(file: File, tmp_path: pathlib.Path) -> None:
    (tmp_path / "link.py").symlink_to(file(TRAINER_FN))
    convert(str(tmp_path / "link.py")).write()
    assert (tmp_path / "link.py").is_symlink()
    assert "run_fn" in (tmp_path / "m.py").read_text()


def test_the_command_reports_in_one_line_without_tensorflow(command: Command, file: File) -> None:
    done = command("convert", file("x = 1\n"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    program = f"""
        import sys
        from generic_trainer.executors.dialects.conversion import convert
        convert({str(file(TRAINER_FN))!r})
        assert "tensorflow" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


def test_run_as_trains_with_the_installed_dialect(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    from types import ModuleType

    from generic_trainer import FnArgs, run_as

    user = ModuleType("user")
    user.__file__ = "user.py"
    user.train = lambda fn_args: {"loss": fn_args.train_steps}
    monkeypatch.setitem(sys.modules, "user", user)
    assert run_as("run_fn", "user", FnArgs(train_steps=3), function="train") == {"loss": 3}
    assert run_as("run_fn", user, FnArgs(train_steps=4), "train") == {"loss": 4}
    with pytest.raises(ModuleError, match=r"user.py has no function 'trainer_fn'"):
        run_as("trainer_fn", "user", FnArgs())
    with pytest.raises(InputError, match=r"'trainer_fun' is not installed; .* Did you mean 'trainer_fn'\?"):
        run_as("trainer_fun", "user", FnArgs())


IRIS_MODULE = """
    import tensorflow as tf

    NAMES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
    SPEC = {name: tf.io.FixedLenFeature([1], tf.float32) for name in NAMES}

    def _input_fn(patterns):
        data = tf.data.TFRecordDataset(tf.io.gfile.glob(patterns), "GZIP").repeat().batch(20)
        def parse(records):
            parsed = tf.io.parse_example(records, {**SPEC, "variety": tf.io.FixedLenFeature([1], tf.int64)})
            return parsed, parsed.pop("variety")
        return data.map(parse)

    def trainer_fn(fn_args, schema):
        assert [feature.name for feature in schema.feature][:4] == list(NAMES)
        columns = [tf.feature_column.numeric_column(name) for name in NAMES]
        receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(SPEC)
        config = tf.estimator.RunConfig(tf_random_seed=1, model_dir=fn_args.serving_model_dir)
        estimator = tf.estimator.DNNClassifier(
            [8], columns, n_classes=3, config=config, optimizer=lambda: tf.keras.optimizers.legacy.Adam(0.05)
        )
        return {
            "estimator": estimator,
            "train_spec": tf.estimator.TrainSpec(lambda: _input_fn(fn_args.train_files), max_steps=100),
            "eval_spec": tf.estimator.EvalSpec(
                lambda: _input_fn(fn_args.eval_files), steps=2, exporters=tf.estimator.FinalExporter("final", receiver)
            ),
        }
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_a_converted_module_trains_to_the_same_metrics(
    command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    path = module(IRIS_MODULE)
    records = []
    for out in (tmp_path / "before", tmp_path / "after"):
        data = ["--train-files", iris.train, "--eval-files", iris.eval, "--schema", iris.schema, "--output", out]
        done = command("train", path, *data)
        assert done.returncode == 0, done.stderr[-3000:]
        records.append(json.loads((out / "model_run" / "run.json").read_text()))
        if out.name == "before":
            assert command("convert", path, "--write").returncode == 0
    assert [record["dialect"]["name"] for record in records] == ["trainer_fn", "run_fn"]
    assert records[0]["metrics"]["eval"] == records[1]["metrics"]["eval"]
    assert records[0]["metrics"]["eval"]["accuracy"] > 0.8
    predicted = command("predict", "--model", tmp_path / "after", "--examples", iris.eval, "--output", "-")
    assert len(predicted.stdout.splitlines()) == iris.counts["eval"]
