"""A dialect in a separate package works like the built-in ones: in training, `check`, `convert`, `init` and hints.

The distributions below are on the PYTHONPATH of the commands only: the documented example plain_keras, one in the form
of release 0.1, one that cannot be imported, and some whose methods or contexts raise.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "howto" / "custom_dialect.md"
OLD_FORM = """
NEEDS = "a function fit_fn(fn_args)"


def matches(module, function):
    return "it defines fit_fn" if hasattr(module, "fit_fn") else ""


def run_fn(module, function, options):
    return module.fit_fn
"""
RAISING_FORM = """
from generic_trainer import Dialect


class Raising(Dialect):
    needs = "luck"

    def detect(self, path):
        raise SyntaxError("not in this file")

    prepare = importing = matches = convertible = lambda self, *arguments: 1 / 0
"""
RAISING_CONTEXT = """
import contextlib

from generic_trainer import Dialect


class Raising(Dialect):
    needs = "luck"

    def matches(self, module, function):
        return ""

    @contextlib.contextmanager
    def importing(self):
        ENTER
        try:
            yield
        finally:
            raise LookupError("lost at the end")
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


def titled(path: str) -> str:
    """Returns a file shown in the documentation."""
    block = re.search(
        rf'^```\w+ title="{re.escape(path)}"\n(.*?)^```$', PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert block, path
    return block[1]


def distribution(folder: pathlib.Path, name: str, source: str, entry_point: str) -> None:
    """Writes an installed distribution with one module and one dialect."""
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / f"{name}.py").write_text(source)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[generic_trainer.dialects]\n{name} = {entry_point}\n")
    files = [f"{name}.py", *(f"{information.name}/{file}" for file in ("METADATA", "entry_points.txt", "RECORD"))]
    (information / "RECORD").write_text("".join(f"{file},,\n" for file in files))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment variables of commands that see the distributions."""
    folder = tmp_path_factory.mktemp("packages")
    source = titled("plain_keras/plain_keras.py")
    entry_point = re.search(r'^plain_keras = "(.*)"$', titled("plain_keras/pyproject.toml"), re.MULTILINE)
    assert entry_point
    distribution(folder, "plain_keras", source, entry_point[1])
    distribution(folder, "old_form", OLD_FORM, "old_form")
    distribution(folder, "raising_form", RAISING_FORM, "raising_form:Raising")
    raising = OLD_FORM.replace('"it defines fit_fn"', "1 / 0")
    distribution(folder, "raising_at_entry", RAISING_CONTEXT.replace("ENTER", "1 / 0"), "raising_at_entry:Raising")
    distribution(folder, "raising_at_exit", RAISING_CONTEXT.replace("ENTER", ""), "raising_at_exit:Raising")
    distribution(folder, "raising_old_form", raising, "raising_old_form")
    distribution(folder, "broken_form", "import a_package_that_is_gone\n", "broken_form:Broken")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).strip(":")}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "iris_plain.py").write_text(titled("iris_plain.py"))
    return tmp_path


@pytest.fixture
def run(command: Run, environment: dict[str, str], folder: pathlib.Path) -> Run:
    """Runs `generic-trainer` in the folder of the module."""
    return lambda *arguments: command(*arguments, new_python=True, env=environment, cwd=folder)


@pytest.fixture
def python(environment: dict[str, str], folder: pathlib.Path) -> Callable[[str], Any]:
    """Runs a program that prints JSON in a Python that sees the distributions."""

    def call(program: str) -> Any:
        line = [sys.executable, "-c", textwrap.dedent(program)]
        done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment, cwd=folder)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return call


@pytest.mark.slow
def test_a_module_trains_and_its_record_names_the_dialect(run: Run, folder: pathlib.Path, iris: Any) -> None:
    files = ("--train-files", iris.train, "--eval-files", iris.eval)
    done = run("train", "iris_plain.py", *files, "--output", "plain", "--custom-config", '{"epochs": 2}')
    assert done.returncode == 0, done.stderr
    [path] = folder.glob("plain/**/run.json")
    record = json.loads(path.read_text())
    assert record["dialect"] == {"name": "plain_keras", "reason": "it defines build_model, FEATURES and LABEL"}
    assert "accuracy" in record["metrics"]["eval"]
    assert "Skipping the dialect broken_form: broken_form:Broken of the package broken-form" in done.stderr
    assert run("report", "plain", "--output", "report.html").returncode == 0
    assert "plain_keras" in (folder / "report.html").read_text()


@pytest.mark.thorough
@pytest.mark.slow
def test_check_shows_its_warnings_and_runs_it(run: Run, folder: pathlib.Path, iris: Any) -> None:
    files = ("--train-files", iris.train, "--eval-files", iris.eval)
    done = run("check", "iris_plain.py", *files, "--custom-config", '{"epoch": 2}', "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = {one["item"]: one for one in json.loads(done.stdout)["verdicts"]}
    assert verdicts["dialect"]["text"] == "plain_keras: it defines build_model, FEATURES and LABEL"
    assert verdicts["signatures"]["text"] == "plain_keras does not use custom_config['epoch']."
    assert verdicts["signatures"]["status"] == "warning"
    assert {verdicts[item]["status"] for item in ("training", "export", "SavedModel")} == {"passed"}


@pytest.mark.thorough
@pytest.mark.slow
def test_convert_writes_a_run_fn_that_trains(run: Run, folder: pathlib.Path, iris: Any) -> None:
    done = run("convert", "iris_plain.py", "--write")
    assert done.returncode == 0, done.stderr
    call = 'return run_as("plain_keras", __name__, fn_args, function="build_model")'
    assert f"+    {call}\n" in done.stdout
    assert (folder / "iris_plain.py").read_text().endswith(f"    {call}\n")
    files = ("--train-files", iris.train, "--eval-files", iris.eval)
    checked = run("check", "iris_plain.py", *files, "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    verdicts = {one["item"]: one["text"] for one in json.loads(checked.stdout)["verdicts"]}
    assert verdicts["dialect"] == "run_fn: it defines run_fn"


def test_convert_lists_it_among_the_forms(run: Run, folder: pathlib.Path) -> None:
    (folder / "empty.py").write_text("def build_modle():\n    pass\n")
    done = run("convert", "empty.py")
    assert done.returncode == 2
    assert "build_model" in done.stderr.partition("so no run_fn can be generated")[0]
    assert "Did you mean 'build_modle'?" in done.stderr


def test_init_gives_its_reason(run: Run, folder: pathlib.Path) -> None:
    (folder / "data.csv").write_text("a,label\n1,0\n2,1\n")
    done = run("init", "new", "--data", "data.csv", "--dialect", "plain_keras")
    assert done.returncode == 2
    assert "init generates no modules for this dialect: copy iris_plain.py instead." in done.stderr
    broken = run("init", "new", "--data", "data.csv", "--dialect", "broken_form")
    assert broken.returncode == 2
    assert "No module named 'a_package_that_is_gone'" in broken.stderr.splitlines()[-1]
    unknown = run("init", "new", "--data", "data.csv", "--dialect", "plain_kears")
    assert "Did you mean 'plain_keras'?" in unknown.stderr


def test_its_evidence_decides_on_keras(python: Callable[[str], Any], folder: pathlib.Path) -> None:
    (folder / "old_plain.py").write_text("import keras\n\nKERAS = 2\n")
    found = python("""
        import json
        from generic_trainer.executors.dialects.needs import choose_keras

        choices = [choose_keras(option, ["old_plain.py"]) for option in ("auto", "3")]
        print(json.dumps([[choice.version, choice.reason] for choice in choices]))
    """)
    native = "tf.keras is Keras 2 before TensorFlow 2.16"
    assert found[0] in (["2", "old_plain.py, line 3: KERAS = 2"], ["2", native])
    assert found[1][0] == "3"


CHOOSE = """
    import importlib, json, sys
    from generic_trainer import FnArgs, TrainerError, TrainingOptions
    from generic_trainer.executors import dialects
    from generic_trainer.executors.dialects import selection

    sys.path.insert(0, "")
    module, known = importlib.import_module("some_module"), dialects.adapters()

    def result(dialect="auto", function=None):
        options = TrainingOptions(dialect=dialect)
        try:
            name, reason = selection.choose(module, function, options, known)
            known[name].run_fn(module, function, options)
            return [name, reason]
        except TrainerError as error:
            return [type(error).__name__, str(error)]
