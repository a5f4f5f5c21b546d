"""`generic-trainer check`: output and exit codes; and the check that `run` starts with."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import ModuleError, TrainingOptions
from generic_trainer.cli import run_check
from generic_trainer.cli.verdict_format import format_summary, format_verdict
from generic_trainer.executors.modules.pipeline_modules import find_modules
from generic_trainer.executors.preflight.verdicts import FAILED, NOT_REACHED, Place, Report, Verdict
from generic_trainer.pipelines.definition.options import PipelineOptions
from generic_trainer.pipelines.definition.pipeline_root import ROOT_MARKER

from ..world.modules import with_tiny

Command = Callable[..., subprocess.CompletedProcess[str]]
MODULES = pathlib.Path(__file__).resolve().parent.parent.parent / "module_files"


def test_a_run_that_would_succeed(command: Command, iris: Any, tmp_path: pathlib.Path) -> None:
    data = ["--train-files", iris.train, "--eval-files", iris.eval, "--schema", iris.schema]
    more = ["--train-steps", 300, "--required-signature", "serving_default", "--output", "out"]
    done = command("check", MODULES / "iris_keras.py", *data, *more, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    items = [line[14:30].strip() for line in lines if line[:1] == "✓"]
    assert items == [
        *("module", "train files", "eval files", "schema", "load", "dialect", "signatures", "examples"),
        *("model", "training", "evaluation", "export", "SavedModel", "estimate"),
    ]
    assert all(line.startswith("✓ passed ") for line in lines if line[:1] == "✓")
    assert "label variety: 0, 1, 2" in done.stdout
    assert "for 300 steps" in done.stdout
    assert lines[-1].startswith("The run would succeed. Checked in ")
    assert list(tmp_path.iterdir()) == []


def test_a_fault_is_shown_with_its_line_and_the_exit_code(command: Command, iris: Any, tmp_path: pathlib.Path) -> None:
    source = (MODULES / "iris_keras.py").read_text().replace("keras.Input((1,), name=name)", "keras.Input(1, nam=name)")
    (tmp_path / "mine.py").write_text(source)
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "nam=name" in text)
    data = ["--train-files", iris.train, "--eval-files", iris.eval, "--custom-config", "{epochs: 3}"]
    done = command("-v", "check", "mine.py", *data, cwd=tmp_path)
    assert done.returncode == 2  # the first failure is custom_config
    assert "✗ failed      custom_config    --custom-config '{epochs: 3}' is not JSON" in done.stdout
    done = command("check", "mine.py", *data[:4], cwd=tmp_path)
    assert done.returncode == 1
    assert f"✗ failed      model            mine.py, line {line}: " in done.stdout
    assert "inputs = {name: keras.Input(1, nam=name) for name in FEATURES}" in done.stdout
    assert "\u2013 not reached training         model failed" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("The run would fail at model. Checked in ")
    assert "Traceback" not in done.stdout

    as_json = command("check", "mine.py", *data[:4], "--json", cwd=tmp_path)
    report = json.loads(as_json.stdout)
    assert (report["passed"], report["exit_code"]) == (False, 1)
    [failed] = [verdict for verdict in report["verdicts"] if verdict["status"] == "failed"]
    assert failed["item"] == "model"
    assert failed["place"]["line"] == line
    assert f'mine.py", line {line}' in failed["traceback"]


def test_invalid_usage(command: Command, tmp_path: pathlib.Path) -> None:
    done = command("check", "mine.py", "--data", "x", "--train-files", "y", cwd=tmp_path)
    assert done.returncode == 2
    assert "give one of them" in done.stderr


def test_marks_have_a_status_text_and_an_ascii_form(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place("taxi.py", 3, "import nothing")
    failed = Verdict("load", FAILED, "ModuleNotFoundError: …", place, "Install it.", traceback="Traceback:\n  taxi.py")
    report = Report("taxi.py", [failed, Verdict("dialect", NOT_REACHED, "load failed")], 2.0)
    lines = [line for verdict in report.verdicts for line in format_verdict(verdict)]
    assert "✗ failed" in lines[0]
    assert "taxi.py, line 3: ModuleNotFoundError" in lines[0]
    assert lines[1].strip() == "import nothing"
    assert lines[2].strip() == "→ Install it."
    assert lines[3].startswith("\u2013 not reached dialect")
    assert "Use `generic-trainer -v check` to show the traceback" in format_summary(report)
    assert list(format_verdict(failed, verbose=True))[-1] == "  taxi.py"

    class Ascii:
        encoding = "ascii"

    monkeypatch.setattr("sys.stdout", Ascii())
    assert all(line.isascii() for verdict in report.verdicts for line in format_verdict(verdict, True))


RUN_FN = with_tiny(
    """
    def run_fn(fn_args):
        model = Tiny()
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
""",
    feature="x",
)


def _begin(values: dict[str, object], scratch: pathlib.Path) -> run_check.BackgroundCheck:
    return run_check.start(values, find_modules(values["module_file"], str(scratch)), tunes=False)


def test_a_failed_check_stops_the_steps_and_a_passed_one_is_skipped(
    module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    """A passed check is recorded in the pipeline's root, and valid until something changes."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.csv").write_text("x,y\n" + "".join(f"{i}.5,{i % 2}\n" for i in range(60)))
    path, root = module(RUN_FN), tmp_path / "root"
    options = PipelineOptions(data=str(tmp_path / "data"), module_file=path, pipeline_root=str(root), label="y")
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    check = _begin(values, tmp_path)
    findings = check.require_passed()
    assert [one["label"] for one in findings["evaluation_plan"]["outputs"]] == ["y"]
    check.record()
    assert not root.exists()  # the pipeline has not started there
    root.mkdir()
    (root / ROOT_MARKER).write_text("{}")
    check.record()
    assert sorted(os.listdir(root)) == ["generic_trainer_check.json", ROOT_MARKER]
    again = _begin(values, tmp_path)
    assert again.known_findings == again.require_passed() == findings

    pathlib.Path(path).write_text("def runfn(fn_args):\n    pass\n")
    other = _begin(values, tmp_path)
    assert other.known_findings is None
    with pytest.raises(ModuleError, match="Did you mean 'runfn'"), other.stops_on_failure():
        threading.Event().wait(600)  # the steps before training
    with pytest.raises(ModuleError, match="Did you mean 'runfn'"), other.stops_on_failure():
        raise OSError("a step failed for the same reason")
    with pytest.raises(OSError, match="the disk"), check.stops_on_failure():
        raise OSError("the disk is full")


