"""Runs the pods of a RayJob of `generic-trainer submit --to kuberay` as containers.

Each pod gets its container's image, user, environment, volumes, shared memory and limits. `ray start` has the pod's
rayStartParams, and the entrypoint is submitted to the head's dashboard, as the operator does. Not executed: the
operator and the autoscaler; the maximum number of workers is started at once.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from .conftest import Engine
from .network import Network, Pod

CLAIMS = {"data": "/data:ro", "out": "/out"}
DASHBOARD = "http://127.0.0.1:8265"


PATCH = """
spec:
  securityContext: {runAsUser: 1000}
  volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 500M}}]
  containers: [{volumeMounts: [{name: shm, mountPath: /dev/shm}]}]
"""


def submitted(image: str, patch: pathlib.Path) -> dict[str, Any]:
    """Returns the spec of a RayJob that trains on digits with two workers."""
    patch.write_text(PATCH)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "generic_trainer.cli.main", "submit", "--to", "kuberay", "--image", image),
            *(f"--volume={name}:{place}" for name, place in CLAIMS.items()),
            *("--pod-patch", str(patch), "--env", "TF_CPP_MIN_LOG_LEVEL=2", "--"),
            *("train", "generic_trainer.module_files.digits_workers", "--train-files", "/data/digits/Split-train/*"),
            *("--eval-files", "/data/digits/Split-eval/*", "--train-steps", "300", "--output", "/out/run"),
            *("--engine", "ray", "--workers", "2", "--memory-gb-per-worker", "2"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    spec: dict[str, Any] = yaml.safe_load(done.stdout)["spec"]
    return spec


def flags_of(pod: Mapping[str, Any], folders: Mapping[str, pathlib.Path]) -> Iterator[str]:
    """Yields podman's flags for the container of a pod."""
    [container] = pod["containers"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    limits = container["resources"]["limits"]
    yield from ("--user", str(pod["securityContext"]["runAsUser"]), "--cpus", limits["cpu"])
    yield from ("--memory", limits["memory"].lower())
    for variable in container["env"]:
        yield f"--env={variable['name']}={variable['value']}"
    for mount in container["volumeMounts"]:
        volume = volumes[mount["name"]]
        if "emptyDir" in volume:
            assert (mount["mountPath"], volume["emptyDir"]["medium"]) == ("/dev/shm", "Memory")  # noqa: S108
            yield f"--shm-size={volume['emptyDir']['sizeLimit'].lower()}"
        else:
            folder = folders[volume["persistentVolumeClaim"]["claimName"]]
            yield f"--volume={folder}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}"


def start_command(group: Mapping[str, Any], address: str, head: str = "") -> list[str]:
    """Returns the operator's command for a pod: `ray start` with the group's parameters."""
    place = [f"--address={head}:6379"] if head else ["--head", "--port=6379"]
    parameters = [f"--{name}={value}" for name, value in group["rayStartParams"].items()]
    return ["ray", "start", "--block", f"--node-ip-address={address}", *place, *parameters]


def test_the_pods_of_a_rayjob_train(
    podman: Engine, examples: pathlib.Path, out: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    spec = submitted(podman.image, tmp_path / "patch.yaml")
    cluster = spec["rayClusterSpec"]
    [workers] = cluster["workerGroupSpecs"]
    folders = {"data": examples, "out": out}
    with Network() as network, contextlib.ExitStack() as stack:

        def start(name: str, group: Mapping[str, Any], head: str = "") -> tuple[Pod, str]:
            pod, template = network.pod(f"{name}.cluster"), group["template"]["spec"]
            flags = [*network.flags(pod), *flags_of(template, folders)]
            line = [template["containers"][0]["image"], *start_command(group, pod.address, head)]
            return pod, stack.enter_context(podman.container(*flags, *line))

        pod, head = start("head", cluster["headGroupSpec"])
        for number in range(workers["maxReplicas"]):
            start(f"worker-{number}", workers, pod.address)
        while podman("exec", head, "ray", "status", check=False).stdout.count(" 1 node_") < workers["maxReplicas"] + 1:
            time.sleep(0.5)
        submit = ["ray", "job", "submit", "--address", DASHBOARD, "--", "sh", "-c", spec["entrypoint"]]
        done = podman("exec", head, *submit, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (out / "run" / "model" / "Format-Serving" / "saved_model.pb").exists()
    record = json.loads((out / "run" / "model_run" / "run.json").read_text())
    assert record["metrics"]["eval"]["accuracy"] > 0.9
