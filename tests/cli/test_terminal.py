"""The terminal output of a run: a live line in a terminal, plain lines elsewhere, TensorFlow's logs in a file."""

from __future__ import annotations

import os
import pathlib
import pty
import re
import subprocess
import sys
from typing import Any

import pytest

MODULES = pathlib.Path(__file__).parents[2] / "module_files"
CLEARED = "\x1b[?25h"  # the cursor is shown again
NATIVE = re.compile(r"^[IWE]\d{4} \d\d:\d\d", re.MULTILINE)  # a line of TensorFlow's C++
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def in_terminal(*arguments: object, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Runs the command in a terminal with 200 columns; returns the exit code and the terminal's input."""
    line = [sys.executable, "-m", "generic_trainer.cli.main", *map(str, arguments)]
    main, side = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", **(env or {})}
    with subprocess.Popen(line, stdin=side, stdout=side, stderr=side, env=environment, close_fds=True) as running:
        os.close(side)
        got = b""
        try:
            while chunk := os.read(main, 65536):
                got += chunk
        except OSError:  # the other end was closed
            pass
    os.close(main)
    return running.returncode, got.decode()


LOOP = """
    import time
    import tensorflow as tf
    from generic_trainer import report_progress

    def run_fn(fn_args):
        report_progress(0, total=40)
        for step in range(1, 41):
            time.sleep(0.05)
            report_progress(step, examples=8, metrics={"loss": 1 / step})
        print("printed by the module")
        tf.print("printed by TensorFlow")
        module = tf.Module()
        module.weight = tf.Variable(1.0)
        serve = tf.function(lambda x: {"y": module.weight * x}, input_signature=[tf.TensorSpec([None], name="x")])
        tf.saved_model.save(module, fn_args.serving_model_dir, signatures=serve)
"""


def test_a_terminal_shows_a_live_line_that_does_not_overwrite_other_lines(
    module: Any, iris: Any, tmp_path: pathlib.Path
) -> None:
    code, got = in_terminal("train", module(LOOP), "--train-files", iris.train, "--output", tmp_path / "out")
    plain = CODES.sub("", got)
    assert code == 0, plain
    assert re.search(r"Training .*Step \d+ of 40 · .*steps/s · .*examples/s · loss .* left", plain)
    assert CLEARED in got
    lines = [line.rstrip("\r") for line in plain.split("\n")]
    assert any(line.endswith("printed by the module") for line in lines)
    assert re.search(r"Step 40 of 40, .* steps/s, .* examples/s, loss 0\.0", plain)
    assert any(line.endswith(f"Model:        {tmp_path}/out/model/Format-Serving") for line in lines)


@pytest.mark.thorough
def test_a_dumb_terminal_gets_plain_lines(tiny_module: str, iris: Any, tmp_path: pathlib.Path) -> None:
    arguments = ("train", tiny_module, "--train-files", iris.train, "--output", tmp_path / "out")
    code, got = in_terminal(*arguments, env={"TERM": "dumb"})
    assert code == 0
    assert "\x1b" not in got


@pytest.mark.thorough
def test_logs_of_packages_are_in_a_file_and_the_modules_own_lines_are_shown(
    command: Any, iris: Any, tmp_path: pathlib.Path
) -> None:
    arguments = ("train", MODULES / "iris_keras.py", "--train-files", iris.train, "--eval-files", iris.eval)
    arguments += ("--train-steps", 5, "--output", tmp_path / "out")
    done = command(*arguments)
    shown = done.stdout + done.stderr
    assert f"TensorBoard logs go to {tmp_path}/out/model_run" in shown
    kept = (tmp_path / "out" / "model_run" / "generic-trainer.log").read_text()
    assert "Assets written to" in kept
    assert "Dialect run_fn" in kept
    assert NATIVE.search(kept)
    for line in ("Assets written to", "site-packages"):
        assert line not in shown
    assert not NATIVE.search(shown)
    everything = command("-v", *arguments[:-1], tmp_path / "out2")
    assert "Assets written to" in everything.stderr
    assert not (tmp_path / "out2" / "model_run" / "generic-trainer.log").exists()


def test_the_last_output_of_a_crashed_process_is_shown(
    command: Any, module: Any, iris: Any, tmp_path: pathlib.Path
) -> None:
    crash = """
        import ctypes, os

        def run_fn(fn_args):
            os.write(2, b"written past Python\\n")
            ctypes.string_at(0)
    """
    done = command("train", module(crash), "--train-files", iris.train, "--output", tmp_path / "out")
    assert done.returncode == 1
    assert "written past Python" in done.stderr
    assert re.search(r'trainer_module\.py", line 6 in run_fn', done.stderr)
    assert "ended by SIGSEGV" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("verbose", [(), ("-v",)])
def test_a_remote_output_has_a_local_log(
    command: Any, tiny_module: str, iris: Any, tmp_path: pathlib.Path, verbose: tuple[str, ...]
) -> None:
    arguments = ("train", tiny_module, "--train-files", iris.train, "--output", f"file://{tmp_path}/out")
    done = command(*verbose, *arguments, env={**os.environ, "TMPDIR": str(tmp_path)})
    found = re.search(r"^Logs: +(\S+)$", done.stderr, re.MULTILINE)
    assert bool(found) != bool(verbose)
    assert not found or "Dialect run_fn" in pathlib.Path(found[1]).read_text()


@pytest.mark.thorough
def test_output_contains_no_log_lines_of_tensorflow(
    command: Any, module: Any, iris: Any, tmp_path: pathlib.Path
) -> None:
    path = module(LOOP)
    assert command("train", path, "--train-files", iris.train, "--output", tmp_path / "out").returncode == 0
    (tmp_path / "data.jsonl").write_text('{"x": 2.0}\n')
    asked = ["--model", tmp_path / "out", "--examples", tmp_path / "data.jsonl", "--output", "-"]
    done = command("predict", *asked, new_python=True)
    assert (done.returncode, done.stdout) == (0, '{"y": 2.0}\n'), done.stderr
    assert done.stderr == "1 prediction of the signature 'serving_default': standard output\n"

    (tmp_path / "data.csv").write_text("x,y\n1,0\n2,1\n")
    place = ["--data", tmp_path / "data.csv", "--pipeline-root", tmp_path / "root", "--output", tmp_path / "p.yaml"]
    done = command(
        *["compile", "--to", "kubeflow", "--image", "registry/image:1", "--module-file", path, "--label", "y"],
        *[*place, "--volume", f"claim:{tmp_path}"],
        new_python=True,
    )
    assert done.returncode == 0, done.stderr
    assert not NATIVE.search(done.stderr), done.stderr
