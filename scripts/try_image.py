"""Tests the container image from inside, as its user: its properties, and each way to start it.

`scripts/check-image.sh` runs it in the image's file system; with a container engine:

    docker run --rm -v "$PWD/scripts:/scripts:ro" generic-trainer python /scripts/try_image.py
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping

PACKAGES = pathlib.Path(sysconfig.get_path("purelib"))
MODULES = "generic_trainer.module_files"
KUBERAY_PROBE = "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success"


def run(*command: str) -> str:
    """Runs a command and returns its output; if it fails, exits with the output as message."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\nerror: exit code {done.returncode}: {' '.join(command)}")
    return done.stdout


def write_examples(folder: pathlib.Path, columns: Mapping[str, Iterable[object]]) -> None:
    """Writes rows as gzipped TFRecords, every fifth one to the split `eval`, in the layout of an Examples artifact."""
    import numpy as np
    import tensorflow as tf

    def feature(value: object) -> tf.train.Feature:
        values = np.ravel(value)
        if values.dtype.kind == "f":
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    writers = {}
    for split in ("train", "eval"):
        (folder / f"Split-{split}").mkdir(parents=True)
        writers[split] = tf.io.TFRecordWriter(str(folder / f"Split-{split}" / "data.gz"), "GZIP")
    for number, values in enumerate(zip(*columns.values(), strict=True)):
        features = {name: feature(value) for name, value in zip(columns, values, strict=True)}
        example = tf.train.Example(features=tf.train.Features(feature=features))
        writers["train" if number % 5 else "eval"].write(example.SerializeToString())
    for writer in writers.values():
        writer.close()


def data() -> None:
    """Writes the training data in a subprocess, because importing TensorFlow prints messages."""
    here = str(pathlib.Path(__file__).resolve().parent)
    run("python", "-c", f"import sys; sys.path.insert(0, {here!r}); import try_image; try_image.write_data()")


def write_data() -> None:
    """Writes scikit-learn's iris and digits datasets as tf.Examples."""
    from sklearn.datasets import load_digits, load_iris

    iris, digits = load_iris(), load_digits()
    names = [name.removesuffix(" (cm)").replace(" ", "_") for name in iris.feature_names]
    write_examples(pathlib.Path("iris"), {**dict(zip(names, iris.data.T, strict=True)), "variety": iris.target})
    write_examples(pathlib.Path("digits"), {"image": digits.data, "label": digits.target})


def user() -> None:
    """Checks that the container's user is not root, cannot write to the environment, and has a writable home."""
    assert os.geteuid() != 0
    assert not os.access(sys.prefix, os.W_OK)
    assert os.access(pathlib.Path.home(), os.W_OK)


def byte_code() -> None:
    """Checks that all modules are compiled to byte code: a read-only environment cannot cache it at run time."""
    for path in PACKAGES.rglob("*.py"):
        if not pathlib.Path(importlib.util.cache_from_source(str(path))).exists():
            try:
                compile(path.read_bytes(), path, "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                continue
            sys.exit(f"error: {path} is not compiled")


def libraries() -> None:
    """Checks that the dependencies of all shared libraries are in the image or in a wheel."""
    found = {path.name: path for path in PACKAGES.rglob("*.so*")}
    for path in found.values():
        done = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)  # noqa: S607  # nosec B607
        missing = {line.split()[0] for line in done.stdout.splitlines() if line.endswith("not found")} - set(found)
        if missing:
            sys.exit(f"error: {path.relative_to(PACKAGES)} needs {', '.join(sorted(missing))}")


