"""Every invalid value of a path option is rejected with exit code 2 and a one-line error, before TFX is imported.

The tests run the command's function in this process, without network or credentials.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

from generic_trainer.cli import commands, main
from generic_trainer.cli.path_type import PathType

Run = Callable[..., tuple[int, str]]
MODULE = "def run_fn(fn_args):\n    raise AssertionError('it must not run')\n"

# Valid command lines, to which a test adds an invalid value.
LINES = {
    "train": ["train", "module.py", "--train-files", "data.tfrecord", "--output", "out"],
    "check": ["check", "module.py", "--train-files", "data.tfrecord"],
    "run": ["run", "--data", "data.csv", "--module-file", "module.py", "--label", "y", "--pipeline-root", "root"],
    "predict": ["predict", "--model", "model", "--examples", "data.tfrecord", "--output", "out.jsonl"],
    "init": ["init", "project", "--data", "data.csv"],
    "watch": ["watch", "last"],
    "runs": ["runs"],
    "show": ["show", "last"],
    "report": ["report", "last"],
    "diff": ["diff", "last", "last"],
    "lineage": ["lineage", "last"],
    "convert": ["convert", "module.py"],
    "compile": [
        *("compile", "--to", "kubeflow", "--image", "i", "--data", "gs://b/d", "--module-file", "module.py"),
        *("--label", "y", "--pipeline-root", "gs://b/r"),
    ],
}
VALUES = {
    "": "the path is empty",
    " ": "the path is empty",
    "a\nb": "the path contains control characters",
    "https://example.com/x": "files are not downloaded from the web",
    "s3://bucket/x": "TensorFlow has no file system for this scheme",
    "hdfs://host/x": "only with the package tensorflow-io",
    "sg://bucket/x": "no file system has the scheme 'sg'; the supported schemes are gs, ",
    "fifo": "this is a FIFO (named pipe)",
    "socket": "this is a socket",
    "/dev/zero": "this is a character device",
    "dangling": "a link to nowhere, which does not exist",
}
STORES = ("train", "show", "report")  # commands that work with s3://
OUTPUT_FILES = [("predict", "--output"), ("report", "--output")]
ANYWHERE = ("", " ", "a\nb")  # bad for other machines, too


@pytest.fixture
def run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Iterator[Run]:
    """Runs a command in a folder with one of each kind of file; returns its exit code and what it printed."""
    for name in ("work", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    pathlib.Path("module.py").write_text(MODULE)
    pathlib.Path("data.csv").write_text("x,y\n1,0\n2,1\n")
    pathlib.Path("data.tfrecord").write_bytes(b"")
    pathlib.Path("folder").mkdir()
    pathlib.Path("dangling").symlink_to("nowhere")
    os.mkfifo("fifo")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("socket")
    environment, path = {**os.environ}, [*sys.path]

    def go(*line: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["generic-trainer", *line])
        shown, stream = os.dup(2), sys.stderr
        try:
            code = main._exit_code()
            sys.stderr.flush()
        finally:  # a command may have redirected standard error to its log
            os.dup2(shown, 2)
            os.close(shown)
            sys.stderr = stream
        printed = capfd.readouterr()
        return code, printed.out + printed.err

    yield go
    listening.close()
    sys.path[:] = path
    os.environ.clear()
    os.environ.update(environment)
    assert os.listdir(tmp_path / "temporary") == []


def path_options() -> Iterator[tuple[str, str]]:
    for name in commands.names():
        command = main.cli.get_command(click.Context(main.cli), name)
        for parameter in getattr(command, "params", ()):
            if isinstance(parameter.type, PathType) and isinstance(parameter, click.Option) and name in LINES:
                yield name, max(parameter.opts, key=len)


def require_one_line(code: int, errors: str, *said: str) -> None:
    last = errors.strip().splitlines()[-1]
    assert code == 2, errors
    assert "Traceback" not in errors
    for text in said:
        assert text in last, errors


@pytest.mark.parametrize("value", VALUES)
def test_a_value_that_cannot_be_a_path_is_refused_by_every_option_with_one(value: str, run: Run) -> None:
    for command, option in path_options():
        if command == "compile" and value not in ANYWHERE:
            continue
        if command in STORES and value.startswith("s3://"):
            continue
        if (command, option) in OUTPUT_FILES and value in ("fifo", "/dev/zero"):
            continue  # written to: see tests/executors/runtime/test_output_file.py
        if value == "" and option not in ("--output", "--train-files", "--eval-files", "--examples", "--model"):
            continue  # the default of other options, which is equivalent to omitting it
        code, errors = run(*LINES[command], option, value)
        require_one_line(code, errors, option, VALUES[value])


def test_every_local_command_with_path_options_is_tested() -> None:
    found = {name for name, _ in path_options()}
    assert {"train", "check", "run", "predict", "init", "report", "compile"} <= found
    assert len([*path_options()]) > 25


DEEP = "[" * 100_000 + "]" * 100_000
FILES: dict[str, bytes] = {
    "deep.json": b'{"a": ' + DEEP.encode() + b"}",
    "twice.json": b'{"a": 1, "a": 2}',
    "list.json": b"[1]",
    "binary.json": b"\xff\xfe\x00\x01",
    "empty.json": b"",
    "deep.yaml": b"custom-config: " + DEEP.encode(),
    "twice.yaml": b"custom-config:\n  a: 1\n  a: 2\n",
    "binary.yaml": b"\x00\xff\xfe",
    "cyclic.yaml": b"custom-config: &a\n  b: *a\n",
    "list.yaml": b"- 1\n",
    "object.yaml": b"custom-config: !!python/object/apply:os.system [id]\n",
    "schema.pbtxt": b"\xff\xfe\x00",
    "not_a.pbtxt": b"{]",
    "text.zip": b"no archive",
    "binary.py": b"\x7fELF\x00\x01",
    "data.yaml": b"label: [a, b]\n",
}

# (command, additional arguments, text of the last line of the output)
CASES: list[tuple[str, list[str], str]] = [
    *(
        ("train", ["--custom-config", f"@{name}"], said)
        for name, said in {
            "deep.json": "nested too deeply",
            "twice.json": "the key 'a' occurs twice",
            "list.json": "must be a JSON object, not a list",
            "binary.json": "is not JSON",
            "empty.json": "is not JSON",
            "folder": "folder: this is a folder, not a file",
            "fifo": "fifo: this is a FIFO (named pipe), not a file",
            "/dev/zero": "/dev/zero: this is a character device, not a file",
            "nothing.json": "cannot read the file (No such file or directory)",
        }.items()
    ),
    ("train", ["--custom-config", DEEP], "nested too deeply"),
    ("train", ["--custom-config", '{"a": 1, "a": 2}'], "the key 'a' occurs twice"),
    *(
        ("train", ["--config", name], said)
        for name, said in {
            "deep.yaml": "nested too deeply",
            "twice.yaml": "line 3: duplicate key a, also in line 2",
            "binary.yaml": "invalid YAML",
            "cyclic.yaml": "is not supported; write out the value",
            "list.yaml": "must be a mapping of options",
            "object.yaml": "line 1: the tag tag:yaml.org,2002:python/object/apply:os.system is not supported",
            "data.yaml": "must be one value, not a list",
            "folder": "folder: this is a folder, not a file",
            "fifo": "fifo: this is a FIFO",
            "/dev/zero": "/dev/zero: this is a character device",
            "dangling": "dangling: cannot read the file (No such file or directory)",
            "nothing.yaml": "nothing.yaml: cannot read the file (No such file or directory)",
            "https://example.com/x.yaml": "https://example.com/x.yaml",
        }.items()
        if name != "data.yaml"
    ),
    ("run", ["--config", "data.yaml"], "label: must be one value, not a list"),
    *(
        ("train", ["--hyperparameters", name], said)
        for name, said in {
            "deep.json": "nested too deeply",
            "twice.json": "the key 'a' occurs twice",
            "list.json": "must hold a JSON object, not a list",
            "binary.json": "is not JSON",
            "folder": "expected one file in it, found none",
            "nothing.json": "does not exist",
        }.items()
    ),
    *(
        ("train", ["--schema", name], said)
        for name, said in {
            "schema.pbtxt": "is not a Schema in protobuf's text format",
            "not_a.pbtxt": "is not a Schema in protobuf's text format",
            "folder": "folder: this is a folder, not a file",
            "nothing.pbtxt": "schema nothing.pbtxt does not exist",
            "gs://": "gs://",
        }.items()
    ),
    *(
        ("train", ["--output", name], said)
        for name, said in {
            "/": "this is the root folder",
            "../../../../../../../../..": "this is the root folder",
            "data.csv": "this is a file, but a folder must be written there",
            "data.csv/below": "data.csv is not a folder",
            "module.py/a/b": "module.py is not a folder",
            "/dev/null/x": "/dev/null is not a folder",
        }.items()
    ),
    ("predict", ["--output", "folder"], "this is a folder, but a file must be written there"),
    ("predict", ["--output", "data.csv/x.jsonl"], "data.csv is not a folder"),
    ("compile", ["--output", "data.csv/x.yaml"], "data.csv is not a folder"),
    ("compile", ["--output", "socket"], "this is a socket"),
    ("report", ["--output", "-", "--open"], "--open needs a file"),
    ("predict", ["--model", "nothing"], "nothing"),
    ("predict", ["--model", "data.csv"], "data.csv"),
    ("train", ["--train-files", "nothing*"], "no file matches 'nothing*'"),
    ("train", ["--train-files", "gs://bucket-without-network/x"], "gs://bucket-without-network/x"),
    ("train", ["--eval-files", "gs://bucket-without-network/x*"], "gs://bucket-without-network/x*"),
    ("train", ["--train-files", "f*fo"], "fifo: this is a FIFO"),
    ("train", ["--transform-graph", "nothing"], "there is no such folder"),
    ("train", ["--transform-graph", "data.csv"], "there is no such folder"),
    ("train", ["--base-model", "data.csv"], "data.csv"),
    ("train", ["--base-model", "gs://bucket-without-network/x"], "gs://bucket-without-network/x"),
    ("train", ["--data-view", "data.csv"], "there is no such folder"),
    ("train", ["--output", "gs://bucket-without-network/x"], "gs://bucket-without-network/x"),
    ("run", ["--data", "nothing"], "--data nothing"),
    ("run", ["--data", "folder"], "folder"),
    ("run", ["--pipeline-root", "data.csv"], "data.csv: this is a file, but a folder must be written there"),
    ("run", ["--push-to", "data.csv/serving"], "data.csv is not a folder"),
    ("init", ["--data", "nothing.csv"], "nothing.csv"),
    ("init", ["--data", "folder"], "folder"),
    ("report", ["--output", "folder"], "this is a folder"),
    ("report", ["--in", "nothing"], "nothing: there is no such folder"),
    ("runs", ["nothing"], "nothing: there is no such folder"),
    ("runs", ["data.csv"], "data.csv"),
    ("runs", ["gs://bucket-without-network/x"], "gs://bucket-without-network/x"),
    ("runs", ["--pipeline-root", "nothing"], "nothing"),
    ("show", ["--in", "data.csv"], "data.csv"),
    ("diff", ["--in", "nothing"], "nothing: there is no such folder"),
]
MODULES = {
    "nothing.py": "nothing.py does not exist.",
    "modul.py": "modul.py does not exist. Did you mean 'module.py'?",
    "folder.py": "folder.py is a folder",
    "data.csv": "data.csv",
    "binary.py": "binary.py, line 1: a NUL byte",
    "fifo.py": "fifo.py: this is a FIFO",
    "dangling.py": "dangling.py does not exist",
    "/dev/zero": "/dev/zero",
    "https://example.com/m.py": "https://example.com/m.py: code is not downloaded from the web",
    "s3://bucket/m.py": "s3://bucket/m.py",
    "gs://bucket-without-network/m.py": "gs://bucket-without-network/m.py",
    "sg://bucket/m.py": "sg://bucket/m.py",
    "m@text.zip": "text.zip",
    "m@nothing.zip": "nothing.zip",
    "m@folder": "folder",
    "no-module": "no-module",
    "": "",
    " ": "",
}


@pytest.mark.parametrize(("command", "added", "said"), CASES, ids=[f"{c} {' '.join(a)[:60]}" for c, a, _ in CASES])
def test_bad_files_and_paths(command: str, added: list[str], said: str, run: Run) -> None:
    for name, content in FILES.items():
        pathlib.Path(name).write_bytes(content)
    require_one_line(*run(*LINES[command], *added), said)


@pytest.mark.parametrize(
    ("line", "nearest"),
    [
        (["trian"], "train"),
        (["elasticdl", "trian"], "train"),
        (["elasticdl", "train", "--batchsize", "3"], "--minibatch_size"),
        (["elasticdl", "train", "--modelzoo", "x"], "--model_zoo"),
        (["train", "--lable", "x"], None),
    ],
)
def test_one_plausible_name_is_suggested_for_an_unknown_option_or_command(
    line: list[str], nearest: str | None, run: Run
) -> None:
    code, errors = run(*line)
    found = re.findall(r"Did you mean '?([-\w]+)'?\?", errors)
    assert (code, found) == (2, [nearest] if nearest else [])
    assert "one of" not in errors


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--minibatch_size=0", "give an integer from 1"),
        ("--evaluation_steps=-5", "from 0"),
        ("--num_workers=-2", "from 1"),
    ],
)
def test_impossible_numbers_are_rejected(flag: str, message: str, run: Run) -> None:
    code, errors = run("elasticdl", "train", "--model_zoo=.", "--model_def=module.f", "--training_data=data.csv", flag)
    require_one_line(code, errors, flag.partition("=")[0], message)


@pytest.mark.parametrize("command", ["train", "check", "convert", "run"])  # before the pipeline of `run` starts
@pytest.mark.parametrize("module", MODULES)
def test_bad_modules(command: str, module: str, run: Run) -> None:
    pathlib.Path("folder.py").mkdir()
    pathlib.Path("text.zip").write_bytes(FILES["text.zip"])
    pathlib.Path("binary.py").write_bytes(FILES["binary.py"])
    pathlib.Path("dangling.py").symlink_to("nowhere.py")
    os.mkfifo("fifo.py")
    line = [module if word == "module.py" else word for word in LINES[command]]

    code, errors = run(
        *(line[:2] if command == "check" else line)
    )  # without data, the error comes before TensorFlow is imported

    require_one_line(code, errors, *([MODULES[module]] if command == "train" else []))
    assert f"Did you mean {module!r}?" not in errors


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("GENERIC_TRAINER_TRAIN_OUTPT", "GENERIC_TRAINER_TRAIN_OUTPUT"),
        ("GENERIC_TRAINER_RUN_LABLE", "GENERIC_TRAINER_RUN_LABEL"),
        ("GENERIC_TRAINER_METADATA_PASWORD", "GENERIC_TRAINER_METADATA_PASSWORD"),
    ],
)
def test_a_misspelled_variable_is_rejected(name: str, nearest: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    command = "run" if "_RUN_" in name else "train"
    require_one_line(*run(*LINES[command]), name, f"Did you mean {nearest!r}?")


def test_all_variables_that_set_options_are_known(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRAIN_OUTPUT", "RUN_DATA", "ELASTICDL_TRAIN_OUTPUT", "PREDICT_MODEL", "LOGS", "PROGRESS", "WORKER"):
        monkeypatch.setenv(f"GENERIC_TRAINER_{name}", "x")
    code, errors = run("runs", "nothing")
    require_one_line(code, errors, "nothing: there is no such folder")


def test_variables_of_other_programs_are_accepted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes sets such variables in all pods of a namespace with a Service called generic-trainer."""
    for name in ("PORT", "SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT_8080_TCP_ADDR", "IMAGE", "VERSION"):
        monkeypatch.setenv(f"GENERIC_TRAINER_{name}", "x")
    code, errors = run("runs", "nothing")
    assert code == 2
    assert "nothing: there is no such folder" in errors
    assert "GENERIC_TRAINER_IMAGE: no option has this environment variable; it is ignored." in errors
    assert "SERVICE" not in errors


