"""Pod settings end up at their place in the manifests of each platform, and these match the published schemas."""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from generic_trainer import InputError
from generic_trainer.cli.main import cli
from generic_trainer.pipelines.submit.pods import PodSettings, variables

TRAIN = ("train", "project.taxi", "--train-files", "gs://b/train*", "--output", "gs://b/out", "--engine", "ray")
PLATFORMS = ("kuberay", "kubeflow-trainer")
EVERYTHING = (
    ("--volume", "data:/data"), ("--queue", "ml"), ("--env", "A=x=y"), ("--env-secret", "all"),
    ("--env-secret", "TOKEN=one/key"), ("--image-pull-secret", "registry"), ("--service-account", "trainer"),
    ("--namespace", "ads"), ("--pod-patch", "{patch}"),
)  # fmt: skip
PATCH = """
metadata: {labels: {team: ads}, annotations: {example.com/cost: a b}}
spec:
  nodeSelector: {zone: a}
  tolerations:
  - {key: dedicated, operator: Equal, value: ml, effect: NoSchedule}
  - {key: spot, operator: Exists}
  priorityClassName: high
  securityContext: {runAsUser: 1000, fsGroup: 0}
  volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1500M}}]
  containers:
  - imagePullPolicy: Always
    volumeMounts: [{name: shm, mountPath: /dev/shm}]
"""


