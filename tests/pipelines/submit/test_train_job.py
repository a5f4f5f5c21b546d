"""The TrainJob and its TrainingRuntime match Kubeflow Trainer's definitions and start the wanted cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from generic_trainer import InputError
from generic_trainer.cli.main import cli
from generic_trainer.executors.distributed import jobset
from generic_trainer.pipelines.submit import kubernetes_api

DATA = ("--train-files", "gs://b/train*", "--output", "gs://b/out")
TRAIN = ("train", "project.taxi", *DATA)


@pytest.fixture
def submit(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[dict[str, Any]]]:
    def run(*arguments: str) -> list[dict[str, Any]]:
        cli.main(["submit", "--to", "kubeflow-trainer", "--image", "registry/i:1", *arguments], standalone_mode=False)
        return list(yaml.safe_load_all(capsys.readouterr().out))

    return run


def jobs_of(runtime: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one["template"]["spec"] for one in runtime["spec"]["template"]["spec"]["replicatedJobs"]}


def environments_of(runtime: dict[str, Any], train_job: dict[str, Any]) -> list[dict[str, str]]:
    """Returns the environments of all containers, as Kubernetes, JobSet and Kubeflow Trainer set them."""
    name = train_job["metadata"]["name"]
    found = []
    for role, job in jobs_of(runtime).items():
        labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": role}
        [container] = job["template"]["spec"]["containers"]
        of_pod = {
            one["name"]: labels[one["valueFrom"]["fieldRef"]["fieldPath"].partition("'")[2].rstrip("']")]
            for one in container["env"]
        }
        of_job = {one["name"]: one["value"] for one in train_job["spec"]["trainer"]["env"]}
        for index in range(job["completions"]):
            found.append({**of_pod, **of_job, "JOB_COMPLETION_INDEX": str(index)})
    return found


def test_a_plain_job_is_one_pod(submit: Any, require_valid: Callable[..., None]) -> None:
    runtime, train_job = submit(*TRAIN, "--timeout", "60")
    require_valid(runtime, "trainingruntime_v1alpha1")
    require_valid(train_job, "trainjob_v1alpha1")
    assert train_job["spec"]["runtimeRef"] == {
        "apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": runtime["metadata"]["name"],
    }  # fmt: skip
    assert train_job["spec"]["trainer"]["command"] == ["generic-trainer"]
    assert train_job["spec"]["trainer"]["args"] == [
        "train",
        "project.taxi",
        "--train-files=gs://b/train*",
        "--output=gs://b/out",
        "--timeout=60",
    ]
    [job] = jobs_of(runtime).values()
    assert (job["completions"], job["backoffLimit"], job["activeDeadlineSeconds"]) == (1, 3, 960)
    [environment] = environments_of(runtime, train_job)
    jobset.set_tf_config(environment)
    assert "TF_CONFIG" not in environment


def test_each_pod_becomes_its_task(submit: Any, require_valid: Callable[..., None]) -> None:
    line = (*TRAIN, "--engine", "ray", "--workers", "3", "--ps", "1", "--max-failures", "2", "--cpus-per-worker", "2")
    runtime, train_job = submit(*line)
    require_valid(runtime, "trainingruntime_v1alpha1")
    require_valid(train_job, "trainjob_v1alpha1")
    assert not any("ray" in word or "workers" in word for word in train_job["spec"]["trainer"]["args"])
    assert {role: job["backoffLimit"] for role, job in jobs_of(runtime).items()} == {"chief": 2, "worker": 4, "ps": 2}
    assert runtime["spec"]["template"]["spec"]["successPolicy"]["targetReplicatedJobs"] == ["chief"]
    tasks = []
    for environment in environments_of(runtime, train_job):
        jobset.set_tf_config(environment)
        config = json.loads(environment["TF_CONFIG"])
        assert config["cluster"] == {
            "chief": ["project-taxi-chief-0-0.project-taxi:2222"],
            "worker": ["project-taxi-worker-0-0.project-taxi:2222", "project-taxi-worker-0-1.project-taxi:2222"],
            "ps": ["project-taxi-ps-0-0.project-taxi:2222"],
        }
        tasks.append((config["task"]["type"], config["task"]["index"]))
    assert tasks == [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0)]


def test_an_evaluator_is_a_pod_outside_of_the_cluster(submit: Any) -> None:
    runtime, train_job = submit(*TRAIN, "--cluster", "worker=2,evaluator=1")
    assert list(jobs_of(runtime)) == ["worker", "evaluator"]
    environment = environments_of(runtime, train_job)[-1]
    jobset.set_tf_config(environment)
    assert json.loads(environment["TF_CONFIG"])["task"] == {"type": "evaluator", "index": 0}


def test_gpus_are_for_pods_that_train(submit: Any) -> None:
    runtime, _ = submit("--accelerator", "nvidia-l4", *TRAIN, "--engine", "ray", "--ps", "1", "--gpus-per-worker", "1")
    pods = {role: job["template"]["spec"] for role, job in jobs_of(runtime).items()}
    assert pods["chief"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert pods["chief"]["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    assert "nvidia.com/gpu" not in pods["ps"]["containers"][0]["resources"]["limits"]
    assert "nodeSelector" not in pods["ps"]


def test_a_runtime_of_the_cluster_serves_jobs_of_any_size(submit: Any, require_valid: Callable[..., None]) -> None:
    [runtime] = submit("--runtime", "tensorflow-distributed", "--service-account", "trainer")
    require_valid(runtime, "trainingruntime_v1alpha1")
    assert (runtime["kind"], runtime["metadata"]["name"]) == ("ClusterTrainingRuntime", "tensorflow-distributed")
    [train_job] = submit("--runtime", "tensorflow-distributed", *TRAIN, "--engine", "ray", "--workers", "4")
    require_valid(train_job, "trainjob_v1alpha1")
    assert train_job["spec"]["trainer"]["numNodes"] == 4
    assert json.loads(train_job["spec"]["trainer"]["env"][0]["value"]) == {"worker": 4}
    with pytest.raises(InputError, match="has workers only, no parameter servers"):
        submit("--runtime", "tensorflow-distributed", *TRAIN, "--engine", "ray", "--workers", "4", "--ps", "1")


def test_flags_of_other_platforms_and_pipelines_are_rejected(submit: Any) -> None:
    with pytest.raises(InputError, match="--metrics-port requires --to kuberay"):
        submit("--metrics-port", "9100", *TRAIN)
    with pytest.raises(InputError, match="a pipeline is one process"):
        submit(
            "run",
            "--data",
            "gs://b/data",
            "--module-file",
            "project.taxi",
            "--label",
            "x",
            "--pipeline-root",
            "gs://b/r",
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"JOBSET_NAME": ""}, "JOBSET_NAME missing"),
        ({"JOB_COMPLETION_INDEX": "2"}, "has no task worker 2"),
        ({"REPLICATED_JOB_NAME": "ps"}, "has no task ps 0"),
        ({jobset.TASKS: "worker=2"}, "is not JSON"),
        ({jobset.TASKS: '{"workers": 2}'}, "expected numbers of tasks by role"),
        ({jobset.TASKS: '{"worker": true}'}, "expected numbers of tasks by role"),
    ],
)
def test_an_incomplete_environment_is_an_error(changes: dict[str, str], message: str) -> None:
    environment = {
        jobset.TASKS: '{"worker": 2}', "JOBSET_NAME": "taxi",
        "REPLICATED_JOB_NAME": "worker", "JOB_COMPLETION_INDEX": "0",
    }  # fmt: skip
    with pytest.raises(InputError, match=message):
        jobset.set_tf_config({**environment, **changes})


def test_the_platforms_own_tf_config_takes_precedence() -> None:
    environment = {jobset.TASKS: '{"worker": 2}', "TF_CONFIG": "{}"}
    jobset.set_tf_config(environment)
    assert environment["TF_CONFIG"] == "{}"


def test_a_rejected_train_job_leaves_no_runtime_behind(submit: Any, api: Any, kubeconfig: Any) -> None:
    del kubeconfig
    manifests = submit(*TRAIN)
    assert kubernetes_api.create(manifests) == [
        "trainingruntime.trainer.kubeflow.org/project-taxi in the namespace research",
        "trainjob.trainer.kubeflow.org/project-taxi in the namespace research",
    ]
    del api.requests[:]
    api.answer = lambda body: (403, {"message": "no"}) if (body or {}).get("kind") == "TrainJob" else (201, body or {})
    with pytest.raises(InputError, match="rejected the TrainJob: 403"):
        kubernetes_api.create(manifests)
    assert [(method, path.partition("?")[0].rpartition("/")[2]) for method, path, _ in api.requests] == [
        ("POST", "trainingruntimes"), ("POST", "trainjobs"), ("DELETE", "project-taxi"),
    ]  # fmt: skip
