"""A RayJob's pods, as nodes of a Ray cluster of this machine: the job's entrypoint trains on them."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml


@contextlib.contextmanager
def cluster_of(manifest: dict[str, Any]) -> Iterator[str]:
    """Starts what KubeRay would: the head, and each worker's pod with what its container is limited to."""
    from ray.cluster_utils import Cluster

    spec = manifest["spec"]["rayClusterSpec"]
    head, [group] = spec["headGroupSpec"]["rayStartParams"], spec["workerGroupSpecs"]
    store = int(head["object-store-memory"])
    arguments = {"num_cpus": int(head["num-cpus"]), "object_store_memory": store, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=arguments)
    try:
        for _ in range(group["replicas"]):
            limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
            memory = int(limits["memory"].removesuffix("M")) * 10**6
            cluster.add_node(num_cpus=int(limits["cpu"]), memory=memory, object_store_memory=store)
        yield cluster.address
    finally:
        cluster.shutdown()


@pytest.mark.thorough
@pytest.mark.slow
def test_the_entrypoint_trains_on_the_clusters_workers(
    command: Callable[..., Any], iris: Any, tiny_module: str, tmp_path: pathlib.Path
) -> None:
    pytest.importorskip("ray.train", reason="needs the extra ray")
    data = pathlib.Path(iris.train).parent.parent
    manifest_file, output = tmp_path / "job.yaml", tmp_path / "volume" / "out"
    volumes = ("--volume", f"iris:{data}", "--volume", f"work:{tmp_path}/volume", "--code-root", tmp_path / "volume")
    files = ("--train-files", iris.train, "--eval-files", iris.eval, "--output", output)
    ray = ("--engine", "ray", "--workers", 2, "--memory-gb-per-worker", 0.5)
    submitted = command(
        "submit",
        "--to",
        "kuberay",
        "--image",
        "i",
        *volumes,
        "--output",
        manifest_file,
        "train",
        tiny_module,
        *files,
        *ray,
    )
    assert submitted.returncode == 0, submitted.stderr
    pathlib.Path(tiny_module).unlink()  # the job has the archive
    manifest = yaml.safe_load(manifest_file.read_text())
    with cluster_of(manifest) as address:
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "RAY_ADDRESS": address}
        done = subprocess.run(
            ["/bin/sh", "-c", manifest["spec"]["entrypoint"]],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (output / "model" / "Format-Serving" / "saved_model.pb").exists()
    record = json.loads((output / "model_run" / "run.json").read_text())
    assert record["status"] == "succeeded"
    assert record["cluster"]["workers"] == [2]
    assert record["check"]["checks"]["answers"] == "passed"
