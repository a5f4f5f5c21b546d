"""Trainings with gs:// inputs and outputs, against an emulator under Google's names; see `google_storage/world.py`."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
from typing import Any

import pytest

pytest.importorskip("gcp_storage_emulator", reason="needs gcp-storage-emulator")
if os.geteuid() or not all(map(shutil.which, ("unshare", "ip", "mount", "openssl"))):
    pytest.skip("needs root, for a network namespace", allow_module_level=True)

WORLD = pathlib.Path(__file__).with_name("google_storage") / "world.py"
PROGRAM = """
import glob, json, os, pathlib, subprocess, sys
import tensorflow as tf

train, evaluation, *arguments = sys.argv[1:]
for split, pattern in (("train", train), ("eval", evaluation)):
    for path in glob.glob(pattern):
        tf.io.gfile.copy(path, f"gs://bucket/iris/{split}/{os.path.basename(path)}")


def command(*line):
    return subprocess.run([sys.executable, "-m", "generic_trainer.cli.main", *line], text=True, capture_output=True)

data = ("--train-files", "gs://bucket/iris/train/*", "--eval-files", "gs://bucket/iris/eval/*")
done = command("train", "generic_trainer.module_files.iris_keras", *data, "--train-steps", "40",
               "--output", "gs://bucket/out", *arguments)
found = {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr, "files": []}
if tf.io.gfile.isdir("gs://bucket/out"):
    found["files"] = [
        os.path.join(base, name) for base, _, names in tf.io.gfile.walk("gs://bucket/out") for name in names
    ]
if not done.returncode:
    model = tf.saved_model.load("gs://bucket/out/model/Format-Serving")
    found["signatures"] = list(model.signatures)
    found["show"] = command("show", "gs://bucket/out").stdout
    found["record"] = json.loads(tf.io.gfile.GFile("gs://bucket/out/model_run/run.json").read())
pathlib.Path("found.json").write_text(json.dumps(found))
"""


def in_world(folder: pathlib.Path, fault: str, iris: Any) -> dict[str, Any]:
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
    line = ["unshare", "--net", "--mount", sys.executable, str(WORLD), str(folder), fault]
    program = [sys.executable, str(folder / "program.py"), iris.train, iris.eval]
    done = subprocess.run([*line, *program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", pytest.param("once", marks=pytest.mark.thorough)])
def test_a_training_reads_and_writes_the_bucket(iris: Any, tmp_path: pathlib.Path, fault: str) -> None:
    found = in_world(tmp_path, fault, iris)
    assert found["code"] == 0, found["stderr"]
    assert found["signatures"] == ["serving_default"]
    assert found["record"]["status"] == "succeeded"
    assert "succeeded" in found["show"]
    names = [name.removeprefix("gs://bucket/out/") for name in found["files"]]
    assert {"model_run/report.html", "model_run/run.json", "model_run/error_analysis.json"} <= set(names)
