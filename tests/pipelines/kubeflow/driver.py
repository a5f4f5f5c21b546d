"""Runs a compiled pipeline's steps one after the other, each by its own command, like Kubeflow's driver.

The commands, their arguments and the dependencies of steps come from the YAML. The decisions of a driver are made here:
output paths and the value of `{{$}}` (https://github.com/kubeflow/pipelines, ExecutorInput in
api/v2alpha1/pipeline_spec.proto).
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

PLACEHOLDER = "{{$}}"


class Failed(Exception):
    """A step exited with a nonzero code."""


class Driver:
    """Runs the steps.

    Args:
      path: The pipeline's YAML.
      root: Folder for outputs.
      parameters: The pipeline's parameters that differ from the defaults.
      instead: Texts of the YAML to replace, such as buckets by folders.
    """

    def __init__(
        self,
        path: pathlib.Path,
        root: pathlib.Path,
        parameters: Mapping[str, Any] | None = None,
        instead: Mapping[str, str] | None = None,
    ) -> None:
        text = path.read_text()
        for before, after in (instead or {}).items():
            text = text.replace(before, after)
        self.spec = next(iter(yaml.safe_load_all(text)))
        self._root = root
        known = self.spec["root"].get("inputDefinitions", {}).get("parameters", {})
        self._parameters = {name: one.get("defaultValue") for name, one in known.items()} | dict(parameters or {})
        self.outputs: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}

    def run(self, *only: str, with_hooks: bool = False) -> None:
        """Runs all steps, or the named ones, in the order of their dependencies.

        Args:
          *only: Names of steps.
          with_hooks: Whether to run each container's pre-run hook, as on Vertex AI.

        Raises:
          Failed: When a step fails.
        """
        for task in self._order():
            if only and task not in only:
                continue
            executor = self.spec["deploymentSpec"]["executors"][self._component(task)["executorLabel"]]
            if "container" in executor:
                self._run_container(task, executor["container"], with_hooks)
            elif "importer" in executor:
                uri = executor["importer"]["artifactUri"]["constant"]
                [key] = self._component(task)["outputDefinitions"]["artifacts"]
                self.outputs[task] = {key: [{"name": task, "uri": uri, "metadata": {}, "type": {}}]}
            else:  # a resolver that finds nothing
                self.outputs[task] = {}

    def invocation(self, task: str) -> dict[str, Any]:
        """Returns the ExecutorInput of a step whose predecessors have run."""
        wanted = self.spec["root"]["dag"]["tasks"][task].get("inputs", {})
        artifacts = {}
        for key, source in wanted.get("artifacts", {}).items():
            source = source["taskOutputArtifact"]
            found = self.outputs[source["producerTask"]].get(source["outputArtifactKey"], [])
            if found:
                artifacts[key] = {"artifacts": found}
        values = {}
        for name, source in wanted.get("parameters", {}).items():
            if "componentInputParameter" in source:
                values[name] = self._parameters[source["componentInputParameter"]]
            else:
                values[name] = source["runtimeValue"]["constant"]
        folder = self._root / task
        made = self._component(task).get("outputDefinitions", {}).get("artifacts", {})
        outputs = {
            key: {"artifacts": [{"name": key, "uri": str(folder / key), "metadata": {}, "type": one["artifactType"]}]}
            for key, one in made.items()
        }
        return {
            "inputs": {"artifacts": artifacts, "parameterValues": values},
            "outputs": {"artifacts": outputs, "outputFile": str(folder / "executor_output.json")},
        }

    def _run_container(self, task: str, container: Mapping[str, Any], with_hooks: bool) -> None:
        invocation = self.invocation(task)
        (self._root / task).mkdir(parents=True, exist_ok=True)
        if with_hooks and "lifecycle" in container:
            self._run_command(task, container["lifecycle"]["preCacheCheck"], invocation)
            told = _told(invocation)
            invocation["inputs"]["parameterValues"] |= told.get("parameterValues", {})
            invocation["outputs"]["artifacts"] |= _outputs(invocation)
        self._run_command(task, container, invocation)
        self.outputs[task] = {key: one["artifacts"] for key, one in _outputs(invocation).items()}

    def _run_command(self, task: str, command: Mapping[str, Any], invocation: Mapping[str, Any]) -> None:
        text = json.dumps(invocation)
        line = [part.replace(PLACEHOLDER, text) for part in [*command["command"], *command.get("args", ())]]
        # python3 of the image: the interpreter of these tests
        path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            line,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env={**os.environ, "PATH": path},
            cwd=self._root,
        )
        self.logs[task] = self.logs.get(task, "") + done.stdout + done.stderr
        if done.returncode:
            raise Failed(f"{task} ended with {done.returncode}:\n{self.logs[task][-5000:]}")

    def _component(self, task: str) -> Any:
        return self.spec["components"][self.spec["root"]["dag"]["tasks"][task]["componentRef"]["name"]]

    def _order(self) -> Iterator[str]:
        waiting = {name: set(one.get("dependentTasks", ())) for name, one in self.spec["root"]["dag"]["tasks"].items()}
        done: set[str] = set()
        while waiting:
            ready = sorted(name for name, needs in waiting.items() if needs <= done)
            assert ready, f"the steps wait for each other: {waiting}"
            for name in ready:
                del waiting[name]
                done.add(name)
                yield name


def _told(invocation: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the output file that the step wrote."""
    path = pathlib.Path(invocation["outputs"]["outputFile"])
    told: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return told


def _outputs(invocation: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a step's outputs: as planned, updated with those that the step reported."""
    told = _told(invocation).get("artifacts", {})
    return {
        key: {
            "artifacts": [
                {**planned, **{name: value for name, value in one.items() if name in ("uri", "metadata")}}
                for planned, one in zip(promised["artifacts"], told.get(key, promised)["artifacts"], strict=True)
            ]
        }
        for key, promised in invocation["outputs"]["artifacts"].items()
    }
