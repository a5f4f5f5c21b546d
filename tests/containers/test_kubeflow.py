"""Kubeflow's steps in containers: `kfp.local.DockerRunner` runs the component and a whole compiled pipeline.

kfp.local has no retries, caches, volumes or resources; they are tested on the specification in `tests/pipelines`.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import docker
import pytest
from kfp import components, dsl, local

from . import kfp_local, next_step

pytestmark = pytest.mark.usefixtures("docker_host")
MODULE = """
from generic_trainer.module_files.iris_keras import *
from generic_trainer.module_files import iris_keras

def run_fn(fn_args):
    if (fn_args.custom_config or {}).get("fails"):
        raise OSError("the disk is on fire")
    iris_keras.run_fn(fn_args)
"""


@pytest.fixture(scope="module")
def docker_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Serves Docker's API by podman."""
    socket = tmp_path_factory.mktemp("engine") / "podman.sock"
    service = subprocess.Popen(["podman", "system", "service", "--time=0", f"unix://{socket}"])
    os.environ["DOCKER_HOST"] = f"unix://{socket}"
    while not socket.exists():
        assert service.poll() is None
        time.sleep(0.1)
    yield
    del os.environ["DOCKER_HOST"]
    service.terminate()
    service.wait()


@pytest.fixture
def root(out: pathlib.Path, examples: pathlib.Path) -> pathlib.Path:
    """A pipeline root; containers see it at the same path, and the data at /data."""
    mounts = [docker.types.Mount("/data", str(examples), type="bind", read_only=True)]
    for name in ("root", "workspace"):
        (out / name).mkdir()
        os.chown(out / name, 1000, 1000)
    local.init(
        runner=local.DockerRunner(mounts=mounts), pipeline_root=str(out / "root"),
        workspace_root=str(out / "workspace"), raise_on_error=False,
    )  # fmt: skip
    return out / "root"


def iris_pipeline(image: str, **parameters: Any) -> Any:
    from generic_trainer.pipelines.kubeflow import trainer_component

    trainer_op = trainer_component(image)

    files_of = dsl.component(base_image=image, install_kfp_package=False)(next_step.files_of)

    @dsl.pipeline(name="iris")
    def iris(examples_uri: str) -> str:
        examples = dsl.importer(artifact_uri=examples_uri, artifact_class=dsl.Dataset)
        train = trainer_op(examples=examples.output, **parameters)
        return files_of(model=train.outputs["model"]).output

    return iris


def artifacts_below(root: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the outputs of the trainer's step by name."""
    return {path.name: path for step in root.glob("*/*") for path in step.iterdir() if step.name.startswith("trainer")}


def test_the_component_trains_and_the_next_step_gets_the_model(podman: Any, root: pathlib.Path) -> None:
    task = iris_pipeline(podman.image, module_text=MODULE, train_steps=100)(examples_uri="/data/iris")
    assert "saved_model.pb" in task.output.split(",")
    outputs = artifacts_below(root)
    assert {"model", "metrics", "classification", "report", "tensorboard"} <= outputs.keys(), outputs
    classification = json.loads(outputs["classification"].read_text())
    assert [one["displayName"] for one in classification["confusionMatrix"]["annotationSpecs"]] == ["0", "1", "2"]


def test_the_modules_exception_fails_the_step_and_leaves_no_model(
    podman: Any, root: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    task = iris_pipeline(podman.image, module_text=MODULE, train_steps=20, custom_config={"fails": True})(
        examples_uri="/data/iris"
    )
    assert not task.outputs
    assert not list(root.rglob("saved_model.pb"))
    assert "OSError: the disk is on fire" in capfd.readouterr().out


def test_an_image_that_cannot_be_pulled_fails_the_step_before_it_writes(podman: Any, root: pathlib.Path) -> None:
    image = "localhost:1/team/generic-trainer:9"
    with pytest.raises(docker.errors.APIError, match=image):
        iris_pipeline(image, module_text=MODULE, train_steps=20)(examples_uri="/data/iris")
    assert not artifacts_below(root)


def test_the_next_attempt_resumes_from_the_killed_ones_checkpoint(
    podman: Any, root: pathlib.Path, out: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    checkpoints = root / "checkpoints"
    parameters = {
        "module": "generic_trainer.module_files.digits_workers", "train_steps": 3000,
        "checkpoint_root": str(checkpoints),
    }  # fmt: skip
    pipeline = iris_pipeline(podman.image, **parameters)
    before = set(podman("ps", "--quiet").stdout.split())
    first = threading.Thread(target=pipeline, kwargs={"examples_uri": "/data/digits"})
    first.start()
    while not list(checkpoints.rglob("*.index")):
        assert first.is_alive()
        time.sleep(0.1)
    [container] = set(podman("ps", "--quiet").stdout.split()) - before
    podman("kill", container)
    first.join()
    assert not list(root.rglob("saved_model.pb"))
    assert "saved_model.pb" in pipeline(examples_uri="/data/digits").output
    assert "Resuming from" in capfd.readouterr().out


def test_a_compiled_pipeline_runs_from_csv_to_a_pushed_model(
    podman: Any, root: pathlib.Path, out: pathlib.Path, taxi_csv: pathlib.Path
) -> None:
    shutil.copytree(taxi_csv, out / "taxi")
    for path in (out / "taxi", *(out / "taxi").iterdir()):
        os.chown(path, 1000, 1000)
    module = pathlib.Path(kfp_local.__file__).parents[2] / "module_files" / "taxi_keras.py"
    file = root / "pipeline.yaml"
    line = [
        "compile", "--to", "kubeflow", "--image", podman.image, "--data", out / "taxi", "--module-file", module,
        "--label", "big_tip", "--train-steps", 100, "--volume", f"claim:{out}", "--pipeline-root", root,
        "--output", file,
    ]  # fmt: skip
    subprocess.run([sys.executable, "-m", "generic_trainer.cli.main", *map(str, line)], check=True)
    mounts = [docker.types.Mount(str(out), str(out), type="bind")]
    local.init(runner=local.DockerRunner(mounts=mounts), pipeline_root=str(root), raise_on_error=False)
    os.chown(root / "code", 1000, 1000)
    components.load_component_from_file(str(file))()
    [pushed] = (root / "serving").iterdir()
    assert (pushed / "saved_model.pb").exists()
    assert len(list(root.rglob("BLESSED"))) == 1
    statistics = list(root.rglob("FeatureStats.pb"))
    assert len(statistics) >= 2
    records = [json.loads(path.read_text()) for path in root.rglob("run.json")]
    assert [record["status"] for record in records] == ["succeeded"]
