"""The RayJob holds to KubeRay's published definition, asks for what the command line asks for, and is sent."""

from __future__ import annotations

import json
import os
import pathlib
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import InputError, TrainingOptions
from generic_trainer.pipelines.submit import kuberay, kubernetes_api
from generic_trainer.pipelines.submit.job_file import JobFile
from generic_trainer.pipelines.submit.kuberay import KubeRay, ray_job
from generic_trainer.pipelines.submit.names import JOB
from generic_trainer.pipelines.submit.pods import PodSettings, variables, volume_claims
from generic_trainer.pipelines.submit.submission import SubmittedJob

REQUIREMENTS = pathlib.Path(__file__).resolve().parents[3] / "requirements"
COMMAND = ("train", "taxi", "--train-files=gs://b/train*", "--output=gs://b/out", "--engine=ray")


def job(command: tuple[str, ...] = COMMAND, name: str = "taxi", **options: Any) -> SubmittedJob:
    more = {key: options.pop(key) for key in ("namespace", "accelerator", "pods") if key in options}
    return SubmittedJob(name, "registry/trainer:1", command, TrainingOptions(**{"engine": "ray", **options}), **more)


def workers_of(manifest: dict[str, Any]) -> dict[str, Any]:
    [group] = manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    return group


def test_a_plain_job(require_valid: Callable[..., None]) -> None:
    manifest = ray_job(job(workers="2", cpus_per_worker=1.5, memory_gb_per_worker=4, timeout=99.5), KubeRay())
    require_valid(manifest, "rayjob_v1")
    spec, group = manifest["spec"], workers_of(manifest)
    assert manifest["metadata"] == {"name": "taxi"}
    assert (spec["backoffLimit"], spec["shutdownAfterJobFinishes"]) == (3, True)
    assert spec["activeDeadlineSeconds"] == 100 + 900  # the training's, rounded up, and what is around it
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (2, 2, 2)
    assert spec["rayClusterSpec"]["enableInTreeAutoscaling"] is False
    [container] = group["template"]["spec"]["containers"]
    wanted = {"cpu": "1.5", "memory": "5000M"}  # 10^9 bytes more than the worker's, for Ray's own processes
    assert container["resources"] == {"requests": wanted, "limits": wanted}
    # Ray would hand the head's processors out to workers, whose memory it does not have.
    assert spec["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_a_job_with_everything(require_valid: Callable[..., None]) -> None:
    asked = job(
        workers="1:4",
        ps=2,
        gpus_per_worker=2,
        max_failures=-1,
        accelerator="nvidia-tesla-t4",
        namespace="research",
        pods=PodSettings(
            (volume_claims(["training-data:/data:ro", "outputs:/outputs"]), variables([], ["warehouse"])),
            service_account="trainer",
        ),
    )
    manifest = ray_job(asked, KubeRay(head_cpus=4, ray_version="2.55.1"))
    require_valid(manifest, "rayjob_v1")
    cluster, group = manifest["spec"]["rayClusterSpec"], workers_of(manifest)
    assert manifest["metadata"] == {"name": "taxi", "namespace": "research"}
    assert manifest["spec"]["backoffLimit"] == 2**31 - 1
    assert "activeDeadlineSeconds" not in manifest["spec"]
    assert (cluster["rayVersion"], cluster["enableInTreeAutoscaling"]) == ("2.55.1", True)
    # Each parameter server is a worker of Ray's, besides those that train: 1 + 2 to 4 + 2.
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (6, 3, 6)
    worker, head = group["template"]["spec"], cluster["headGroupSpec"]["template"]["spec"]
    assert worker["containers"][0]["resources"]["limits"] == {"cpu": "1", "nvidia.com/gpu": "2"}
    assert worker["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
    assert "nodeSelector" not in head
    assert head["containers"][0]["resources"]["limits"] == {"cpu": "4", "memory": "8000M"}
    for pod in (worker, head):
        assert pod["serviceAccountName"] == "trainer"
        assert [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]] == ["/data", "/outputs"]
        assert [claim["persistentVolumeClaim"] for claim in pod["volumes"]] == [
            {"claimName": "training-data", "readOnly": True},
            {"claimName": "outputs"},
        ]
        assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "warehouse"}}]


def test_nodes_are_also_chosen_by_a_label_of_ones_own() -> None:
    manifest = ray_job(job(gpus_per_worker=1, accelerator="nvidia.com/gpu.product=NVIDIA-L4"), KubeRay())
    assert workers_of(manifest)["template"]["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-L4"}


