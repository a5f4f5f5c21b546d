"""Values reach the program unchanged through the fields of a container in which Kubernetes expands `$(NAME)`."""

from __future__ import annotations

import itertools
import json
import pathlib
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml

from generic_trainer.cli.main import cli
from generic_trainer.pipelines.submit.expansion import literal

CLUSTER = {"HOME": "/root", "X": "x", "": "empty", "A": "a"}
VALUES = (
    "$(HOME)", "$$(X)", "a$", "$$", "$(", "$$$(X)$$", "$HOME ${X}", "$()", '{"a": "$(X)", "b": ["$$"]}',
    "é$(X)日本$$🙂", "$(X\n)", "plain", "",
)  # fmt: skip
FLAGS = [f"--env=A{index}={value}" for index, value in enumerate(VALUES)]
CONFIG = json.dumps(dict(enumerate(VALUES)))
TRAIN = (
    "train", "project.taxi", "--train-files=gs://b/$(X)/$$*", "--output=gs://b/out", f"--custom-config={CONFIG}",
)  # fmt: skip


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Expands as Kubernetes does: `Expand` in k8s.io/kubernetes, third_party/forked/golang/expansion/expand.go."""
    result, cursor = "", 0
    while cursor < len(text):
        rest = text[cursor + 1 :]
        if text[cursor] != "$" or not rest:
            result, cursor = result + text[cursor], cursor + 1
        elif rest[0] == "(" and ")" in rest:
            name = rest[1 : rest.index(")")]
            result, cursor = result + variables.get(name, f"$({name})"), cursor + len(name) + 3
        else:
            result, cursor = result + ("$" if rest[0] == "$" else f"${rest[0]}"), cursor + 2
    return result


def containers_of(node: object) -> Iterator[dict[str, Any]]:
    """Yields every object of a manifest with `args` or `env`."""
    if isinstance(node, dict) and ("args" in node or "env" in node):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from containers_of(child)


@pytest.fixture
def submitted(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[dict[str, Any]]]:
    def run(platform: str, *flags: str) -> list[dict[str, Any]]:
        engine = ["--engine=ray"] if platform == "kuberay" else []
        cli.main(
            ["submit", "--to", platform, "--image", "registry/i:1", *flags, "--", *TRAIN, *engine],
            standalone_mode=False,
        )
        return list(yaml.safe_load_all(capsys.readouterr().out))

    return run


@pytest.mark.parametrize(
    ("text", "result"),
    [("$(A)", "a"), ("$$(A)", "$(A)"), ("$$$(A)", "$a"), ("$(B)", "$(B)"), ("$(A", "$(A"), ("$A$", "$A$"),
     ("$$$$", "$$"), ("a$$(A)$(A)", "a$(A)a"), ("$?", "$?"), ("$(A)(A)", "a(A)"), ("$$$", "$$")],
)  # fmt: skip
def test_the_expansion_here_is_that_of_kubernetes(text: str, result: str) -> None:
    assert expanded(text, CLUSTER) == result


def test_the_expansion_of_a_literal_is_the_text() -> None:
    texts = ["".join(letters) for size in range(7) for letters in itertools.product("$()A", repeat=size)]
    for text in (*texts, *VALUES):
        assert expanded(literal(text), CLUSTER) == text


@pytest.mark.parametrize("platform", ["kuberay", "kubeflow-trainer"])
def test_variables_and_arguments_are_what_was_given(platform: str, submitted: Any) -> None:
    manifests = submitted(platform, *FLAGS)
    containers = list(containers_of(manifests))
    environments = [
        {item["name"]: expanded(item["value"], CLUSTER) for item in container.get("env", []) if "value" in item}
        for container in containers
    ]
    wanted = {f"A{index}": value for index, value in enumerate(VALUES)}
    given = [variables for variables in environments if "A0" in variables]
    assert given
    assert all(variables == wanted for variables in given)
    if platform == "kuberay":  # a shell on the head gets the command, not Kubernetes
        line = f"generic-trainer() {{ printf '%s\\0' \"$@\"; }}; {manifests[0]['spec']['entrypoint']}"
        shown = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout.decode()
        commands = [shown.split("\0")[:-1]]
    else:
        commands = [[expanded(word, CLUSTER) for word in item["args"]] for item in containers if "args" in item]
    assert commands
    for command in commands:
        assert {"--train-files=gs://b/$(X)/$$*", f"--custom-config={CONFIG}"} <= set(command)


def test_other_fields_are_not_escaped(submitted: Any, tmp_path: pathlib.Path) -> None:
    patch = tmp_path / "patch.yaml"
    patch.write_text("metadata: {annotations: {example.com/a: $(X)$$}}\n")
    [manifest] = submitted("kuberay", f"--pod-patch={patch}")
    pods = [manifest["spec"]["rayClusterSpec"]["headGroupSpec"]["template"], manifest]
    assert [pod["metadata"]["annotations"] for pod in pods] == [{"example.com/a": "$(X)$$"}] * 2


def test_a_patch_refers_to_variables(submitted: Any, tmp_path: pathlib.Path) -> None:
    patch = tmp_path / "patch.yaml"
    patch.write_text("spec: {containers: [{env: [{name: CACHE, value: $(A0)/cache}]}]}\n")
    for container in containers_of(submitted("kuberay", "--env=A0=/data", f"--pod-patch={patch}")):
        assert {"name": "CACHE", "value": "$(A0)/cache"} in container["env"]


def test_a_compiled_pipeline_keeps_values(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kfp")
    path = tmp_path / "pipeline.yaml"
    monkeypatch.syspath_prepend(str(tmp_path))  # the command adds to it
    cli.main(
        ["compile", "--to=kubeflow", "--image=i", f"--output={path}", "--pipeline-root=gs://b/root", "--data=gs://b/d",
         "--data-format=csv", "--module-file=generic_trainer.module_files.taxi_keras", "--label=big_tip", *FLAGS,
         f"--custom-config={CONFIG}"],
        standalone_mode=False,
    )  # fmt: skip
    spec = next(iter(yaml.safe_load_all(path.read_text())))
    for container in containers_of(spec["deploymentSpec"]):
        assert [expanded(item["value"], CLUSTER) for item in container["env"]] == list(VALUES)
    # The driver passes parameters in JSON as one argument of the container.
    default = spec["root"]["inputDefinitions"]["parameters"]["custom_config"]["defaultValue"]
    passed = expanded(json.dumps({"parameterValues": {"custom_config": default}}), CLUSTER)
    assert json.loads(json.loads(passed)["parameterValues"]["custom_config"]) == json.loads(CONFIG)
