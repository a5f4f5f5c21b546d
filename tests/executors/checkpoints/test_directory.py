"""The checkpoint folder of a training: reused on retry, separate per training, and deleted on success."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from generic_trainer import FnArgs, TrainingOptions, train
from generic_trainer.executors.checkpoints import directory, fingerprint
from generic_trainer.executors.checkpoints.data_fingerprint import read_inputs
from generic_trainer.executors.checkpoints.directory import step_checkpoint_root, step_checkpoints
from generic_trainer.executors.checkpoints.fingerprint import Identity, compute_identity
from generic_trainer.executors.modules.keras_version import KerasChoice
from generic_trainer.executors.modules.source import find_source
from generic_trainer.executors.runtime.files import file_io
from generic_trainer.executors.runtime.files.content_digests import ContentDigests
from generic_trainer.executors.runtime.process.identity import start_time_of

from ...world.data import outputs_in

DAY = 86400.0
THIS = Identity({"code of taxi.py": "12", "custom_config.rate": 0.1})


@pytest.mark.parametrize(
    ("model_run", "root"),
    [
        ("/root/Trainer/model_run/7", "/root/Trainer/model_run/.checkpoints"),
        ("/runs/penguin-20240102030405/Trainer/model_run/7/", None),
        ("gs://bucket/root/1234/penguin-20240102030405/Trainer_-567/model_run", "gs://bucket/root/1234/.checkpoints/Trainer"),
        (
            "s3://bucket/v2/penguin/0123abcd-0123-abcd-ef01-0123456789ab/Trainer/89abcdef-0123-abcd-ef01-0123456789ab/model_run",
            "s3://bucket/v2/penguin/.checkpoints/Trainer",
        ),
        ("/data/out/model_run", "/data/out/.checkpoints"),
    ],
)  # fmt: skip
def test_the_place_does_not_depend_on_the_execution(model_run: str, root: str | None) -> None:
    assert step_checkpoint_root(model_run) == (root or "/runs/penguin-20240102030405/Trainer/model_run/.checkpoints")


def test_the_key_depends_only_on_code_data_and_arguments(module: Callable[..., str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").write_text("1,2")

    def identity(source: str = "import helper", helper: str = "X = 1", timeout: float = 9, **given: Any) -> Identity:
        path = module(source, helper=helper)
        arguments = {"train_files": [f"{tmp_path}/dat*"], "train_steps": 5, "custom_config": {"rate": 0.1}, **given}
        found = find_source(path, str(tmp_path / "scratch"))
        options = TrainingOptions(seed=arguments.pop("seed", None), timeout=timeout)
        fn_args = FnArgs(**arguments)
        inputs = read_inputs(fn_args, ContentDigests(str(tmp_path)))
        return compute_identity(fn_args, found, None, options, KerasChoice("3", ""), inputs)

    first = identity()
    same = [identity(timeout=1), identity(model_run_dir="other"), identity(serving_model_dir="other")]
    assert {one.key for one in same} == {first.key}
    token = [identity(custom_config={"rate": 0.1, "api_token": text}).key for text in ("a", "b")]
    assert token[0] == token[1]
    others = {
        "code of helper.py": identity(helper="X = 2"),
        "custom_config.rate (0.1, now 0.2)": identity(custom_config={"rate": 0.2}),
        "options.seed (None, now 7)": identity(seed=7),
        "schema_path (None, now '/s')": identity(schema_path="/s"),
    }
    for words, other in others.items():
        assert other.key != first.key
        assert other.differences(first) == [words]
    longer = identity(train_steps=6, custom_config={"rate": 0.1, "epochs": 3})
    assert longer.key != first.key
    assert longer.differences(first) == []
    (tmp_path / "data").write_text("1,3")
    assert identity().differences(first) == ["data of train_files"]


@pytest.fixture
def step(tmp_path: pathlib.Path) -> Callable[..., Any]:
    """A step's checkpoint folder, with a new model run each time."""
    numbers = iter(range(100))

    def opened(identity: Identity = THIS, is_estimator: bool = False) -> Any:
        logs = tmp_path / "model_run" / str(next(numbers))
        logs.mkdir(parents=True)
        (logs / "run.json").write_text("{}")
        return step_checkpoints(step_checkpoint_root(str(logs)), identity, str(logs), is_estimator)

    return opened


