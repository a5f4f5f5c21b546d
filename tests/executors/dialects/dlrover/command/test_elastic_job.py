"""A DLRover ElasticJob becomes a command line and a RayJob; fields that neither contains are noted."""

from __future__ import annotations

import copy
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from generic_trainer import InputError, TrainingOptions
from generic_trainer.executors.dialects.dlrover.command.quantities import gigabytes, processors
from generic_trainer.executors.dialects.dlrover.command.trainer_call import find_call
from generic_trainer.pipelines.submit.job_file import JobFile, read_job_file
from generic_trainer.pipelines.submit.kuberay import KubeRay, ray_job
from generic_trainer.pipelines.submit.submission import SubmittedJob

from .....world.manifests import require_valid

TRAINER = "python -m dlrover.trainer.entry.local_entry --platform=Kubernetes --conf=train_conf.TrainConf"


def template(memory: str = "4Gi", **more: Any) -> dict[str, Any]:
    resources = {"cpu": "2", "memory": memory}
    container = {
        "name": "main",
        "image": "registry/dlrover:deeprec",
        "imagePullPolicy": "Always",
        "command": ["/bin/bash", "-c", f"pip install pyhocon && cd ./examples/criteo \\\n && {TRAINER}"],
        "resources": {"requests": resources, "limits": dict(resources)},
        "volumeMounts": [{"name": "nas", "mountPath": "/nas"}],
    }
    claim = {"name": "nas", "persistentVolumeClaim": {"claimName": "pvc-nas"}}
    return {"spec": {"restartPolicy": "Never", "containers": [{**container, **more}], "volumes": [claim]}}


def elastic_job(**replicas: Any) -> dict[str, Any]:
    specs = {
        "ps": {"autoScale": False, "replicas": 2, "template": template("3Gi")},
        "worker": {"autoScale": False, "replicas": 3, "restartCount": 5, "template": template()},
    }
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "deepctr", "namespace": "dlrover"},
        "spec": {"distributionStrategy": "ParameterServerStrategy", "replicaSpecs": {**specs, **replicas}},
    }


@pytest.fixture
def read(tmp_path: pathlib.Path) -> Callable[..., JobFile]:
    def translate(document: dict[str, Any], *, valid: bool = True) -> JobFile:
        if valid:
            require_valid(document, "elasticjob_v1alpha1")
        path = tmp_path / "elasticjob.yaml"
        path.write_text(yaml.safe_dump(document))
        return read_job_file(str(path))

    return translate


def as_ray_job(elastic: JobFile) -> dict[str, Any]:
    options = TrainingOptions(engine="ray")
    job = SubmittedJob(elastic.name, elastic.image, elastic.command, options, namespace=elastic.namespace)
    return ray_job(job, KubeRay(source=elastic))


def test_dlrovers_documented_job(read: Callable[..., JobFile]) -> None:
    elastic = read(elastic_job())
    assert (elastic.name, elastic.namespace, elastic.image) == ("deepctr", "dlrover", "registry/dlrover:deeprec")
    assert elastic.command == (
        "dlrover",
        "--conf=train_conf.TrainConf",
        "--engine=ray",
        "--workers=3",
        "--ps=2",
        "--cpus-per-worker=2",
        "--memory-gb-per-worker=4.294967296",
        "--max-failures=5",
    )
    assert (elastic.folder, elastic.folders) == ("./examples/criteo", ("/nas",))
    assert elastic.notes == (
        "ps: memory is 4.29497 as for the other roles, instead of 3.22123.",
        "worker: the command: pip install pyhocon was left out: include its results in the image.",
        "worker: --platform: Kubernetes was left out: the platform is KubeRay.",
        "worker: restartPolicy: Never was left out: KubeRay sets it.",
    )
    manifest = as_ray_job(elastic)
    require_valid(manifest, "rayjob_v1")
    assert manifest["spec"]["entrypoint"].startswith("cd ./examples/criteo && generic-trainer dlrover --conf=")
    worker = manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]
    assert worker["containers"][0]["imagePullPolicy"] == "Always"
    assert worker["volumes"] == [{"name": "nas", "persistentVolumeClaim": {"claimName": "pvc-nas"}}]
    assert "command" not in worker["containers"][0]


