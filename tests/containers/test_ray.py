"""A Ray cluster of containers with addresses of their own: head and workers, one of which gets lost."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from .network import Network, Pod

STEPS = 1500
_RAY = ("ray", "start", "--block", "--object-store-memory=100000000")
_SIZES = ("--shm-size", "512m", "--tmpfs", "/tmp:size=2g,mode=1777")  # noqa: S108


class Cluster:
    """The containers of a cluster; the head does not train, as on KubeRay."""

    def __init__(self, podman: Any, network: Network, stack: contextlib.ExitStack, *flags: object) -> None:
        self._podman, self._network, self._stack, self._flags = podman, network, stack, flags
        self.pods: dict[str, Pod] = {}
        self.containers: dict[str, str] = {}
        start = ("--head", "--num-cpus=0", "--port=6379", "--include-dashboard=false")
        self._start("head", *start)
        self.add("worker-1")
        self.add("worker-2")

    def add(self, name: str) -> None:
        self._start(name, f"--address={self.pods['head'].address}:6379", "--num-cpus=1")

    def _start(self, name: str, *ray: str) -> None:
        pod = self._network.pod(f"{name}.cluster")
        flags = [*self._network.flags(pod), *_SIZES, *self._flags]
        line = [*_RAY, f"--node-ip-address={pod.address}", *ray]
        self.pods[name] = pod
        self.containers[name] = self._stack.enter_context(self._podman.container(*flags, self._podman.image, *line))

    def disconnect(self, name: str) -> None:
        self._network.disconnect(self.pods[name])

    def wait_for_workers(self, number: int) -> None:
        status = ("exec", self.containers["head"], "ray", "status")
        while len(re.findall(r"(?m)^ 1 node_", self._podman(*status, check=False).stdout)) < number + 1:
            time.sleep(0.5)

    def train(self, *arguments: object) -> subprocess.Popen[str]:
        """Starts the command in the head's container, as a RayJob's entrypoint."""
        line = ["podman", "exec", "--env", "RAY_ADDRESS=auto", self.containers["head"], "generic-trainer", *arguments]
        return subprocess.Popen(list(map(str, line)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def cluster(podman: Any, examples: pathlib.Path, out: pathlib.Path) -> Iterator[Cluster]:
    volumes = ("--volume", f"{examples}:/data:ro", "--volume", f"{out}:/out")
    with Network() as network, contextlib.ExitStack() as stack:
        yield Cluster(podman, network, stack, *volumes)


@pytest.mark.parametrize(
    "lost", [pytest.param(None, marks=pytest.mark.thorough), "the worker's container", "the node's network"]
)
def test_it_trains_and_recovers(podman: Any, cluster: Cluster, out: pathlib.Path, lost: str | None) -> None:
    cluster.wait_for_workers(2)
    data = ("--train-files", "/data/digits/Split-train/*", "--eval-files", "/data/digits/Split-eval/*")
    training = cluster.train(
        "train", "generic_trainer.module_files.digits_workers", *data, "--train-steps", STEPS, "--output", "/out/run",
        "--engine", "ray", "--workers", "1:2",
    )  # fmt: skip
    assert training.stdout is not None
    lines, killed_at, resumed_after = [], 0.0, 0.0
    for line in training.stdout:
        lines.append(line)
        step = re.search(r"(?i)step ([\d,]+)", line)
        if lost and not killed_at and step and int(step[1].replace(",", "")) >= 200:
            killed_at = time.monotonic()
            if lost == "the worker's container":
                podman("kill", cluster.containers["worker-2"])
            else:
                cluster.disconnect("worker-2")
        elif killed_at and not resumed_after and step and "1 restart" in line:
            resumed_after = time.monotonic() - killed_at
    output = "".join(lines)
    assert training.wait() == 0, output
    assert (out / "run" / "model" / "Format-Serving" / "saved_model.pb").exists()
    record = json.loads((out / "run" / "model_run" / "run.json").read_text())
    assert record["metrics"]["eval"]["accuracy"] > 0.9
    if lost:
        print(f"{lost}: the next line of progress after {resumed_after:.1f} s")
        assert cluster.pods["worker-2"].address in output  # the lost node, not the one that survives
        assert record["cluster"]["restarts"] >= 1