def break_off(step: Any, name: str = "ckpt-1") -> pathlib.Path:
    """Saves a file, then raises."""
    with pytest.raises(KeyboardInterrupt), step as folder:  # noqa: PT012
        pathlib.Path(folder.path, name).write_text(name)
        pathlib.Path(folder.model_run_dir, name).write_text(name)
        raise KeyboardInterrupt
    return pathlib.Path(folder.path)


def test_a_retry_finds_the_checkpoints_and_success_deletes_them(step: Callable[..., Any]) -> None:
    left = break_off(step())
    assert left.name == THIS.key
    other = Identity({**THIS.parts, "code of taxi.py": "34"})
    with step(other) as folder:
        assert folder.path == str(left.parent / other.key)
    with step() as folder:
        assert pathlib.Path(folder.path) == left
        assert (left / "ckpt-1").exists()
        assert json.loads((left / "checkpoint.json").read_text()) == {"key": THIS.key, "made_by": THIS.parts}
    assert not left.parent.exists()


def test_an_estimator_trains_there_and_its_files_move_to_the_model_run(step: Callable[..., Any]) -> None:
    break_off(step(is_estimator=True), "graph.pbtxt")
    with step(is_estimator=True) as folder:
        work = pathlib.Path(folder.model_run_dir)
        assert work == pathlib.Path(folder.path, "model_run")
        assert (work / "graph.pbtxt").exists()
        (work / "Format-Serving").mkdir()
        (work / "Format-Serving" / "checkpoint").touch()
        [logs] = pathlib.Path(folder.path).parent.parent.glob("1")
        assert os.listdir(logs) == ["run.json"]
    assert sorted(os.listdir(logs)) == ["Format-Serving", "graph.pbtxt", "run.json"]
    assert os.listdir(logs / "Format-Serving") == ["checkpoint"]


@pytest.fixture
def other_process() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid


def mark(folder: pathlib.Path, **changes: Any) -> None:
    """Changes the record of the process that uses a folder."""
    path = folder / "in_use.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_new_step_deletes_old_folders_that_are_not_in_use(step: Callable[..., Any], other_process: int) -> None:
    folders = {name: break_off(step(Identity({"name": name}))) for name in ("old", "new", "dead", "used", "held")}
    (unknown := folders["old"].parent / "not-ours").mkdir()
    long_ago = time.time() - (directory.KEPT_DAYS + 1) * DAY
    mark(folders["old"], time=long_ago)
    mark(folders["new"], time=long_ago + 2 * DAY)
    mark(folders["dead"], time=long_ago, ended=False, process=2**22 + 1, started="1")
    alive = {"ended": False, "process": other_process, "started": start_time_of(other_process)}
    mark(folders["used"], time=long_ago, **alive)
    with step(Identity({"name": "held"})):
        mark(folders["held"], time=long_ago)
        with step():
            assert {name for name, folder in folders.items() if folder.exists()} == {"new", "used", "held"}
    assert unknown.exists()


