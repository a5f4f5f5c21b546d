"""Commands use no network if their data and module are on this machine.

A small library is preloaded into all processes of the command. It rejects and records connections and name lookups that
leave this machine, from Python and C++ code.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer.executors.compat.beam import IN_PROCESS, in_process_by_default

HERE = pathlib.Path(__file__).parent
MODULES = HERE.parent.parent / "module_files"
Guarded = Callable[..., list[str]]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler, and Linux")
    path = tmp_path_factory.mktemp("library") / "no_network.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, HERE / "no_network.c", "-ldl"], check=True)
    return path


@pytest.fixture
def guarded(library: pathlib.Path, tmp_path: pathlib.Path) -> Guarded:
    """Runs a Python command line without a network; returns its attempts to use it."""

    def run(*line: object) -> list[str]:
        log = tmp_path / "attempts.log"
        environment = {**os.environ, "LD_PRELOAD": str(library), "NETWORK_LOG": str(log), "HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, *map(str, line)], env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return log.read_text().splitlines() if log.exists() else []

    return run


COMMAND = ("-m", "generic_trainer.cli.main")


def test_the_network_guard_detects_attempts_of_child_processes(guarded: Guarded) -> None:
    inner = "import socket; s = socket.socket(); s.connect_ex(('192.0.2.9', 80)); s.connect_ex(('127.0.0.1', 9))"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}], check=True)"
    [attempt] = guarded("-c", outer)
    assert attempt.startswith("connect 192.0.2.9: ")


BEAM = """
import sys
import apache_beam as beam
with beam.Pipeline(argv=sys.argv[1:]) as pipeline:
    _ = pipeline | beam.Create([1, 2, 3]) | beam.combiners.Count.Globally() | beam.Map(print)
"""


def test_beam_downloads_no_runner(guarded: Guarded) -> None:
    assert guarded("-c", BEAM, IN_PROCESS) == []


def test_a_runner_set_by_the_user_takes_precedence() -> None:
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

    from generic_trainer.pipelines.definition.options import PipelineOptions as Options
    from generic_trainer.pipelines.definition.steps import beam_args_of

    def runner(*beam_args: str) -> str:
        options = Options(data="d", module_file="m", beam_args=beam_args)
        return PipelineOptions(beam_args_of(options)).view_as(StandardOptions).runner

    assert runner("--runner=DataflowRunner") == "DataflowRunner"
    assert runner() == runner("--setup_file=x") == IN_PROCESS.partition("=")[2]
    before = StandardOptions.DEFAULT_RUNNER
    with in_process_by_default():
        assert runner() == StandardOptions.DEFAULT_RUNNER
    assert before == StandardOptions.DEFAULT_RUNNER


@pytest.mark.thorough_cases("check")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["train", "check"])
def test_train_and_check_reach_for_no_network(guarded: Guarded, iris: Any, tmp_path: pathlib.Path, name: str) -> None:
    data = ("--train-files", iris.train, "--eval-files", iris.eval, "--train-steps", 5)
    output = ("--output", tmp_path / "out") if name == "train" else ()
    assert guarded(*COMMAND, name, MODULES / "iris_keras.py", *data, *output) == []


@pytest.mark.thorough
@pytest.mark.slow
def test_run_uses_no_network(guarded: Guarded, taxi_csv: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Runs all eight steps, with the Transform of the preflight check and an Evaluator.

    The model must learn enough to be pushed: after only a few steps its AUC is below 0.5 in half of the cases.
    """
    arguments = ("--module-file", MODULES / "taxi_keras.py", "--label", "big_tip", "--check", "--train-steps", 200)
    root = ("--pipeline-root", tmp_path / "root", "--eval-steps", 2)
    assert guarded(*COMMAND, "run", "--data", taxi_csv, *arguments, *root) == []