def test_nothing_heavy_is_imported_before_a_missing_value_is_found(command: Any, tmp_path: pathlib.Path) -> None:
    """`--data` of a pipeline is checked before TensorFlow, TFX or Beam is imported."""
    (tmp_path / "module.py").write_text(MODULE)
    line = [word if word != "data.csv" else "nothing" for word in LINES["run"]]
    program = (
        "import json, sys\n"
        "from generic_trainer.cli import main\n"
        f"sys.argv = ['generic-trainer', *{line!r}]\n"
        "code = main._exit_code()\n"
        "print(json.dumps([code, [name for name in ('tensorflow', 'tfx', 'apache_beam') if name in sys.modules]]))\n"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout.splitlines()[-1]) == [2, []], done.stderr
    assert "--data nothing" in done.stderr.splitlines()[-1]


LONG = "m" * 50_000
LISTED = ",".join(f"c{number}" for number in range(5_000))
WORDS = "word " * 20_000
HOSTILE_FILES = {
    "caret.yaml": "label: a: b",
    "unclosed.yaml": 'label: "a',
    "tab.yaml": "train:\n\t- a",
    "long.yaml": f"label: {LONG}: {LONG}",
    "key.yaml": f"{LONG}: 1",
    "caret.json": '{"a": }',
    "long.json": json.dumps([LONG]),
    "key.json": json.dumps({LONG: 1})[:-1],
    "caret.pbtxt": "feature {\n  name: 'x' type: FOO\n}",
    "long.pbtxt": f"feature {{ {LONG}: 1 }}",
    "syntax.py": "def run_fn(fn_args):\n    x = (1,\n    y = 2\n",
    "tabs.py": "def run_fn(fn_args):\n\tif 1:\n        pass\n",
    "long.py": f"x = '{LONG}\n",
    "raises.py": f"raise ValueError('{LONG}')\n",
    "lines.py": "raise ValueError('\\n'.join(map(str, range(50_000))))\n",
    "pointer.py": "raise ValueError('bad value\\n    a b\\n      ^')\n",
    "nothing.py": "raise ValueError()\n",
    "marks.py": "raise ValueError('^^^')\n",
    "yaml.py": "import yaml\nyaml.safe_load('a: b: c')\n",
}
# (command, additional arguments)
HOSTILE: list[tuple[str, list[str]]] = [
    *(("train", ["--config", name]) for name in HOSTILE_FILES if name.endswith(".yaml")),
    *(("train", ["--custom-config", f"@{name}"]) for name in ("caret.json", "long.json", "key.json")),
    *(("train", ["--hyperparameters", name]) for name in ("caret.json", "long.json", "key.json", "caret.yaml", LONG)),
    *(("train", ["--schema", name]) for name in ("caret.pbtxt", "long.pbtxt", LONG, WORDS)),
    *(("train", [option, value]) for option in ("--custom-config", "--engine")
      for value in (LONG, WORDS)),
    *(("run", [option, value]) for option in ("--data", "--module-file", "--label") for value in (LONG, LISTED)),
    *((command, [f"--{LONG}"]) for command in ("init", "check", "compile")),
    *((command, [LONG]) for command in ("watch", "runs", "show", "diff", "convert")),
    ("predict", ["--model", LONG]),
    ("train", ["--train-files", LISTED]),
    ("compile", ["--to", LONG]),
    ("compile", ["--env", WORDS]),
]  # fmt: skip


