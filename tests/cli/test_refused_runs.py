"""A refused command changes nothing: no folder is renamed, no record, log or output of an earlier run is touched."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from generic_trainer.executors.training.run_lock import hold_run_lock

from ..world.modules import with_tiny

Command = Callable[..., subprocess.CompletedProcess[str]]
MODULES = pathlib.Path(__file__).resolve().parents[2] / "module_files"

MODULE = with_tiny("""
    def run_fn(fn_args):
        model = Tiny()
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
""")
SCRIPT = with_tiny("""
    model = Tiny()
    tf.saved_model.save(model, "exported", signatures=model.serve)
""")
TRAIN = ["train", "tiny.py", "--train-files", "train*", "--output", "trained"]
SCRIPTED = ["--output", "scripted"]
ELASTICDL = ["elasticdl", "train", "--output=elastic", "--num_epochs=1", "--minibatch_size=16"]
ELASTICDL += ["--data_reader_params=columns=['a','b','c','d','variety']"]
ZOO, MODEL, DATA = "--model_zoo=.", "--model_def=iris_elasticdl.custom_model", "--training_data=iris.csv"
RUN = ["run", "--label", "variety", "--pipeline-root", "root"]
PREDICT = ["predict", "--output", "predictions.jsonl"]
NO_SERVER = ["--metadata", "mysql://user@localhost:1/metadata"]
ZERO_OF_TWO = json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}})

# {refusal: words of the command}; the part of a name after " | " is a condition during the command.
REFUSALS: dict[str, list[str]] = {
    "train without a module": ["train", "gone.py", *TRAIN[2:]],
    "train without data": [*TRAIN, "--train-files", "gone*"],
    "train without evaluation data": [*TRAIN, "--eval-files", "gone*"],
    "train without a schema": [*TRAIN, "--schema", "gone.pbtxt"],
    "train with another file as schema": [*TRAIN, "--schema", "iris.csv"],
    "train without a transform graph": [*TRAIN, "--transform-graph", "gone"],
    "train with a bad custom config": [*TRAIN, "--custom-config", "[1]"],
    "train with an unknown dialect": [*TRAIN, "--dialect", "gone"],
    "train quietly without data": [*TRAIN, "--quiet", "--train-files", "gone*"],
    "train on a local cluster without data": [*TRAIN, "--cluster", "worker=2", "--train-files", "gone*"],
    "train on a Ray cluster that does not answer": [*TRAIN, "--engine", "ray", "--cluster-address", "localhost:1"],
    "train with a source that is not UTF-8": ["train", "latin.py", *TRAIN[2:]],
    "train with a bad TF_CONFIG | TF_CONFIG": TRAIN,
    "train on a used port | port": TRAIN,
    "train in a used folder | lock trained/model_run": TRAIN,
    "train on a local cluster in a used folder | lock trained/model_run": [*TRAIN, "--cluster", "worker=1"],
    "script without a file": ["script", "gone.py", *SCRIPTED],
    "script in a used folder | lock scripted/model_run": ["script", "script.py", *SCRIPTED],
    "elasticdl train without a zoo": [*ELASTICDL, "--model_zoo=gone", MODEL, DATA],
    "elasticdl train without a model file": [*ELASTICDL, ZOO, "--model_def=gone.custom_model", DATA],
    "elasticdl train without data": [*ELASTICDL, ZOO, MODEL, "--training_data=gone.csv"],
    "elasticdl train without validation data": [*ELASTICDL, ZOO, MODEL, DATA, "--validation_data=gone.csv"],
    "elasticdl train in a used folder | lock elastic_run": [*ELASTICDL, ZOO, MODEL, DATA],
    "dlrover without a conf": ["dlrover", "--conf=gone.TrainConf", "--output", "trained"],
    "dlrover in a used folder | lock trained/model_run": ["dlrover", "--conf=linear_dlrover.TrainConf", *TRAIN[-2:]],
    "run without data": [*RUN, "--data", "gone", "--module-file", "tiny.py"],
    "run without a module": [*RUN, "--data", "iris.csv", "--module-file", "gone.py"],
    "run without a module, with data to convert": [*RUN, "--data", "semicolons.csv", "--module-file", "gone.py"],
    "run without a schema": [*RUN, "--data", "iris.csv", "--module-file", "tiny.py", "--schema", "gone.pbtxt"],
    "run with another name": [*RUN, "--data", "iris.csv", "--module-file", "tiny.py", "--pipeline-name", "other"],
    "run without a metadata server": [*RUN, "--data", "iris.csv", "--module-file", "tiny.py", *NO_SERVER],
    "run in a new root without a metadata server": [
        *["run", "--label", "variety", "--pipeline-root", "new", "--data", "iris.csv", "--module-file", "tiny.py"],
        *NO_SERVER,
    ],
    "run in a used root | lock root": [*RUN, "--data", "iris.csv", "--module-file", "tiny.py"],
    "run in a used root, with data to convert | lock root": [
        *RUN,
        "--data",
        "semicolons.csv",
        "--module-file",
        "tiny.py",
    ],
    "predict without a model": [*PREDICT, "--model", "gone", "--examples", "train*"],
    "predict without examples": [*PREDICT, "--model", "trained", "--examples", "gone*"],
    "predict with other examples": [*PREDICT, "--model", "trained", "--examples", "iris.csv"],
    "init without data": ["init", "project", "--data", "gone.csv", "--force"],
    "init without the label": ["init", "project", "--data", "iris.csv", "--label", "gone", "--force"],
    "init in a new folder without the label": ["init", "new/sub", "--data", "iris.csv", "--label", "gone"],
    "submit with local files": ["submit", "--to", "kuberay", "--image", "i:1", "--output", "job.yaml", "--", *TRAIN],
    "report without a run": ["report", "gone", "--output", "report.html"],
}
_FAST = ("train without data", "train in a used", "script in a", "elasticdl train without data", "run without a mod")


def _case(name: str) -> Any:
    return pytest.param(name, marks=[] if name.startswith(_FAST) else [pytest.mark.thorough], id=name)


@pytest.fixture(scope="module")
def finished(command: Command, iris: Any, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with modules and data, the outputs of successful runs, and other files that commands may replace."""
    folder = tmp_path_factory.mktemp("finished")
    shutil.copy(pathlib.Path(iris.train).parent / "part-0.gz", folder / "train-0.gz")
    (folder / "tiny.py").write_text(MODULE)
    (folder / "script.py").write_text(SCRIPT)
    (folder / "latin.py").write_bytes("x = 'é'\n".encode("latin-1"))
    for name in ("iris_elasticdl.py", "linear_dlrover.py"):
        shutil.copy(MODULES / name, folder)
    rows = [f"{row / 10},1,2,3,{row % 3}" for row in range(60)]
    (folder / "iris.csv").write_text("\n".join(["a,b,c,d,variety", *rows]) + "\n")
    (folder / "semicolons.csv").write_text((folder / "iris.csv").read_text().replace(",", ";"))
    (folder / "root" / "logs").mkdir(parents=True)
    (folder / "root" / "generic_trainer_pipeline.json").write_text('{"pipeline_name": "tiny"}\n')
    (folder / "project").mkdir()
    for name in ("predictions.jsonl", "job.yaml", "report.html", "project/pipeline.yaml", "root/logs/1.log"):
        (folder / name).write_text("of an earlier command\n")
    for line in (TRAIN, ["script", "script.py", *SCRIPTED], [*ELASTICDL, ZOO, MODEL, DATA]):
        done = command(*line, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def snapshot(folder: pathlib.Path) -> dict[str, tuple[object, ...]]:
    """Returns size, time and content of all files, and the times of folders; byte code is not an output."""
    state: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if "__pycache__" not in path.parts:
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
            state[str(path.relative_to(folder))] = (status.st_size, status.st_mtime_ns, content)
    return state


@contextlib.contextmanager
def surroundings(folder: pathlib.Path, what: str) -> Iterator[dict[str, str]]:
    """Holds a lock or a port during the block; yields variables for the command."""
    kind, _, path = what.partition(" ")
    if kind == "lock":
        with hold_run_lock(str(folder / path)):
            yield {}
    elif kind == "port":
        with socket.create_server(("localhost", 0)) as server:
            address = f"localhost:{server.getsockname()[1]}"
            task = {"cluster": {"worker": [address]}, "task": {"type": "worker", "index": 0}}
            yield {"TF_CONFIG": json.dumps(task)}
    else:
        yield {"TF_CONFIG": ZERO_OF_TWO} if kind else {}


@pytest.mark.parametrize("name", [_case(name) for name in REFUSALS])
def test_a_refused_command_changes_nothing(name: str, command: Command, finished: pathlib.Path) -> None:
    before = snapshot(finished)

    with surroundings(finished, name.partition(" | ")[2]) as variables:
        done = command(*REFUSALS[name], cwd=finished, env={**os.environ, **variables})

    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("generic-trainer: ")
    after = snapshot(finished)
    assert {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)} == set()


def test_a_run_that_is_not_refused_keeps_the_finished_one(command: Command, finished: pathlib.Path) -> None:
    before = json.loads((finished / "trained" / "model_run" / "run.json").read_text())["id"]
    done = command(*TRAIN, cwd=finished)
    assert done.returncode == 0, done.stderr
    assert json.loads((finished / "trained" / "model_run.1" / "run.json").read_text())["id"] == before
    assert json.loads((finished / "trained" / "model_run" / "run.json").read_text())["id"] != before