@pytest.mark.thorough
def test_run_skips_a_check_that_has_passed(
    command: Command, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    """Both use one configuration; the check may be recorded in the root before the pipeline starts there."""
    (tmp_path / "data.csv").write_text("x,y\n" + "".join(f"{i}.5,{i % 2}\n" for i in range(60)))
    path, root = module(RUN_FN), tmp_path / "root"
    config = tmp_path / "pipeline.yaml"
    config.write_text(f"data: data.csv\nmodule-file: {path}\nlabel: y\nseed: 1\npipeline-root: root\n")
    done = command("check", "--config", config, "--train-steps", 30)
    assert done.returncode == 0, done.stdout + done.stderr
    # Digests are kept of files that were written more than two seconds before.
    assert set(os.listdir(root)) - {"generic_trainer_digests.json"} == {"generic_trainer_check.json"}
    training = TrainingOptions(seed=1)
    options = PipelineOptions(
        data=str(tmp_path / "data.csv"), module_file=path, pipeline_root=str(root), label="y", training=training
    )
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    assert _begin({**values, "train_steps": 30}, tmp_path).known_findings is not None
    assert _begin({**values, "train_steps": 31, "schema": "none.pbtxt"}, tmp_path).known_findings is None
    from generic_trainer.pipelines.definition.pipeline_root import foreign_entries

    assert not foreign_entries(str(root))  # the record of the check is not mistaken for another pipeline's


SLOW = """
    import time

    import tensorflow as tf

    def run_fn(fn_args):
        time.sleep(1000)
"""


def test_a_part_that_is_not_reached_is_named_and_an_error_if_strict(
    command: Command, module: Callable[..., str], iris: Any
) -> None:
    line = ["check", module(SLOW), "--train-files", iris.train, "--limit", 1]
    done = command(*line)
    assert done.returncode == 0, done.stderr
    assert re.match(r"Nothing failed; not reached: training, ", done.stdout.splitlines()[-1])
    strict = command(*line, "--strict", "--json")
    assert strict.returncode == 4
    assert json.loads(strict.stdout)["passed"]
