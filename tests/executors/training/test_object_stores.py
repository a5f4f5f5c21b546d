"""Trainings with s3:// inputs and outputs, against moto's server."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("s3fs", reason="needs the extra s3")
flask = pytest.importorskip("flask")

from generic_trainer import FnArgs, InputError, StorageError, TrainingOptions  # noqa: E402
from generic_trainer.executors.features.object_stores.copies import local_copies  # noqa: E402
from generic_trainer.executors.runtime.files import file_io, object_store  # noqa: E402
from generic_trainer.executors.training.run import train  # noqa: E402

IRIS = "generic_trainer.module_files.iris_keras"
RESUMABLE = str(pathlib.Path(__file__).with_name("resumable_module.py"))


class Store:
    """moto's S3 server, with a log of the writing requests, and faults.

    Attributes:
      written: Keys of the objects that were written, in order.
      fails: Called with the method and the key of each request; whether the server answers with status 503.
    """

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        self.written: list[str] = []
        self.fails: Callable[[str, str], bool] = lambda method, key: False
        application = DomainDispatcherApplication(create_backend_app)

        def serve(environ: dict[str, Any], start_response: Any) -> Any:
            method, key = environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix("/bucket/")
            if self.fails(method, key):
                start_response("503 Slow Down", [("Content-Type", "text/plain")])
                return [b"busy"]
            if method == "PUT":
                self.written.append(key)
            return application(environ, start_response)

        self._server = make_server("127.0.0.1", 0, serve, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    import boto3
    import s3fs
    from moto.s3 import s3_backends

    server = Store()
    for backend in s3_backends.values():
        backend["aws"].reset()
    variables = {
        "AWS_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "2", "no_proxy": "127.0.0.1",
    }  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="bucket")
    object_store.object_store.cache_clear()
    s3fs.S3FileSystem.clear_instance_cache()
    yield server
    server.stop()
    object_store.object_store.cache_clear()
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def data(store: Store, iris: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> FnArgs:
    """Arguments of a training with all paths in the bucket; local copies are in `tmp_path / "tmp"`."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for split, pattern in (("train", iris.train), ("eval", iris.eval)):
        for path in file_io.glob(pattern):
            file_io.copy(path, f"s3://bucket/iris/{split}/{os.path.basename(path)}")
    file_io.copy(iris.schema, "s3://bucket/iris/schema.pbtxt")
    return FnArgs(
        train_files=["s3://bucket/iris/train/*"], eval_files=["s3://bucket/iris/eval/*"], train_steps=40,
        schema_path="s3://bucket/iris/schema.pbtxt", serving_model_dir="s3://bucket/out/model/Format-Serving",
        model_run_dir="s3://bucket/out/model_run",
    )  # fmt: skip


def record_of(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file_io.read_text(f"{folder}/run.json"))
    return found


def test_files(store: Store, tmp_path: pathlib.Path) -> None:
    file_io.write_text("s3://bucket/a/one.txt", "1")
    file_io.write_text("s3://bucket/a/b/two.txt", "22")
    assert file_io.read_text("s3://bucket/a/one.txt") == "1"
    assert file_io.listdir("s3://bucket/a") == ["b", "one.txt"]
    assert sorted(file_io.files_below("s3://bucket/a")) == ["b/two.txt", "one.txt"]
    assert file_io.glob("s3://bucket/a/*.txt") == ["s3://bucket/a/one.txt"]
    assert file_io.size_of("s3://bucket/a/b/two.txt") == 2
    assert (file_io.isdir("s3://bucket/a"), file_io.isdir("s3://bucket/c")) == (True, False)
    file_io.move("s3://bucket/a", "s3://bucket/c")
    assert (file_io.exists("s3://bucket/a"), file_io.exists("s3://bucket/c/b/two.txt")) == (False, True)
    file_io.copytree("s3://bucket/c", str(tmp_path / "c"))
    assert (tmp_path / "c" / "b" / "two.txt").read_text() == "22"
    file_io.rmtree("s3://bucket/c")
    assert not file_io.exists("s3://bucket/c")
    with pytest.raises(FileNotFoundError):
        file_io.read_bytes("s3://bucket/c/b/two.txt")


def test_a_training_reads_and_writes_the_bucket(store: Store, data: FnArgs, tmp_path: pathlib.Path) -> None:
    import tensorflow as tf

    record = train(IRIS, data, TrainingOptions())
    written = [key for key in store.written if key.startswith("out/")]
    models = [key for key in written if "/Format-Serving/" in key]
    assert models[-1].endswith("saved_model.pb")  # readers look for it
    assert written[-1] == "out/model_run/run.json"
    assert written.index(models[-1]) < len(written) - 1
    file_io.copytree(data.serving_model_dir, str(tmp_path / "model"))
    assert "serving_default" in tf.saved_model.load(str(tmp_path / "model")).signatures
    assert record.status == "succeeded"
    found = record_of(data.model_run_dir)
    assert found["arguments"]["train_files"] == ["s3://bucket/iris/train/*"]
    assert file_io.exists("s3://bucket/out/model_run/report.html")
    assert not list((tmp_path / "tmp").glob("generic-trainer-copies-*"))