def require_last_line(errors: str) -> None:
    last = errors.rstrip("\n").split("\n")[-1]
    assert len(last) <= 300
    assert last.startswith("generic-trainer: ")
    assert len(re.findall("[a-z]{2,}", last)) >= 3, last


@pytest.mark.parametrize(("command", "arguments"), HOSTILE, ids=lambda value: str(value)[:60])
def test_the_last_line_names_the_problem_in_300_characters(command: str, arguments: list[str], run: Run) -> None:
    for name, text in HOSTILE_FILES.items():
        pathlib.Path(name).write_text(text)
    code, errors = run(*LINES[command], *arguments)
    assert code in (1, 2)
    require_last_line(errors)
    assert len(errors.split("\n")) < 40


@pytest.mark.parametrize("name", [name for name in HOSTILE_FILES if name.endswith(".py")])
def test_the_last_line_of_a_module_that_cannot_be_imported_names_the_error(name: str, run: Run) -> None:
    pathlib.Path(name).write_text(HOSTILE_FILES[name])
    code, errors = run("train", name, *LINES["train"][2:])
    assert code == 1, errors
    require_last_line(errors)
    assert name in errors.rstrip("\n").split("\n")[-1]
    assert max(map(len, errors.split("\n"))) <= 300
    code, shown = run("show", "out")
    assert code == 0
    assert max(map(len, shown.split("\n"))) < 1000
    assert len(shown.split("\n")) < 150


def test_an_error_of_a_parser_is_in_one_line_with_its_position(run: Run) -> None:
    pathlib.Path("caret.yaml").write_text("label: a: b")
    _, errors = run(*LINES["train"], "--config", "caret.yaml")
    assert "caret.yaml: invalid YAML: mapping values are not allowed here" in errors
    assert errors.rstrip().endswith("line 1, column 9: label: a: b")


def test_what_an_error_repeats_is_shown_by_verbose(run: Run) -> None:
    _, errors = run("-v", *LINES["train"], "--schema", LONG)
    assert LONG in errors.replace("\n", "")
    require_last_line(errors)