def test_chief_evaluator_and_master(read: Callable[..., JobFile]) -> None:
    elastic = read(
        elastic_job(
            chief={"replicas": 1, "restartCount": 1, "template": template()},
            evaluator={"replicas": 1, "template": template()},
            **{"dlrover-master": {"template": {"spec": {"containers": [{"name": "main"}]}}}},
        )
    )
    assert "--workers=4" in elastic.command  # one chief and three workers
    assert "chief: restartCount: 1 was left out: failures are counted for the whole job." in elastic.notes
    assert "replicaSpecs.evaluator: 1 replicas was left out: on Ray the chief evaluates." in elastic.notes
    assert any(note.startswith("replicaSpecs.dlrover-master: ") for note in elastic.notes)


def test_gpus_limits_and_sidecars(read: Callable[..., JobFile]) -> None:
    document = elastic_job()
    container = document["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "nvidia.com/gpu": 1, "rdma/hca": 1}}
    document["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"].append({"name": "logs"})
    elastic = read(document)
    assert "--gpus-per-worker=1" in elastic.command
    assert "worker: the cpu request of 500m was replaced by the limit, 2." in elastic.notes
    assert "worker: resources.rdma/hca: 1 was left out: there is no equivalent." in elastic.notes
    assert elastic.pod_template["spec"]["containers"][1] == {"name": "logs"}


def leaves(value: Any, path: str = "") -> Iterator[tuple[list[Any], Any]]:
    """Yields the key path and the value of every text in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, (dict, list)):
            yield from (([key, *keys], leaf) for keys, leaf in leaves(item))
        else:
            yield [key], item


def test_nothing_is_dropped_silently(read: Callable[..., JobFile]) -> None:
    document = elastic_job()
    document["metadata"] |= {"labels": {"team": "a"}, "annotations": {"note": "b"}, "uid": "c"}
    document["spec"] |= {
        "optimizeMode": "cluster",
        "brainService": "d",
        "resourceLimits": {"cpu": "15"},
        "envs": {"LEVEL": {"name": "LEVEL", "value": "debug"}},
    }
    worker = document["spec"]["replicaSpecs"]["worker"]
    worker |= {"priority": "high", "restartTimeout": 5, "restartPolicy": "Always", "BatchScheduler": "volcano"}
    worker["autoScale"] = True
    worker["template"]["metadata"] = {"annotations": {"sidecar.istio.io/inject": "false"}}
    for role in (worker, document["spec"]["replicaSpecs"]["ps"]):
        role["template"]["spec"] |= {"nodeSelector": {"pool": "e"}, "serviceAccountName": "f"}
        role["template"]["spec"]["containers"].append({"name": "logs", "image": "g"})
        role["template"]["metadata"] = {"labels": {"h": "i"}}
    checked = 0
    for keys, leaf in leaves(document):
        if not isinstance(leaf, str):
            continue
        if keys[-1] in ("apiVersion", "kind", "distributionStrategy") or "resources" in keys or "command" in keys:
            continue  # read; covered by the tests above
        if (keys[-1] in ("name", "namespace") and keys[0] == "metadata") or keys[-2:] == [0, "name"]:
            continue  # Ray names the containers
        changed = copy.deepcopy(document)
        place: Any = changed
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = "a-mark-of-its-own"
        elastic = read(changed)
        assert "a-mark-of-its-own" in json.dumps(as_ray_job(elastic)) + "\n".join(elastic.notes), keys
        checked += 1
    assert checked > 30
    notes = "\n".join(read(document).notes)
    for name in ("autoScale: true", "restartTimeout: 5", "priority: high", "BatchScheduler: volcano"):
        assert f"worker: {name} was left out" in notes


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda job: job.update(kind="ScalePlan"), "expected exactly one ElasticJob, found ScalePlan"),
        (lambda job: job.update(apiVersion="kubeflow.org/v1"), "apiVersion is 'kubeflow.org/v1'"),
        (lambda job: job["spec"].update(replicaSpecs={}), "no worker and no chief with a template"),
        (lambda job: job["spec"].update(replicaSpecs=[1]), "replicaSpecs must be a mapping, not"),
        (lambda job: _worker(job).update(replicas=0), "no replicas of worker or chief"),
        (
            lambda job: _worker(job).update(replicas="many"),
            "replicas must be an integer from 0 to 1,000,000, not 'm",
        ),
        (
            lambda job: _worker(job).update(restartCount=-1),
            "restartCount must be an integer from 0 to 2,1",
        ),
        (lambda job: _worker(job).update(template={"spec": {}}), "its template has no containers"),
        (
            lambda job: _main(job).update(command=["python", "-m", "model_zoo.iris"]),
            "but python -m model_zoo.iris. Pass",
        ),
        (lambda job: _main(job).update(command=["bash", "-c", "dlrover-run x.py"]), "but dlrover-run x.py. Pass"),
        (lambda job: _main(job).update(command=None), "but nothing. Pass"),
        (lambda job: _main(job).update(command=["bash", "-c", f"{TRAINER}$N"]), "requires shell expansion"),
        (lambda job: _main(job).update(command=["bash", "-c", "echo 'open"]), "is not a valid shell command"),
        (lambda job: _main(job).update(command=["python", "-m", "dlrover.trainer"]), "has no --conf"),
        (lambda job: _main(job).update(resources={"limits": {"memory": "4GB"}}), "'4GB' is not a quantity"),
    ],
)
def test_untranslatable_fields_are_rejected(read: Callable[..., JobFile], change: Any, text: str) -> None:
    document = elastic_job()
    change(document)
    with pytest.raises(InputError, match=text):
        read(document, valid=False)


def _worker(job: dict[str, Any]) -> dict[str, Any]:
    return job["spec"]["replicaSpecs"]["worker"]


def _main(job: dict[str, Any]) -> dict[str, Any]:
    return _worker(job)["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("wrong", ["text", [1], {"a": 1}])
def test_any_invalid_content_raises_a_trainer_error(read: Callable[..., JobFile], wrong: Any) -> None:
    document = elastic_job(ps={"replicas": 1})
    document["spec"]["envs"] = {"LEVEL": {"value": "debug"}}

    def nodes(value: Any) -> Iterator[list[Any]]:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            yield [key]
            yield from ([key, *keys] for keys in nodes(item))

    refused = 0
    for keys in list(nodes(document)):
        changed = copy.deepcopy(document)
        place: Any = changed
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = wrong
        try:
            as_ray_job(read(changed, valid=False))
        except InputError:
            refused += 1
    assert refused > 5


@pytest.mark.parametrize("content", ["kind: [", "", "- 1", "\x00"])
def test_an_invalid_or_missing_file_is_rejected(tmp_path: pathlib.Path, content: str) -> None:
    path = tmp_path / "elasticjob.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=f"--from {path}"):
        read_job_file(str(path))
    with pytest.raises(InputError, match="cannot read the file"):
        read_job_file(str(tmp_path / "nowhere.yaml"))


def test_yaml_does_not_create_objects(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "elasticjob.yaml"
    path.write_text("!!python/object/apply:os.system ['false']\n")
    with pytest.raises(InputError, match="line 1: the tag"):
        read_job_file(str(path))


@pytest.mark.parametrize(
    ("line", "folder", "flags", "environment", "others"),
    [
        (f"cd /a; cd b && LEVEL=1 {TRAINER}", "/a/b", 2, {"LEVEL": "1"}, []),
        (f"export A='x y' B=2\n{TRAINER} --mock", "", 3, {"A": "x y", "B": "2"}, []),
        (f"(sleep 1) && /usr/bin/python3.8 {TRAINER[7:]} || exit 1", "", 2, {}, ["sleep 1", "exit 1"]),
        ("python -m dlrover.trainer --conf conf.TrainConf --ps_num 2", "", 2, {}, []),
    ],
)
def test_shell_commands(line: str, folder: str, flags: int, environment: Any, others: list[str]) -> None:
    call = find_call(["/bin/bash", "-lc", line], "worker")
    assert (call.folder, len(call.flags), call.environment, call.others) == (folder, flags, environment, others)
    assert call.flags["conf"].endswith("conf.TrainConf")


def test_quantities() -> None:
    assert [processors(text, "") for text in ("2", "500m", 1, "1.5", "1e3", "2k")] == [2, 0.5, 1, 1.5, 1000, 2000]
    assert [gigabytes(text, "") for text in ("4Gi", "1500M", "1G", "1e9", "512Mi")] == [
        4.294967296,
        1.5,
        1,
        1,
        0.536870912,
    ]
    for text in ("", "4GB", "-1", "four", "1 Gi", "1ki", "1e400", "1e400Gi", "1000000E"):
        with pytest.raises(InputError, match="is not a quantity"):
            processors(text, "resources.cpu")