def test_the_command_and_show_work_with_the_bucket(data: FnArgs, tmp_path: pathlib.Path) -> None:
    line = [
        *(sys.executable, "-m", "generic_trainer.cli.main", "train", IRIS, "--train-files", data.train_files[0]),
        *("--eval-files", data.eval_files[0], "--train-steps", "20", "--output", "s3://bucket/command"),
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "s3://bucket/command/model/Format-Serving" in done.stdout
    line[3:] = ["show", "s3://bucket/command"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "succeeded" in done.stdout


def test_a_failed_run_leaves_its_record_and_no_model(data: FnArgs, tmp_path: pathlib.Path) -> None:
    module = tmp_path / "failing.py"
    module.write_text("def run_fn(fn_args):\n    raise OSError('the disk is on fire')\n")
    with pytest.raises(OSError, match="the disk is on fire"):
        train(str(module), data, TrainingOptions())
    assert record_of(data.model_run_dir)["status"] == "failed"
    assert not file_io.exists(data.serving_model_dir)


def test_another_machine_resumes_from_the_uploaded_checkpoint(data: FnArgs) -> None:
    with pytest.raises(RuntimeError, match="preempted"):
        train(RESUMABLE, data, TrainingOptions())
    record = train(RESUMABLE, data, TrainingOptions())
    assert record.status == "succeeded"


def test_a_replaced_object_of_the_same_size_counts_as_changed_data(data: FnArgs) -> None:
    with pytest.raises(RuntimeError, match="preempted"):
        train(RESUMABLE, data, TrainingOptions())
    [path] = file_io.glob(data.train_files[0])
    content = file_io.read_bytes(path)
    file_io.write_bytes(path, content[:4] + b"\1\2\3\4" + content[8:])  # another time in the header of gzip
    with pytest.raises(RuntimeError, match="preempted"):  # starts from the beginning
        train(RESUMABLE, data, TrainingOptions())


def test_the_staged_model_of_a_killed_run_is_still_there_for_the_next_one(data: FnArgs) -> None:
    with local_copies(data) as (local, outputs), outputs.uploaded():
        staged = pathlib.Path(str(local.serving_model_dir)).parent / ".staging-1f0c92ab" / "written"
    staged.mkdir(parents=True)  # a run that ends by itself deletes its folder
    with pytest.raises(InputError), local_copies(data):
        raise InputError("refused before anything was uploaded")
    with local_copies(data) as (local, outputs), outputs.uploaded():
        assert staged.exists()


def test_a_busy_server_is_asked_again(store: Store, data: FnArgs) -> None:
    refused: dict[str, int] = {}

    def fails(method: str, key: str) -> bool:
        refused[key] = refused.get(key, 0) + 1
        return refused[key] == 1 and method == "PUT"

    store.fails = fails
    assert train(IRIS, data, TrainingOptions()).status == "succeeded"
    assert file_io.exists(f"{data.serving_model_dir}/saved_model.pb")


def test_a_server_that_stays_down_ends_the_run_and_keeps_the_model(store: Store, data: FnArgs) -> None:
    def train_and_upload() -> None:
        with local_copies(data) as (local, outputs), outputs.uploaded():
            pathlib.Path(local.serving_model_dir).mkdir(parents=True)
            (pathlib.Path(local.serving_model_dir) / "saved_model.pb").write_text("trained for days")
            store.fails = lambda method, key: True

    begun = time.monotonic()
    with pytest.raises(StorageError, match=r"Check the address, the network, and the credentials") as caught:
        train_and_upload()
    assert time.monotonic() - begun < 120  # a bound, not a speed
    [note] = caught.value.__notes__ if hasattr(caught.value, "__notes__") else [str(caught.value)]
    folder = note.rpartition(" ")[2].rstrip(".")
    assert list(pathlib.Path(folder).rglob("saved_model.pb"))
    store.fails = lambda method, key: False
    assert not file_io.exists(f"{data.serving_model_dir}/saved_model.pb")


def test_what_is_missing_or_impossible_is_said(data: FnArgs, monkeypatch: pytest.MonkeyPatch) -> None:
    data.train_files = ["s3://bucket/iris/nothing/*"]
    with pytest.raises(InputError, match=r"train_files: no file matches 's3://bucket/iris/nothing/\*'"):
        train(IRIS, data, TrainingOptions())
    data.train_files = ["s3://bucket/iris/train/*"]
    with pytest.raises(InputError, match=r"s3://bucket/iris/train.*: a cluster's workers need files"):
        train(IRIS, data, TrainingOptions(engine="ray"))
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10})())
    with pytest.raises(InputError, match="set TMPDIR to a larger disk"):
        train(IRIS, data, TrainingOptions())