@pytest.fixture
def submit(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> Callable[..., list[dict[str, Any]]]:
    """Runs the command in this process, with the path of a patch for "{patch}"; returns the manifests."""
    patch = tmp_path / "everything.yaml"
    patch.write_text(PATCH)

    def run(platform: str, *flags: str, command: tuple[str, ...] = TRAIN) -> list[dict[str, Any]]:
        words = [flag.replace("{patch}", str(patch)) for flag in flags]
        cli.main(["submit", "--to", platform, "--image", "registry/i:1", *words, "--", *command], standalone_mode=False)
        return list(yaml.safe_load_all(capsys.readouterr().out))

    return run


def pods_of(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the pod templates of a RayJob, or of a TrainingRuntime."""
    spec = manifests[0]["spec"]
    if "rayClusterSpec" in spec:
        cluster = spec["rayClusterSpec"]
        return [cluster["headGroupSpec"]["template"], *(group["template"] for group in cluster["workerGroupSpecs"])]
    return [one["template"]["spec"]["template"] for one in spec["template"]["spec"]["replicatedJobs"]]


def require_all_valid(manifests: list[dict[str, Any]], require_valid: Callable[..., None]) -> None:
    schemas = {"RayJob": "rayjob_v1", "TrainJob": "trainjob_v1alpha1"}
    for manifest in manifests:
        require_valid(manifest, schemas.get(manifest["kind"], "trainingruntime_v1alpha1"))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_all_settings_at_once(platform: str, submit: Any, require_valid: Callable[..., None]) -> None:
    manifests = submit(platform, *itertools.chain(*EVERYTHING))
    require_all_valid(manifests, require_valid)
    assert manifests[-1]["metadata"]["labels"] == {"team": "ads", "kueue.x-k8s.io/queue-name": "ml"}
    assert manifests[-1]["metadata"]["annotations"] == {"example.com/cost": "a b"}
    assert {manifest["metadata"]["namespace"] for manifest in manifests} == {"ads"}
    for pod in pods_of(manifests):
        spec, container = pod["spec"], pod["spec"]["containers"][0]
        assert pod["metadata"] == {"labels": {"team": "ads"}, "annotations": {"example.com/cost": "a b"}}
        assert {"name": "A", "value": "x=y"} in container["env"]
        secret = {"secretKeyRef": {"name": "one", "key": "key"}}
        assert {"name": "TOKEN", "valueFrom": secret} in container["env"]
        assert container["envFrom"] == [{"secretRef": {"name": "all"}}]
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/data", "/dev/shm"]  # noqa: S108
        assert spec["volumes"][1]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1500M"}
        assert spec["nodeSelector"] == {"zone": "a"}
        assert spec["tolerations"] == [
            {"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
            {"key": "spot", "operator": "Exists"},
        ]
        assert (container["imagePullPolicy"], spec["imagePullSecrets"]) == ("Always", [{"name": "registry"}])
        assert (spec["priorityClassName"], spec["serviceAccountName"]) == ("high", "trainer")
        assert spec["securityContext"] == {"runAsUser": 1000, "fsGroup": 0}


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("flags", EVERYTHING, ids="".join)
def test_each_setting_alone_is_valid(
    platform: str, flags: tuple[str, ...], submit: Any, require_valid: Callable[..., None]
) -> None:
    require_all_valid(submit(platform, *flags), require_valid)


@pytest.mark.thorough
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("pair", list(itertools.combinations(EVERYTHING, 2)), ids=lambda pair: pair[0][0] + pair[1][0])
def test_every_pair_of_settings_is_valid(
    platform: str, pair: Any, submit: Any, require_valid: Callable[..., None]
) -> None:
    require_all_valid(submit(platform, *itertools.chain(*pair)), require_valid)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_patch_changes_everything_else_and_wins(
    platform: str, submit: Any, require_valid: Callable[..., None], tmp_path: pathlib.Path
) -> None:
    patch = tmp_path / "patch.yaml"
    patch.write_text(
        "metadata: {annotations: {sidecar.istio.io/inject: 'false'}}\n"
        "spec:\n"
        "  schedulerName: volcano\n"
        "  serviceAccountName: other\n"
        "  containers:\n"
        "  - imagePullPolicy: Never\n"
        "    securityContext: {allowPrivilegeEscalation: false}\n"
        "  - {name: log, image: fluentd}\n"
    )
    manifests = submit(platform, "--service-account", "trainer", "--pod-patch", str(patch))
    require_all_valid(manifests, require_valid)
    for pod in pods_of(manifests):
        main, log = pod["spec"]["containers"]
        assert (main["imagePullPolicy"], main["image"], log["name"]) == ("Never", "registry/i:1", "log")
        assert (pod["spec"]["schedulerName"], pod["spec"]["serviceAccountName"]) == ("volcano", "other")
        assert pod["metadata"]["annotations"] == {"sidecar.istio.io/inject": "false"}


def test_a_variable_of_a_later_patch_replaces_value_and_source() -> None:
    value, secret = variables(["A=b"], []), variables([], ["A=s/k"])
    source = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    for patches, item in (((value, secret), source), ((secret, value), {"name": "A", "value": "b"})):
        pod = PodSettings(patches).apply({"spec": {"containers": [{"name": "main"}]}}, "main")
        assert pod["spec"]["containers"][0]["env"] == [item]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_patch_keeps_the_toleration_of_nodes_with_gpus(platform: str, submit: Any) -> None:
    gpus = (*TRAIN, "--gpus-per-worker", "1")
    worker = pods_of(submit(platform, "--accelerator", "nvidia-l4", "--pod-patch", "{patch}", command=gpus))[-1]
    assert worker["spec"]["nodeSelector"] == {"zone": "a", "cloud.google.com/gke-accelerator": "nvidia-l4"}
    assert [item["key"] for item in worker["spec"]["tolerations"]] == ["dedicated", "spot", "nvidia.com/gpu"]


def test_a_whole_pod_is_a_patch_too(submit: Any, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "pod.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"hostNetwork": True}}))
    assert all(pod["spec"]["hostNetwork"] for pod in pods_of(submit("kuberay", "--pod-patch", str(file))))
    file.write_text(json.dumps({"kind": "PodTemplate", "template": {"spec": {"hostNetwork": False}}}))
    assert not any(pod["spec"]["hostNetwork"] for pod in pods_of(submit("kuberay", "--pod-patch", str(file))))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected an object with metadata or spec"),
        ("- a", "expected an object with metadata or spec"),
        ("spec: [1", "invalid YAML"),
        ("spec: 1", "spec must be an object, not 1"),
        ("specs: {}", "'specs'.*Did you mean 'spec'"),
        ("spec: {containers: [{env: [{value: a}]}]}", r"spec.containers\[0\].env\[0\]: name is missing"),
        ("spec: {containers: 5}", "spec.containers: 5 cannot replace an array"),
    ],
)
def test_an_invalid_patch_is_rejected(submit: Any, tmp_path: pathlib.Path, text: str, message: str) -> None:
    file = tmp_path / "patch.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        submit("kuberay", "--pod-patch", str(file))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--pod-patch", "nowhere.yaml"), "--pod-patch nowhere.yaml: cannot read the file"),
        (("--env", "A B=c"), "--env A B=c: expected NAME=VALUE"),
        (("--env", "DB_PASSWORD=hunter2"), "--env contains 'DB_PASSWORD', which looks like a secret"),
        (("--env-secret", "NAME=secret"), "expected SECRET, or NAME=SECRET/KEY"),
        (("--env-secret", "secret/key"), "expected SECRET, or NAME=SECRET/KEY"),
        (("--env-secret", "My_Secret"), "expected SECRET, or NAME=SECRET/KEY"),
    ],
)
def test_invalid_values_are_rejected(submit: Any, flags: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        submit("kuberay", *flags)


def test_rays_metrics_get_a_port_in_every_pod(submit: Any, require_valid: Callable[..., None]) -> None:
    manifests = submit("kuberay", "--metrics-port", "9100")
    require_all_valid(manifests, require_valid)
    cluster = manifests[0]["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert group["rayStartParams"]["metrics-export-port"] == "9100"
        ports = group["template"]["spec"]["containers"][0]["ports"]
        assert {"name": "metrics", "containerPort": 9100} in ports
