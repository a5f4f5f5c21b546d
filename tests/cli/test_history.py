"""The history commands on runs that are trained here: text and JSON output."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import FnArgs, InputError, TrainingOptions, train
from generic_trainer.cli.tables import print_json, print_table
from generic_trainer.cli.training_run import keep_finished_run

from ..world.data import outputs_in
from ..world.modules import with_tiny

Command = Callable[..., subprocess.CompletedProcess[str]]

MODULE = with_tiny("""
    from scaling import FACTOR

    def run_fn(fn_args):
        if fn_args.base_model:
            raise ValueError("this one fails")
        model = Tiny(float(FACTOR))
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
        with tf.summary.create_file_writer(fn_args.model_run_dir + "/train").as_default():
            tf.summary.scalar("loss", 0.5, step=1)
        auc = 0.75 + 0.05 * FACTOR
        return {"val_auc": auc, "val_loss": 1 - auc}
""")


@pytest.fixture(scope="module")
def lab(iris: Any, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with three runs: two in `first`, the later one with other code and seed; a failed one in `second`."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "trainer.py").write_text(MODULE)

    def run(output: str, seed: int, factor: int, **more: Any) -> None:
        (folder / "scaling.py").write_text(f"FACTOR = {factor}\n")
        out = folder / output
        fn_args = FnArgs(
            train_files=[iris.train],
            eval_files=[iris.eval],
            **outputs_in(out),
            custom_config={"learning_rate": 0.1 * factor, "api_key": "hush"},
            **more,
        )
        keep_finished_run(fn_args.model_run_dir)
        train(str(folder / "trainer.py"), fn_args, TrainingOptions(seed=seed))

    run("first", seed=1, factor=1)
    run("first", seed=2, factor=2)
    with pytest.raises(ValueError, match="this one fails"):
        run("second", seed=2, factor=2, base_model=str(folder / "first" / "model" / "Format-Serving"))
    return folder


def test_the_runs_are_listed_newest_first(command: Command, lab: pathlib.Path) -> None:
    done = command("runs", cwd=lab)
    assert done.returncode == 0, done.stderr
    heads, *lines = done.stdout.splitlines()
    assert heads.split() == ["run", "started", "(UTC)", "status", "duration", "module", "auc", "loss", "folder"]
    assert [(line.split()[3], line.split()[-1]) for line in lines] == [
        ("failed", "second/model_run"),
        ("succeeded", "first/model_run"),
        ("succeeded", "first/model_run.1"),
    ]
    assert [re.findall(r" (0\.\d+) (?!s)", line) for line in lines] == [[], ["0.85", "0.15"], ["0.8", "0.2"]]
    assert not any(line.endswith(" ") for line in done.stdout.splitlines())


def test_tables_in_a_terminal_have_colors_and_complete_cells(lab: pathlib.Path) -> None:
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("4H", 24, 60, 0, 0))  # 60 columns are too few
    line = [sys.executable, "-m", "generic_trainer.cli.main", "runs", str(lab)]
    with subprocess.Popen(line, stdout=end, env={**os.environ, "TERM": "xterm"}) as running:
        os.close(end)
        said = b""
        with contextlib.suppress(OSError):  # raised on Linux when the other end is closed
            while more := os.read(terminal, 4096):
                said += more
    os.close(terminal)
    assert running.returncode == 0
    text = said.decode()
    for word in ("\x1b[32msucceeded", "\x1b[31mfailed", "started (UTC)", "trainer.py"):
        assert word in text
    assert "…" not in text


def test_json_has_the_documented_keys(command: Command, lab: pathlib.Path) -> None:
    failed, second, first = json.loads(command("runs", lab, "--json").stdout)
    documented = re.search(r"each with: (.*?)\.\n", command("runs", "--help").stdout, re.DOTALL)
    assert documented is not None
    assert list(failed) == re.findall(r"(\w+)(?: \(UTC\))?[,.]?", documented[1].replace("(UTC)", ""))
    assert failed["error"] == {"type": "ValueError", "message": failed["error"]["message"]}
    assert "this one fails" in failed["error"]["message"]
    assert (failed["status"], failed["model"], failed["metrics"]) == ("failed", None, {})
    assert second["metrics"]["eval"] == pytest.approx({"auc": 0.85, "loss": 0.15})
    assert (second["model"], first["model"]) == (f"{lab}/first/model", None)
    assert second["fingerprint"] == failed["fingerprint"] != first["fingerprint"]
    assert [run["module"] for run in (failed, second, first)] == [f"{lab}/trainer.py"] * 3


def test_runs_are_sorted_and_filtered(command: Command, lab: pathlib.Path) -> None:
    best = json.loads(command("runs", lab, "--sort", "loss", "--limit", 1, "--json").stdout)
    assert [run["model_run"] for run in best] == [f"{lab}/first/model_run"]
    cut = command("runs", lab, "--status", "succeeded", "--limit", 1)
    assert len(cut.stdout.splitlines()) == 2
    assert "use --limit 0 to show all" in cut.stderr
    assert (
        command("runs", lab, "--module", "other").stdout
        == "No runs found. Use `generic-trainer runs PLACE` to search elsewhere.\n"
    )
    wrong = command("runs", lab, "--sort", "lss")
    assert (wrong.returncode, "Did you mean 'loss'?" in wrong.stderr) == (2, True)
    nowhere = command("runs", lab / "nowhere")
    assert (nowhere.returncode, nowhere.stderr) == (2, f"generic-trainer: {lab}/nowhere: there is no such folder.\n")


def test_one_run_is_shown(command: Command, lab: pathlib.Path) -> None:
    done = command("show", lab / "first" / "model")
    assert done.returncode == 0, done.stderr
    for line in ("  seed = 2", "  custom_config.learning_rate = 0.2", "  custom_config.api_key = ***", "loads passed"):
        assert line.strip() in done.stdout
    assert re.search(r"^Data: +train .*/train/\* \(1 file, [\d,]+ bytes\)$", done.stdout, re.MULTILINE)
    assert re.search(r"^loss +0\.5 +0\.15$", done.stdout, re.MULTILINE)
    assert re.search(r"^training +[\d.]+\n  load ", done.stdout, re.MULTILINE)
    assert "hush" not in done.stdout
    failed = command("show", "last", "--in", lab)
    assert re.search(r"^Error: +ValueError: .*this one fails", failed.stdout, re.MULTILINE)
    assert re.search(r'File ".*/trainer.py", line \d+, in run_fn', failed.stdout)
    shown = json.loads(command("show", "last", "--in", lab, "--json").stdout)
    assert shown["record"] == json.loads((lab / "second" / "model_run" / "run.json").read_text())


def test_two_runs_are_compared(command: Command, lab: pathlib.Path) -> None:
    places = (lab / "first" / "model_run.1", lab / "first")
    found = json.loads(command("diff", *places, "--json").stdout)
    assert found["arguments"] == {"custom_config.learning_rate": [0.1, 0.2], "options.seed": [1, 2]}
    assert (found["same_code"], found["files"]) == (False, {"scaling.py": "changed"})
    assert found["source"].splitlines() == [
        *("--- first/scaling.py", "+++ second/scaling.py", "@@ -1 +1 @@", "-FACTOR = 1", "+FACTOR = 2")
    ]
    assert (found["data"], found["versions"]) == ({}, {})
    auc, loss = found["metrics"]["eval/auc"], found["metrics"]["eval/loss"]
    assert (auc["difference"], auc["is_better"]) == (pytest.approx(0.05), True)
    assert (loss["difference"], loss["is_better"]) == (pytest.approx(-0.05), True)
    text = command("diff", *reversed(places)).stdout
    assert re.search(r"^eval/auc +0\.85 +0\.8 +-0\.05 +worse$", text, re.MULTILINE)
    assert re.search(r"^options\.seed +2 +1$", text, re.MULTILINE)
    assert "\n+FACTOR = 1\n" in text
    assert "+FACTOR" not in command("diff", *places, "--no-source").stdout
    same = json.loads(command("diff", "last", lab / "first", "--in", lab, "--json").stdout)
    assert (same["same_code"], same["files"], list(same["arguments"])) == (True, {}, ["base_model"])
    assert same["metrics"]["eval/auc"] == {
        "before": None,
        "after": pytest.approx(0.85),
        "difference": None,
        "is_better": None,
    }


def test_changed_data_is_detected(command: Command, lab: pathlib.Path, tmp_path: pathlib.Path) -> None:
    outputs = [lab / "first", tmp_path / "copy"]
    record = json.loads((lab / "first" / "model_run" / "run.json").read_text())
    record["data"]["train_files"]["digest"] = "0" * 16
    (tmp_path / "copy" / "model_run").mkdir(parents=True)
    (tmp_path / "copy" / "model_run" / "run.json").write_text(json.dumps(record))
    found = json.loads(command("diff", *outputs, "--json").stdout)
    assert list(found["data"]) == ["train_files.digest"]
    assert (found["same_code"], found["source"]) == (True, "")


def test_the_run_keeps_its_source(lab: pathlib.Path) -> None:
    kept = {path.name: path.read_text() for path in (lab / "first" / "model_run.1" / "source").iterdir()}
    assert kept == {"trainer.py": (lab / "trainer.py").read_text(), "scaling.py": "FACTOR = 1\n"}


def test_tables_are_not_truncated_in_files_and_contain_no_control_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name", "empty", "n"], [["x" * 500, "", "1"], ["\x1b[31m", None, 23]], right=["n"])
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "name" + " " * (500 - 4) + "   n"
    assert second == "x" * 500 + "   1"
    assert third == "\ufffd[31m" + " " * (500 - 5) + "  23"


def test_json_contains_no_nan_or_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"loss": float("nan"), "all": [float("inf"), 1.5], "pair": (1, None)})
    assert json.loads(capsys.readouterr().out) == {"loss": None, "all": [None, 1.5], "pair": [1, None]}


def test_a_record_with_an_option_of_a_package_that_is_gone_is_read(
    command: Command, lab: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    record = json.loads((lab / "first" / "model_run" / "run.json").read_text())
    record["arguments"]["options"]["gone"] = 3
    (tmp_path / "model_run").mkdir()
    (tmp_path / "model_run" / "run.json").write_text(json.dumps(record))
    assert "gone = 3" in command("show", tmp_path).stdout
    assert command("report", tmp_path).returncode == 0
    assert "gone" in (tmp_path / "model_run" / "report.html").read_text()
    assert "options.gone" in command("diff", lab / "first", tmp_path, "--no-predictions").stdout


def test_an_invalid_record_is_rejected(command: Command, tmp_path: pathlib.Path) -> None:
    (tmp_path / "model_run").mkdir()
    (tmp_path / "model_run" / "run.json").write_text("{")
    done = command("show", tmp_path)
    assert (done.returncode, "run.json is not JSON" in done.stderr) == (2, True)
    assert InputError.exit_code == 2
