"""Callbacks and engines of other packages: the order of phases, exceptions, results, and the option `--engine`."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from generic_trainer import FnArgs, InputError, RunCallback, TrainingOptions, train
from generic_trainer.executors.training.run_state import Run

HERE = TrainingOptions(isolate=False)
PHASES = ("setup", "inputs", "run", "record", "training", "attempt", "check", "publish", "published")
EXTENSIONS = """
import contextlib
from generic_trainer import FnArgs, RunCallback, WorkerCallback
from generic_trainer.executors.engines.local import LocalEngine


class Queue(LocalEngine):
    def execute(self, start):
        print("submitted to the queue")
        return super().execute(start)


class Seen(WorkerCallback):
    def result(self, returned):
        return {"training_steps": self.request.fn_args.train_steps}


class Merged(WorkerCallback):
    def result(self, returned):
        return "seen"


class Merging(RunCallback):
    def merge(self, part, run):
        run.record.metrics["merged"] = {part: 1.0}


class Shortened(WorkerCallback):
    def imported(self, module):
        self._module = module

    def chosen(self, name, evidence):
        self._module.DIALECT = name

    def arguments(self, fn_args):
        return FnArgs(**{**vars(fn_args), "train_steps": 1})


class FailingAround(WorkerCallback):
    @contextlib.contextmanager
    def around(self):
        yield
        raise ValueError("no flops")


class FailingMerge(RunCallback):
    def merge(self, part, run):
        raise ValueError(f"not {part}")
