"""The pods of a TrainJob, as containers with the environment that Kubernetes, JobSet and Kubeflow Trainer give them."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from .network import Network


class Pods:
    """Runs the pods of a TrainingRuntime and its TrainJob; restarts failed ones, as `restartPolicy: OnFailure` does."""

    def __init__(self, podman: Any, network: Network, manifests: list[dict[str, Any]], *flags: object) -> None:
        self._podman = podman
        runtime, job = manifests
        self._trainer = job["spec"]["trainer"]
        self._name = job["metadata"]["name"]
        self._restarts: dict[str, int] = {}
        self.containers: dict[str, str] = {}
        self._jobs = {
            one["name"]: one["template"]["spec"] for one in runtime["spec"]["template"]["spec"]["replicatedJobs"]
        }
        hosts = {
            (role, index): network.pod(f"{self._name}-{role}-0-{index}.{self._name}")
            for role, spec in self._jobs.items()
            for index in range(spec["completions"])
        }
        self._stack = contextlib.ExitStack()
        for (role, index), pod in hosts.items():
            arguments = [*network.flags(pod), *self._environment(role, index), *flags]
            line = [podman.image, *self._trainer["command"], *self._trainer["args"]]
            self.containers[f"{role} {index}"] = self._stack.enter_context(podman.container(*arguments, *line))

    def __enter__(self) -> Pods:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _environment(self, role: str, index: int) -> Iterator[str]:
        labels = {"jobset.sigs.k8s.io/jobset-name": self._name, "jobset.sigs.k8s.io/replicatedjob-name": role}
        [container] = self._jobs[role]["template"]["spec"]["containers"]
        for one in container["env"]:
            label = one["valueFrom"]["fieldRef"]["fieldPath"].removeprefix("metadata.labels['").removesuffix("']")
            yield from ("--env", f"{one['name']}={labels[label]}")
        for one in self._trainer["env"]:
            yield from ("--env", f"{one['name']}={one['value']}")
        yield from ("--env", f"JOB_COMPLETION_INDEX={index}")

    def kill(self, task: str) -> None:
        self._podman("kill", self.containers[task])

    def logs(self) -> str:
        return "\n".join(f"== {task}\n{self._podman.logs(name)}" for task, name in self.containers.items())

    def restart_failed(self) -> dict[str, int]:
        """Starts failed pods again, unless their job's backoffLimit is reached; returns the exit codes of the ended."""
        ended = {}
        for task, name in self.containers.items():
            state = self._podman.state(name)
            if state["Status"] not in ("exited", "stopped"):
                continue
            role = task.partition(" ")[0]
            if state["ExitCode"] and self._restarts.get(role, 0) < self._jobs[role]["backoffLimit"]:
                self._restarts[role] = self._restarts.get(role, 0) + 1
                self._podman("start", name)
            else:
                ended[task] = state["ExitCode"]
        return ended

    def wait(self) -> dict[str, int]:
        """Waits for all pods to end; returns their exit codes."""
        while len(ended := self.restart_failed()) < len(self.containers):
            time.sleep(0.5)
        return ended


def manifests(tmp_path: pathlib.Path, image: str, *command: object) -> list[dict[str, Any]]:
    file = tmp_path / "job.yaml"
    flags = ("--to", "kubeflow-trainer", "--image", image, "--volume", "data:/data", "--volume", "out:/out")
    line = ["submit", *flags, "--name", "taxi", "--output", str(file), "--", *map(str, command)]
    subprocess.run([sys.executable, "-m", "generic_trainer.cli.main", *line], check=True)
    return list(yaml.safe_load_all(file.read_text()))


def wait_for(text: str, pods: Pods) -> None:
    while text not in pods.logs():
        assert not any(pods.restart_failed().values()), pods.logs()
        time.sleep(0.3)


@pytest.mark.parametrize("killed", [pytest.param(None, marks=pytest.mark.thorough), "worker 1"])
def test_workers_train_together_and_survive_a_kill(
    podman: Any, examples: pathlib.Path, out: pathlib.Path, tmp_path: pathlib.Path, killed: str | None
) -> None:
    data = ("--train-files", "/data/digits/Split-train/*", "--eval-files", "/data/digits/Split-eval/*")
    made = manifests(
        tmp_path, podman.image, "train", "generic_trainer.module_files.digits_workers", *data,
        *("--train-steps", 1500, "--output", "/out/run", "--engine", "ray", "--workers", 2),
    )  # fmt: skip
    volumes = ("--volume", f"{examples}:/data:ro", "--volume", f"{out}:/out")
    with Network() as network, Pods(podman, network, made, *volumes) as pods:
        if killed:
            wait_for("Step 100:", pods)
            pods.kill(killed)
        codes = pods.wait()
        assert set(codes.values()) == {0}, pods.logs()
    assert (out / "run" / "model" / "Format-Serving" / "saved_model.pb").exists()
    record = json.loads((out / "run" / "model_run" / "run.json").read_text())
    assert record["status"] == "succeeded"
    assert record["metrics"]["eval"]["accuracy"] > 0.8


@pytest.mark.parametrize("killed", [pytest.param(None, marks=pytest.mark.thorough), "worker 0"])
def test_chief_workers_and_parameter_servers(
    podman: Any, examples: pathlib.Path, out: pathlib.Path, tmp_path: pathlib.Path, killed: str | None
) -> None:
    data = ("--train-files", "/data/iris/Split-train/*", "--eval-files", "/data/iris/Split-eval/*")
    made = manifests(
        tmp_path, podman.image, "train", "generic_trainer.module_files.iris_estimator", *data,
        *("--train-steps", 6000 if killed else 2000, "--output", "/out/run"),
        *("--engine", "ray", "--workers", 3, "--ps", 1),
    )  # fmt: skip
    volumes = ("--volume", f"{examples}:/data:ro", "--volume", f"{out}:/out")
    with Network() as network, Pods(podman, network, made, *volumes) as pods:
        if killed:
            wait_for("loss", pods)
            pods.kill(killed)
        codes = pods.wait()
        assert set(codes.values()) == {0}, pods.logs()
    assert list(codes) == ["chief 0", "worker 0", "worker 1", "ps 0"]
    assert (out / "run" / "model" / "Format-Serving" / "saved_model.pb").exists()