"""


def test_misspelled_entry_points_are_reported(python: Callable[[str], Any], folder: pathlib.Path) -> None:
    (folder / "some_module.py").write_text("def build_modle(): pass\n")
    kind, text = python(CHOOSE + "\n    print(json.dumps(result()))")
    assert kind == "ModuleError"
    assert "Did you mean 'build_modle' to be 'build_model'?" in text
    assert "plain_keras needs build_model(), which returns a compiled Keras model" in text
    (folder / "some_module.py").write_text("def build_model():\n    return None\n")
    _, text = python(CHOOSE + "\n    print(json.dumps(result()))")
    assert "Did you mean" not in text  # the name is right; FEATURES and LABEL are missing


def test_check_inspects_its_signatures_and_errors(python: Callable[[str], Any], folder: pathlib.Path) -> None:
    names = "FEATURES, LABEL = {features}, 'b'\ndef build_model(units=8): pass\ndef fit_fn(fn_args): pass\n"
    (folder / "some_module.py").write_text(names.format(features="('a',)"))
    found = python(
        CHOOSE
        + """
    from generic_trainer.executors.preflight.module_checks import signatures_verdict
    from generic_trainer.executors.preflight.request import CheckRequest

    request = CheckRequest("some_module.py", FnArgs(train_steps=500))
    found = []
    for name in ("plain_keras", "old_form"):
        verdict = signatures_verdict(known[name], module, request)
        found.append([verdict.text, verdict.status, known[name].steps_requested(module, None, request.fn_args)])
    module.FEATURES = "a"
    try:
        signatures_verdict(known["plain_keras"], module, request)
    except TrainerError as error:
        print(json.dumps([*found, str(error)]))
    """
    )
    assert found[0] == ["build_model(units=8)", "passed", None]
    assert found[1] == ["a function fit_fn(fn_args)", "passed", 500]
    assert found[2].endswith("some_module.py: FEATURES is 'a'; write a tuple of names.")


def test_the_form_of_release_0_1_still_works(python: Callable[[str], Any], folder: pathlib.Path) -> None:
    (folder / "some_module.py").write_text("def fit_fn(fn_args):\n    return fn_args.train_steps\n")
    found = python(
        CHOOSE
        + """
    from generic_trainer import run_as
    returned = run_as("old_form", module, FnArgs(train_steps=7))
    old = known["old_form"]
    more = [old.needs, old.entry_points, old.check(module, None, FnArgs()), old.convertible({}, None)]
    print(json.dumps([result(), returned, more]))
    """
    )
    assert found == [["old_form", "it defines fit_fn"], 7, ["a function fit_fn(fn_args)", ["fit_fn"], [], []]]


def test_a_broken_package_is_reported_and_affects_nothing_else(
    run: Run, python: Callable[[str], Any], folder: pathlib.Path
) -> None:
    (folder / "some_module.py").write_text("def run_fn(fn_args): pass\n")
    automatic, asked, missing = python(
        CHOOSE
        + """
    found = [result(), result("broken_form")]
    del module.run_fn
    print(json.dumps([*found, result()]))
    """
    )
    assert automatic == ["run_fn", "it defines run_fn"]
    assert asked[0] == "InputError"  # not ModuleError: the module is fine
    cause = "broken_form:Broken of the package broken-form cannot be imported"
    assert asked[1].startswith(f"dialect='broken_form': {cause} (ModuleNotFoundError: No module named")
    assert "some_module" not in asked[1]
    assert f"broken_form needs its own package, but {cause}" in missing[1]


def test_a_failing_dialect_is_reported_and_affects_nothing_else(
    run: Run, environment: dict[str, str], folder: pathlib.Path
) -> None:
    (folder / "some_module.py").write_text("def trainer_fn(fn_args, schema): pass\n")
    program = """
    from generic_trainer.executors.dialects.loading import loaded
    from generic_trainer.executors.dialects.needs import choose_keras
    from generic_trainer.executors import dialects
    from generic_trainer.executors.dialects import selection
    from generic_trainer.executors.modules.source import find_source
    from generic_trainer.executors.options import TrainingOptions

    print(choose_keras("auto", ["some_module.py"]).version)
    with loaded(find_source("some_module.py", "scratch")) as module:
        print(selection.choose(module, None, TrainingOptions(), dialects.adapters())[0])
    """
    line = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "trainer_fn"
    for question in ("detect (SyntaxError: not in this file)", "prepare (ZeroDivisionError", "matches (ZeroDivisionE"):
        assert done.stderr.count(f"The dialect raising_form of another package failed in {question}") == 1, done.stderr
    converted = run("convert", "some_module.py")
    assert converted.returncode == 0, converted.stderr
    assert "failed in convertible" in converted.stderr


@pytest.mark.parametrize("code", ["x = 1", "raise ValueError('of the module')"])
def test_a_failing_context_of_a_dialect_keeps_the_outcome_of_the_module(
    code: str, environment: dict[str, str], folder: pathlib.Path
) -> None:
    (folder / "some_module.py").write_text(f"{code}\n")
    program = """
    from generic_trainer.executors.dialects.loading import loaded
    from generic_trainer.executors.modules.source import find_source

    try:
        with loaded(find_source("some_module.py", "scratch")) as module:
            print(module.x)
    except Exception as error:
        print(type(error).__name__, error)
    """
    line = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    assert done.stdout.splitlines()[-1] == ("1" if code == "x = 1" else "ValueError of the module"), done.stderr
    for failure in (
        "raising_at_entry of another package failed in importing (ZeroDivisionError: division by zero)",
        "raising_at_exit of another package failed in importing (LookupError: lost at the end)",
    ):
        assert done.stderr.count(f"The dialect {failure}") == 1, done.stderr