"""


class Phases(RunCallback):
    """Notes the phases, and raises an exception in one of them."""

    def __init__(self, fails_in: str = "") -> None:
        self.noted: list[str] = []
        self._fails_in = fails_in

    @contextlib.contextmanager
    def _note(self, phase: str) -> Iterator[None]:
        self.noted.append(phase)
        try:
            yield
        finally:
            self.noted.append(f"end of {phase}")
        if phase == self._fails_in:
            raise InputError(f"no {phase}")

    def __getattribute__(self, name: str) -> object:
        if name in (*PHASES, "evaluator"):
            return lambda run: self._note(name)
        return super().__getattribute__(name)


def test_phases_are_nested_in_their_order(tiny_module: str, fn_args: FnArgs) -> None:
    phases = Phases()
    train(tiny_module, fn_args, HERE, callbacks=[phases])
    assert [phase for phase in phases.noted if phase in PHASES] == list(PHASES)
    ended = [phase.removeprefix("end of ") for phase in phases.noted if phase.startswith("end of ")]
    assert ended == ["inputs", "attempt", "training", "check", "publish", "published", "record", "run", "setup"]


@pytest.mark.parametrize("phase", ["inputs", "training", "check"])
def test_an_exception_of_a_callback_fails_the_run_before_the_model_is_published(
    phase: str, tiny_module: str, fn_args: FnArgs
) -> None:
    phases = Phases(fails_in=phase)
    with pytest.raises(InputError, match=f"no {phase}"):
        train(tiny_module, fn_args, HERE, callbacks=[phases])
    assert not pathlib.Path(fn_args.serving_model_dir).exists()
    assert phases.noted[-1] == "end of setup"


@pytest.mark.parametrize("phase", ["publish", "published", "record", "setup"])
def test_an_exception_of_a_callback_is_a_warning_when_the_model_is_published(
    phase: str, tiny_module: str, fn_args: FnArgs, caplog: pytest.LogCaptureFixture
) -> None:
    assert train(tiny_module, fn_args, HERE, callbacks=[Phases(fails_in=phase)]).status == "succeeded"
    assert f"The model was published, but a later step failed: InputError: no {phase}" in caplog.text


def test_a_callback_may_replace_the_arguments_of_the_run(
    tiny_module: str, fn_args: FnArgs, tmp_path: pathlib.Path
) -> None:
    class Elsewhere(RunCallback):
        @contextlib.contextmanager
        def setup(self, run: Run) -> Iterator[None]:
            run.fn_args = FnArgs(**{**vars(run.fn_args), "serving_model_dir": str(tmp_path / "moved" / "model")})
            yield

    train(tiny_module, fn_args, HERE, callbacks=[Elsewhere()])
    assert (tmp_path / "moved" / "model" / "saved_model.pb").exists()
    assert not pathlib.Path(fn_args.serving_model_dir).exists()


@pytest.fixture
def extensions(tmp_path: pathlib.Path) -> dict[str, str]:
    """The environment of commands that see a package with an engine and callbacks."""
    information = tmp_path / "packages" / "extensions-1.0.dist-info"
    information.mkdir(parents=True)
    (information.parent / "extensions.py").write_text(EXTENSIONS)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: extensions\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[generic_trainer.engines]\nqueue = extensions:Queue\n"
        "[generic_trainer.run_callbacks]\nmerged = extensions:Merging\n"
        "[generic_trainer.worker_callbacks]\nseen = extensions:Seen\nmerged = extensions:Merged\n"
    )
    return {**os.environ, "PYTHONPATH": str(information.parent)}


def train_with(
    extensions: dict[str, str], module: str, folder: pathlib.Path, engine: str = "queue"
) -> subprocess.CompletedProcess[str]:
    """Runs `train`, by default with the engine of the package."""
    command = [sys.executable, "-m", "generic_trainer.cli.main", "train", module, "--output", str(folder)]
    return subprocess.run(
        [*command, "--engine", engine, "--train-steps", "3"],
        env=extensions,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_callback_of_the_worker_gets_the_module_and_its_dialect_and_may_change_the_arguments(
    extensions: dict[str, str], module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    [entry_points] = (tmp_path / "packages").glob("*/entry_points.txt")
    entry_points.write_text("[generic_trainer.worker_callbacks]\nshort = extensions:Shortened\n")
    path = module("def run_fn(fn_args): raise ValueError(f'{DIALECT}, step {fn_args.train_steps}')")
    done = train_with(extensions, path, tmp_path / "out", "local")
    assert "ValueError: run_fn, step 1" in done.stderr


def test_the_engine_and_the_callbacks_of_a_package_take_part_in_a_run(
    extensions: dict[str, str], tiny_module: str, tmp_path: pathlib.Path
) -> None:
    done = train_with(extensions, tiny_module, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "submitted to the queue" in done.stdout
    record = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())
    assert record["arguments"]["options"]["engine"] == "queue"
    assert record["parts"] == {"seen": {"training_steps": 3}}
    assert record["metrics"]["merged"] == {"seen": 1.0}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("[generic_trainer.run_callbacks]\ngone = extensions:Gone", "extensions:Gone, which the package extensions"),
        ("[generic_trainer.worker_callbacks]\nflops = extensions:FailingAround", "ValueError: no flops"),
        ("[generic_trainer.run_callbacks]\nseen = extensions:FailingMerge", "run callback 'seen'"),
    ],
)
def test_a_faulty_callback_of_a_package_fails_the_run_and_is_named(
    entry: str, message: str, extensions: dict[str, str], tiny_module: str, tmp_path: pathlib.Path
) -> None:
    [entry_points] = (tmp_path / "packages").glob("*/entry_points.txt")
    group, _, name = entry.partition("\n")
    entry_points.write_text(entry_points.read_text().replace(group, f"{group}\n{name}"))
    done = train_with(extensions, tiny_module, tmp_path / "out")
    assert done.returncode != 0
    assert message in done.stderr
    assert not (tmp_path / "out" / "model" / "Format-Serving").exists()


def test_a_check_loads_no_worker_callback_that_it_does_not_use(
    extensions: dict[str, str], tiny_module: str, tmp_path: pathlib.Path
) -> None:
    [entry_points] = (tmp_path / "packages").glob("*/entry_points.txt")
    entry_points.write_text("[generic_trainer.worker_callbacks]\ngone = extensions:Gone\n")
    command = [sys.executable, "-m", "generic_trainer.cli.main", "check", tiny_module, "--train-steps", "3"]
    done = subprocess.run(command, env=extensions, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_unknown_engine_is_reported_with_the_installed_ones() -> None:
    with pytest.raises(InputError, match=r"choose from local, ray\. Did you mean 'ray'\?"):
        TrainingOptions(engine="rya")