def test_a_folder_in_use_is_not_shared(
    step: Callable[..., Any], other_process: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = break_off(step())
    began = start_time_of(other_process)
    mark(left, ended=False, process=other_process, started=began)
    with step() as folder:
        assert folder.path == f"{left}-2"
        with step() as third:
            assert third.path == f"{left}-3"
    mark(left, ended=False, process=other_process, started=f"{began}0")  # an earlier process with the same PID
    with step() as folder:
        assert folder.path == str(left)

    # A machine without heartbeats counts as gone; one that sends them does not.
    monkeypatch.setattr(directory, "HEARTBEAT_SECONDS", 0.2)
    left = break_off(step())
    mark(left, ended=False, host="another", time=time.time())
    break_off(step())
    mark(left, ended=False, host="another", time=time.time())
    threading.Timer(0.2, mark, (left,), {"beats": 1}).start()
    with step() as folder:
        assert folder.path == f"{left}-2"


def test_a_run_marks_its_folder_as_in_use(step: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "HEARTBEAT_SECONDS", 0.05)
    with step() as folder:
        path = pathlib.Path(folder.path, "in_use.json")
        first = json.loads(path.read_text())
        assert (first["host"], first["process"]) == (socket.gethostname(), os.getpid())
        end = time.monotonic() + 30
        while json.loads(path.read_text())["beats"] < 2:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert json.loads(path.read_text())["time"] > first["time"]


def test_outside_pipelines_checkpoints_of_another_training_are_moved_aside(
    module: Callable[..., str], iris: Any, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    def try_(source: str, **given: Any) -> None:
        fn_args = FnArgs(train_files=[iris.train], **outputs_in(tmp_path), **given)
        path = module(source)
        caplog.clear()
        with caplog.at_level(logging.WARNING), pytest.raises(InterruptedError):
            train(path, fn_args, TrainingOptions(isolate=False))

    folder = tmp_path / "model_run" / "checkpoints"
    leave = """
        import os, pathlib
        def run_fn(fn_args):
            folder = pathlib.Path(fn_args.checkpoint_dir)
            (folder / f"ckpt-{len(list(folder.glob('ckpt-*')))}").touch()
            pathlib.Path(fn_args.model_run_dir, "Format-Serving").mkdir(exist_ok=True)
            raise InterruptedError
    """
    try_(leave, train_steps=5)
    try_(leave, train_steps=6)
    assert sorted(os.listdir(folder)) == ["checkpoint.json", "ckpt-0", "ckpt-1"]
    assert "belong to a different training" not in caplog.text
    try_(leave.replace("{len(", "{0 + len("), train_steps=6, custom_config={"rate": 0.1})
    assert sorted(os.listdir(folder)) == ["checkpoint.json", "ckpt-0"]
    said = f"The checkpoints in {folder} belong to a different training: code of trainer_module.py; "
    said += "custom_config.rate (None, "
    assert f"{said}now 0.1). They were moved to {folder}.1; training starts from the beginning." in caplog.text
    assert "Format-Serving" not in caplog.text  # it is empty
    assert sorted(os.listdir(f"{folder}.1")) == ["checkpoint.json", "ckpt-0", "ckpt-1"]
    assert fingerprint.read(str(folder)) != fingerprint.read(f"{folder}.1")
    (folder / "checkpoint.json").write_text("{")
    try_(leave)
    assert (folder / "ckpt-1").exists()  # the file that identifies its training is unreadable


def test_it_works_on_a_tensorflow_file_system() -> None:
    runs = f"ram://{uuid.uuid4().hex}/Trainer/model_run"

    def try_(number: int, found: list[str], error: type[Exception] | None = None) -> str:
        file_io.write_text(f"{runs}/{number}/run.json", "{}")
        with step_checkpoints(step_checkpoint_root(f"{runs}/{number}"), THIS, f"{runs}/{number}", True) as folder:
            assert file_io.listdir(folder.model_run_dir) == found
            file_io.write_text(f"{folder.model_run_dir}/Format-Serving/checkpoint", "x")
            if error:
                raise error
        return folder.path

    with pytest.raises(InterruptedError):
        try_(1, [], InterruptedError)
    path = try_(2, ["Format-Serving"])
    assert sorted(file_io.files_below(f"{runs}/2")) == ["Format-Serving/checkpoint", "run.json"]
    assert not file_io.exists(path)
