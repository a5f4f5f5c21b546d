"""Trainings with gs:// inputs, outputs and checkpoints, against an emulator under Google's names."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("gcp_storage_emulator", reason="needs gcp-storage-emulator")
NAMESPACE = ("unshare", "--net", "--mount")
SERVER = pathlib.Path(__file__).with_name("google_storage_server.py")
MODULES = "generic_trainer.module_files"
# Without Google's metadata server, which gives credentials, and without pauses between attempts.
SETTINGS = {"NO_GCE_CHECK": "true", "GCS_RETRY_CONFIG_INIT_DELAY_TIME_US": "0"}
UPLOAD = """
import glob, os, sys
import tensorflow as tf
for target, pattern in zip(sys.argv[1::2], sys.argv[2::2]):
    for path in glob.glob(pattern):
        tf.io.gfile.copy(path, f"{target}/{os.path.basename(path)}", overwrite=True)
"""


def require_namespaces() -> None:
    """Skips the tests where the server cannot be started."""
    if missing := [name for name in ("unshare", "nsenter", "ip", "openssl") if not shutil.which(name)]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    tried = subprocess.run([*NAMESPACE, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"network namespaces are not permitted: {tried.stderr.strip()}")


class Bucket:
    """The server's bucket.

    Attributes:
      objects: Folder with its objects.
    """

    def __init__(self, folder: pathlib.Path, server: int) -> None:
        self._folder = folder
        self._enter = ["nsenter", "--target", str(server), "--net", "--mount"]
        self.objects = folder / ".cloudstorage" / "bucket"

    def start(self, *command: object) -> subprocess.Popen[str]:
        """Starts Python in the server's network."""
        certificate = str(self._folder / "server.pem")
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        environment |= {**SETTINGS, "CURL_CA_BUNDLE": certificate, "SSL_CERT_FILE": certificate}
        return subprocess.Popen(
            [*self._enter, sys.executable, *map(str, command)], env=environment, cwd=self._folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def run(self, *command: object) -> tuple[int, str]:
        """Runs Python in the server's network; returns the exit code and the output."""
        process = self.start(*command)
        output, _ = process.communicate()
        return process.returncode, output

    def refuse(self, requests: str) -> None:
        """Sets the requests that are answered with status 503; see the server."""
        (self._folder / "fault").write_text(requests)

    def written(self, folder: str) -> list[str]:
        """Returns the names of the objects that were written to a folder, in order."""
        return [name for name in (self._folder / "written").read_text().split("\n") if name.startswith(f"{folder}/")]

    def record(self, folder: str) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.objects / folder / "model_run" / "run.json").read_text())
        return record

    def has_model(self, folder: str) -> bool:
        return (self.objects / folder / "model" / "Format-Serving" / "saved_model.pb").exists()


@pytest.fixture(scope="module")
def served(iris: Any, digits: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A bucket with iris and digits."""
    require_namespaces()
    folder = tmp_path_factory.mktemp("google")
    server = subprocess.Popen(
        [*NAMESPACE, sys.executable, str(SERVER), str(folder)], stdout=subprocess.DEVNULL,
        stderr=(folder / "log").open("w"),
    )  # fmt: skip
    while not (folder / "ready").exists():
        assert server.poll() is None, (folder / "log").read_text()
        time.sleep(0.1)
    bucket = Bucket(folder, server.pid)
    copies = [
        (f"gs://bucket/{name}/{split}", getattr(data, split))
        for name, data in (("iris", iris), ("digits", digits))
        for split in ("train", "eval")
    ]
    code, output = bucket.run("-c", UPLOAD, *[one for pair in copies for one in pair])
    assert code == 0, output
    yield bucket
    server.kill()
    server.wait()


@pytest.fixture
def bucket(served: Bucket) -> Iterator[Bucket]:
    yield served
    served.refuse("nothing")


def train(module: object, data: str, output: str, steps: int) -> list[object]:
    files = ("--train-files", f"gs://bucket/{data}/train/*", "--eval-files", f"gs://bucket/{data}/eval/*")
    command = ("-m", "generic_trainer.cli.main", "train", module)
    return [*command, *files, "--train-steps", steps, "--output", f"gs://bucket/{output}"]


@pytest.mark.slow
@pytest.mark.parametrize("refused", [pytest.param("nothing", marks=pytest.mark.thorough), "first"])
def test_a_training_reads_and_writes_the_bucket(bucket: Bucket, refused: str) -> None:
    bucket.refuse(refused)
    code, output = bucket.run(*train(f"{MODULES}.iris_keras", "iris", refused, 20))
    assert code == 0, output
    assert bucket.record(refused)["status"] == "succeeded"
    assert (bucket.objects / refused / "model_run" / "report.html").exists()
    published = [name for name in bucket.written(refused) if name.startswith(f"{refused}/model/Format-Serving/")]
    assert published[-1].endswith("/saved_model.pb")  # readers look for it
    code, output = bucket.run("-m", "generic_trainer.cli.main", "show", f"gs://bucket/{refused}")
    assert (code, "succeeded" in output) == (0, True), output


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["killed", pytest.param("storage", marks=pytest.mark.thorough)])
def test_the_next_run_resumes_from_the_checkpoint_in_the_bucket(bucket: Bucket, reason: str) -> None:
    line = train(f"{MODULES}.digits_workers", "digits", reason, 600)
    first = bucket.start(*line)
    while not (bucket.objects / reason / "model_run" / "checkpoints" / "checkpoint").exists():
        assert first.poll() is None, first.communicate()[0]
        time.sleep(0.1)
    if reason == "killed":
        os.killpg(first.pid, signal.SIGKILL)
    else:
        bucket.refuse("uploads")
    output, _ = first.communicate()
    assert first.returncode
    assert reason == "killed" or "gs://bucket/storage/" in output.splitlines()[-1]
    assert not bucket.has_model(reason)
    bucket.refuse("nothing")
    code, output = bucket.run(*line)
    assert code == 0, output
    assert "Resuming from" in output
    assert bucket.has_model(reason)


@pytest.mark.slow
@pytest.mark.thorough
def test_a_replaced_object_of_the_same_size_counts_as_changed_data(bucket: Bucket, tmp_path: pathlib.Path) -> None:
    content = (bucket.objects / "iris" / "train" / "part-0.gz").read_bytes()
    upload = ("-c", UPLOAD, "gs://bucket/replaced/train", tmp_path / "part-0.gz")
    copy = ("-c", UPLOAD, "gs://bucket/replaced/eval", tmp_path / "part-0.gz")
    line = train(SERVER.with_name("resumable_module.py"), "replaced", "of_replaced", 20)
    (tmp_path / "part-0.gz").write_bytes(content)
    assert [bucket.run(*upload)[0], bucket.run(*copy)[0], bucket.run(*line)[0]] == [0, 0, 1]
    (tmp_path / "part-0.gz").write_bytes(content[:4] + b"\1\2\3\4" + content[8:])  # another time in gzip's header
    assert bucket.run(*upload)[0] == 0
    code, output = bucket.run(*line)
    assert (code, "preempted" in output) == (1, True), output  # starts from the beginning
    code, output = bucket.run(*line)
    assert code == 0, output  # unchanged: resumes


def test_a_bucket_that_refuses_all_uploads_is_an_error_before_training(bucket: Bucket) -> None:
    bucket.refuse("uploads")
    code, output = bucket.run(*train(f"{MODULES}.iris_keras", "iris", "refused", 20))
    assert code == 2, output
    assert "serving_model_dir=gs://bucket/refused/model/Format-Serving: cannot write there" in output
    assert not (bucket.objects / "refused").exists()
