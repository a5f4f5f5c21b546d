"""kill -9 at any moment: anything at serving_model_dir afterwards is a complete, checked model."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import (
    FnArgs,
    TrainingOptions,
    TrainingProcessError,
    check_saved_model,
    train,
)

# Saves the model twice, with a pause between, so that a kill also hits half-written folders.
SLOW_MODULE = """
    import os, pathlib, time
    import tensorflow as tf

    class Tiny(tf.Module):
        def __init__(self):
            super().__init__()
            self.weights = [tf.Variable(tf.ones([500, 500])) for _ in range(8)]

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def serve(self, examples):
            return {"y": sum(tf.reduce_sum(weight) for weight in self.weights)}

    def run_fn(fn_args):
        model = Tiny()
        pathlib.Path(fn_args.model_run_dir, "pid").write_text(str(os.getpid()))
        for _ in range(4):
            tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
            time.sleep(0.2)
"""


def staged_or_published(folder: pathlib.Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.exists() else []


@pytest.mark.thorough
@pytest.mark.slow
def test_killing_the_training_process_ten_times(module: Callable[..., str], iris: Any, tmp_path: pathlib.Path) -> None:
    path = module(SLOW_MODULE)
    chance = random.Random(0)
    killed = 0
    for number in range(10):
        out = tmp_path / f"out-{number}"
        fn_args = FnArgs(
            train_files=[iris.train],
            eval_files=[iris.eval],
            serving_model_dir=str(out / "model" / "Format-Serving"),
            model_run_dir=str(out / "model_run"),
        )
        killer = _kill_after(out / "model_run" / "pid", chance.uniform(0.0, 1.2))
        try:
            train(path, fn_args, TrainingOptions(skip_checks=("answers",)))
        except TrainingProcessError as error:
            killed += "ended by SIGKILL" in str(error)
            assert staged_or_published(out / "model") == []
        else:
            assert staged_or_published(out / "model") == ["Format-Serving"]
        finally:
            killer.wait()
    assert killed >= 5


def _kill_after(pid_file: pathlib.Path, seconds: float) -> subprocess.Popen[bytes]:
    """Starts a process that waits for a file with a PID, then kills that process shortly after."""
    program = f"""
import os, pathlib, signal, time
file = pathlib.Path({str(pid_file)!r})
while not (file.exists() and file.read_text()):
    time.sleep(0.01)
time.sleep({seconds})
try:
    os.kill(int(file.read_text()), signal.SIGKILL)
except ProcessLookupError:
    pass
"""
    return subprocess.Popen([sys.executable, "-c", program])


@pytest.mark.thorough
@pytest.mark.slow
def test_killing_the_whole_command(module: Callable[..., str], iris: Any, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out"
    arguments = ["train", module(SLOW_MODULE), "--train-files", iris.train, "--eval-files", iris.eval, "--output", out]
    line = [sys.executable, "-m", "generic_trainer.cli.main", *map(str, arguments)]
    for number, moment in enumerate((signal.SIGKILL, signal.SIGTERM)):
        pid_file = out / "model_run" / "pid"
        pid_file.unlink(missing_ok=True)
        running = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 120
        while not (pid_file.exists() and pid_file.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        child = int(pid_file.read_text())
        running.send_signal(moment)
        running.communicate()
        while os.path.exists(f"/proc/{child}") and "Z" not in pathlib.Path(f"/proc/{child}/stat").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert not (out / "model" / "Format-Serving").exists()
        left = staged_or_published(out / "model")
        # SIGTERM leaves nothing; SIGKILL leaves only names that model readers ignore.
        assert left == [] if number else all(name.startswith(".staging-") for name in left)
    subprocess.run(line, check=True, capture_output=True)
    assert staged_or_published(out / "model") == ["Format-Serving"]
    check_saved_model(str(out / "model" / "Format-Serving"), [iris.eval])