def test_the_definition_refuses_what_kuberay_would_drop(require_valid: Callable[..., None]) -> None:
    import jsonschema

    manifest = ray_job(job(), KubeRay())
    manifest["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["imagePulPolicy"] = (
        "Always"
    )
    with pytest.raises(jsonschema.ValidationError, match="imagePulPolicy"):
        require_valid(manifest, "rayjob_v1")


def test_one_shell_gives_the_words_back(tmp_path: pathlib.Path) -> None:
    words = ("train", "it's", "--a=$HOME `id` *", '--custom-config={"a": "b c"}', "--x=1;2", "--empty=", "#")
    program = tmp_path / "generic-trainer"
    program.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    folder = tmp_path / "a folder"
    folder.mkdir()
    entrypoint = ray_job(job(words), KubeRay(source=JobFile(folder=str(folder))))["spec"]["entrypoint"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["/bin/sh", "-c", entrypoint], capture_output=True, text=True, env=environment, check=True)
    assert json.loads(done.stdout) == list(words)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"engine": "local"}, "Add --engine ray"),
        ({"cluster_address": "ray://head:10001"}, "and KubeRay sets RAY_ADDRESS"),
        ({"gpus_per_worker": 0.5}, "--gpus-per-worker 0.5: pods take whole GPUs only"),
        ({"accelerator": "nvidia-l4"}, "add --gpus-per-worker 1"),
        ({"name": "Taxi_1"}, "'Taxi_1': Kubernetes allows lower-case letters.*For example 'taxi-1'"),
        ({"name": "a" * 48}, "at most 47 characters"),
    ],
)
def test_what_kubernetes_cannot_do_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        ray_job(job(**options), KubeRay())


@pytest.mark.parametrize(
    "text", ["data", "data:mnt", "Data:/mnt", ":/mnt", "data:/mnt:rw", "../x:/mnt", "data:/mnt/.."]
)
def test_a_volume_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"--volume .*expected CLAIM:/FOLDER or CLAIM:/FOLDER:ro"):
        volume_claims([text])


@pytest.mark.parametrize("text", ["taxi_keras", "a.b.C", "9 lives", "---", "x" * 99, "été", "a-" * 40])
def test_derived_names_are_names(text: str) -> None:
    assert JOB.allows(JOB.derived(text))


def test_the_default_ray_is_the_locked_one() -> None:
    [locked] = re.findall(r"(?m)^ray==([\d.]+)", (REQUIREMENTS / "py311.txt").read_text())
    assert locked == kuberay.LOCKED_RAY


@pytest.mark.usefixtures("kubeconfig")
def test_it_is_sent_to_the_cluster_that_kubectl_uses(api: Any, require_valid: Callable[..., None]) -> None:
    manifest = ray_job(job(), KubeRay())
    assert kubernetes_api.create([manifest]) == ["rayjob.ray.io/taxi in the namespace research"]
    [(method, path, body)] = api.requests
    assert (method, path.partition("?")[0]) == ("POST", "/apis/ray.io/v1/namespaces/research/rayjobs")
    assert body == manifest
    require_valid(body, "rayjob_v1")


@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize(
    ("status", "text"),
    [
        (409, "RayJob taxi already exists in the namespace other. Set another --name"),
        (404, "KubeRay's operator is not installed"),
        (403, "rejected the RayJob: 403 Forbidden: .*no right"),
    ],
)
def test_a_refusal_says_what_to_do(api: Any, status: int, text: str) -> None:
    api.answer = lambda body: (status, {"kind": "Status", "message": "no right"})
    with pytest.raises(InputError, match=text):
        kubernetes_api.create([ray_job(job(namespace="other"), KubeRay())])


def test_without_a_cluster_it_says_so(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.config import kube_config

    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "nothing"))
    with pytest.raises(InputError, match="no Kubernetes cluster is configured here"):
        kubernetes_api.create([ray_job(job(), KubeRay())])


def test_the_command_sends_it(command: Callable[..., Any], api: Any, kubeconfig: pathlib.Path) -> None:
    line = ("submit", "--to", "kuberay", "--image", "i", "--namespace", "other", "--send", *COMMAND)
    done = command(*line, env={**os.environ, "KUBECONFIG": str(kubeconfig)})
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "Created rayjob.ray.io/taxi in the namespace other."
    [(_, path, body)] = api.requests
    assert path.partition("?")[0] == "/apis/ray.io/v1/namespaces/other/rayjobs"
    assert done.stdout.startswith("# The worker pods have no memory request")
    assert body["spec"]["entrypoint"] in done.stdout.replace("\n    ", " ").replace("''", "'")


def test_without_the_client_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(InputError, match=r"pip install kubernetes\. Or omit --send, and run kubectl create -f"):
        kubernetes_api.create([ray_job(job(), KubeRay())])
