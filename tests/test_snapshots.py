"""What a user sees of the commands is pinned in `snapshots/`: help texts, the run record, and summaries as JSON.

`test_public_api.py` pins names, options and the component for Kubeflow Pipelines; `components/test_trainer.py` pins
execution properties.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from .world.snapshots import assert_unchanged, masked

Command = Callable[..., subprocess.CompletedProcess[str]]
REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
MODULE = REPOSITORY / "module_files" / "iris_keras.py"
HELP_TEXTS = REPOSITORY / "tests" / "world" / "help_texts.py"


def test_the_help_of_each_command_is_as_before() -> None:
    # Click keeps the first help option of a command: other tests of this process call commands without their group.
    done = subprocess.run([sys.executable, HELP_TEXTS], capture_output=True, text=True, check=True)
    assert_unchanged("snapshots/help.txt", done.stdout)


@pytest.fixture(scope="module")
def iris_run(command: Command, iris: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, str]:
    """The output folder and the JSON summary of a training of iris."""
    folder = tmp_path_factory.mktemp("iris_run") / "out"
    files = ["--train-files", iris.train, "--eval-files", iris.eval, "--schema", iris.schema]
    done = command("train", MODULE, *files, "--output", folder, "--train-steps", 60, "--seed", 1, "--json")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.fixture
def places(iris: Any, iris_run: tuple[pathlib.Path, str]) -> dict[str, str]:
    return {"IRIS": str(pathlib.Path(iris.schema).parent), "OUT": str(iris_run[0]), "REPOSITORY": str(REPOSITORY)}


def as_text(value: object, places: dict[str, str]) -> str:
    return json.dumps(masked(value, places), indent=2, sort_keys=True) + "\n"


@pytest.mark.slow
def test_the_record_and_the_summary_of_a_training_are_as_before(
    iris_run: tuple[pathlib.Path, str], places: dict[str, str]
) -> None:
    folder, summary = iris_run
    record = json.loads((folder / "model_run" / "run.json").read_text(encoding="utf-8"))
    assert_unchanged("snapshots/run.json", as_text(record, places))
    assert_unchanged("snapshots/train.json", as_text(json.loads(summary), places))


@pytest.mark.slow
def test_the_summary_of_check_is_as_before(command: Command, iris: Any, places: dict[str, str]) -> None:
    done = command("check", MODULE, "--train-files", iris.train, "--eval-files", iris.eval, "--json")
    assert done.returncode == 0, done.stderr
    assert_unchanged("snapshots/check.json", as_text(json.loads(done.stdout), places))


@pytest.mark.slow
def test_the_output_of_predict_is_as_before(
    command: Command, iris: Any, iris_run: tuple[pathlib.Path, str], places: dict[str, str]
) -> None:
    done = command("predict", "--model", iris_run[0], "--examples", iris.eval, "--output", "-", "--with-inputs")
    first = json.loads(done.stdout.splitlines()[0])
    assert_unchanged("snapshots/predict.json", as_text({"prediction": first, "summary": done.stderr}, places))