def kubeflow_step() -> None:
    """Runs a Kubeflow Pipelines step as a container does, and checks its outputs."""

    def artifacts(name: str, **metadata: str) -> dict[str, object]:
        return {"artifacts": [{"name": name, "uri": str(pathlib.Path(name).resolve()), "metadata": metadata}]}

    parameters = {
        "run_fn": f"{MODULES}.iris_keras.run_fn",
        "train_args": '{"num_steps": 300}',
        "eval_args": '{"num_steps": 2}',
        "seed": 1,
    }
    invocation = {
        "inputs": {
            "artifacts": {"examples": artifacts("iris", split_names='["train", "eval"]')},
            "parameterValues": parameters,
        },
        "outputs": {
            "artifacts": {"model": artifacts("model"), "model_run": artifacts("model_run")},
            "outputFile": str(pathlib.Path("executor_output.json").resolve()),
        },
    }
    executor = ["--executor_class_path", "generic_trainer.executors.generic_executor.GenericExecutor"]
    command = ["python", "-m", "generic_trainer.executors.kubeflow_step", *executor]
    run(*command, "--json_serialized_invocation_args", json.dumps(invocation))
    [model] = json.loads(pathlib.Path("executor_output.json").read_text())["artifacts"]["model"]["artifacts"]
    assert model["metadata"]["eval/accuracy"] > 0.8, model
    assert pathlib.Path(model["uri"], "Format-Serving", "saved_model.pb").exists(), model


def kuberay() -> None:
    """Runs a Ray job on a one-node cluster in the way KubeRay does: login shell, wget probe, submission by HTTP."""
    run("bash", "-lc", "ulimit -n 65536; ray start --head --num-cpus=2 --dashboard-host=127.0.0.1")
    try:
        run("bash", "-c", f"for second in $(seq 60); do {KUBERAY_PROBE} && exit; sleep 1; done; exit 1")
        from ray.job_submission import JobStatus, JobSubmissionClient

        client = JobSubmissionClient("http://127.0.0.1:8265")
        digits = f"{pathlib.Path.cwd()}/digits"
        job = client.submit_job(
            entrypoint=f"generic-trainer train {MODULES}.digits_workers --engine ray --workers 2 --train-steps 100 "
            f"--train-files '{digits}/Split-train/*' --eval-files '{digits}/Split-eval/*' --output {digits}/trained",
            runtime_env={"env_vars": {"RAY_ADDRESS": "127.0.0.1:6379"}},  # set in pods by KubeRay
        )
        while (status := client.get_job_status(job)) in (JobStatus.PENDING, JobStatus.RUNNING):
            time.sleep(1)
        if status != JobStatus.SUCCEEDED:
            sys.exit(f"{client.get_job_logs(job)}\nerror: the job is {status}")
        assert pathlib.Path("digits/trained/model/Format-Serving/saved_model.pb").exists()
    finally:
        run("bash", "-lc", "ray stop --force")


def pipeline() -> None:
    """Runs the whole pipeline on the taxi dataset in TFX's package."""
    trips = PACKAGES / "tfx/examples/chicago_taxi_pipeline/data/simple"
    module = PACKAGES / "generic_trainer/module_files/taxi_keras.py"
    arguments = ["--data", trips, "--module-file", module, "--label", "big_tip", "--pipeline-root", "pipeline"]
    run("generic-trainer", "run", *map(str, arguments))
    assert list(pathlib.Path("pipeline/serving").glob("*/saved_model.pb"))


CHECKS: dict[str, Callable[[], None]] = {
    "user is not root, environment is read-only": user,
    "byte code of all packages": byte_code,
    "shared libraries": libraries,
    "iris and digits as TFRecords": data,
    "Kubeflow Pipelines step on iris": kubeflow_step,
    "RayJob with two workers on digits": kuberay,
    "pipeline on the taxi data": pipeline,
}


def main() -> None:
    """Runs all checks; the first that fails ends it with exit code 1."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", nargs="?", help="output folder (default: a temporary folder)")
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(folder or scratch)
        for title, check in CHECKS.items():
            if check is kuberay and not importlib.util.find_spec("ray"):
                continue  # the slim image
            start = time.monotonic()
            check()
            print(f"   {title:45} {time.monotonic() - start:5.0f} s", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
