"""Builds a `TrainJob` and its `TrainingRuntime` for a command line, for Kubeflow Trainer 2.

    runtime, train_job = manifests(job, KubeflowTrainer())

Kubeflow Trainer has no runtime for TensorFlow (https://github.com/kubeflow/trainer/issues/2443). The runtime here is a
JobSet with a replicated job per role: `worker`, or `chief`, `worker` and `ps` with parameter servers, and `evaluator`.
`generic-trainer` derives TF_CONFIG from the environment of its pod; see `executors.distributed.jobset`. A pod that
fails is restarted in place and resumes from the last checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from ...executors.distributed import jobset
from ...executors.distributed.tf_config import CHIEF, EVALUATOR, PS, WORKER
from ...executors.engines.cluster_options import worker_range
from ...executors.errors import InputError
from .expansion import environment, literal
from .names import IMAGE, SUBDOMAIN
from .pods import PodSettings, training_pods, training_resources
from .submission import PROGRAM, SubmittedJob, require_name

API_VERSION = "trainer.kubeflow.org/v1alpha1"
# Host names are NAME-evaluator-0-INDEX, at most 63 characters.
LONGEST_NAME = 47
_CONTAINER = "node"  # Kubeflow Trainer sets image and command of containers with this name
_STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}  # … in jobs with this label
_FRAMEWORK = {"trainer.kubeflow.org/framework": "tensorflow"}
_LABELS = {jobset.NAME: "jobset.sigs.k8s.io/jobset-name", jobset.ROLE: "jobset.sigs.k8s.io/replicatedjob-name"}
_UNLIMITED_RETRIES = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class KubeflowTrainer:
    """Settings of a job for Kubeflow Trainer.

    Attributes:
      namespace: The namespace; "" for the current one of the kubeconfig.
      pods: Settings of all pods.
      runtime: Name of a ClusterTrainingRuntime from `cluster_runtime`; "" for a TrainingRuntime made for the job.
    """

    namespace: str = ""
    pods: PodSettings = dataclasses.field(default_factory=PodSettings)
    runtime: str = ""


def manifests(job: SubmittedJob, settings: KubeflowTrainer) -> list[dict[str, Any]]:
    """Returns the TrainingRuntime, unless the job uses a cluster's, and the TrainJob.

    Raises:
      InputError: When an option or name is not possible on Kubeflow Trainer.
    """
    name = require_name(job.name, LONGEST_NAME, "--name")
    place = {"namespace": require_name(settings.namespace, 63, "--namespace")} if settings.namespace else {}
    counts = _counts(job)
    SUBDOMAIN.require(settings.runtime, "--runtime")
    if settings.runtime and counts.keys() != {WORKER}:
        raise InputError(
            f"--runtime {settings.runtime}: the runtime of the cluster has workers only, no parameter servers and no "
            "evaluator. Omit --runtime."
        )
    kind = "ClusterTrainingRuntime" if settings.runtime else "TrainingRuntime"
    trainer: dict[str, object] = {
        "image": job.image,
        "command": [PROGRAM],
        "args": list(map(literal, job.command)),
        "env": environment({jobset.TASKS: json.dumps(counts)}),
    }
    if settings.runtime:
        resources = training_resources(job)
        trainer |= {
            "numNodes": counts[WORKER],
            "resourcesPerNode": {"requests": resources, "limits": dict(resources)},
        }
    train_job = {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": name, **place, **settings.pods.job_metadata},
        "spec": {
            "runtimeRef": {
                "apiGroup": API_VERSION.partition("/")[0],
                "kind": kind,
                "name": settings.runtime or name,
            },
            "trainer": trainer,
        },
    }
    if settings.runtime:
        return [train_job]
    roles = [_replicated_job(job, settings.pods, role, count) for role, count in counts.items()]
    chief = CHIEF if CHIEF in counts else WORKER
    return [_runtime("TrainingRuntime", {"name": name, **place}, roles, chief), train_job]


def cluster_runtime(name: str, image: str, settings: KubeflowTrainer) -> dict[str, Any]:
    """Returns a ClusterTrainingRuntime for any number of workers; the TrainJob sets number, command and resources."""
    container = {
        "name": _CONTAINER,
        "image": IMAGE.require(image, "--image"),
        "command": [PROGRAM, "--help"],
        "env": _environment(),
    }
    pod = settings.pods.apply({"spec": {"restartPolicy": "OnFailure", "containers": [container]}}, _CONTAINER)
    worker = {"name": WORKER, "template": {"metadata": {"labels": dict(_STEP)}, "spec": {"template": pod}}}
    runtime = _runtime("ClusterTrainingRuntime", {"name": require_name(name, 63, "--runtime")}, [worker], WORKER)
    return {**runtime, "spec": {"mlPolicy": {"numNodes": 1}, **runtime["spec"]}}


def remarks(job: SubmittedJob) -> list[str]:
    """Returns notes on options of the command line that Kubeflow Trainer does not support."""
    options, found = job.options, []
    least, most = worker_range(options.workers)
    if least < most:
        found.append(f"--workers {options.workers}: the number of pods of a TrainJob is fixed; the job has {most}.")
    if options.memory_gb_per_worker is None:
        found.append("The pods have no memory request; set one with --memory-gb-per-worker N.")
    return found


def _counts(job: SubmittedJob) -> dict[str, int]:
    """Returns the number of pods by role. Parameter servers need a chief; else worker 0 is the chief."""
    workers, ps = worker_range(job.options.workers)[1], job.options.ps
    chiefs = 1 if ps else 0
    counts = {CHIEF: chiefs, WORKER: workers - chiefs, PS: ps, EVALUATOR: job.evaluators}
    return {role: count for role, count in counts.items() if count}


def _runtime(kind: str, metadata: Mapping[str, object], roles: list[dict[str, Any]], chief: str) -> dict[str, Any]:
    spec = {
        # Tasks wait for each other before they are ready.
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": [chief]},
        "replicatedJobs": roles,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {**metadata, "labels": dict(_FRAMEWORK)},
        "spec": {"template": {"spec": spec}},
    }


def _replicated_job(job: SubmittedJob, pods: PodSettings, role: str, count: int) -> dict[str, Any]:
    trains = role in (CHIEF, WORKER)
    resources = training_resources(job)
    if not trains:
        resources = {name: value for name, value in resources.items() if name in ("cpu", "memory")}
    container = {
        "name": _CONTAINER,
        "image": job.image,
        "env": _environment(),
        "ports": [{"name": "tensorflow", "containerPort": jobset.PORT}],
        "resources": {"requests": resources, "limits": dict(resources)},
    }
    spec: dict[str, object] = {"restartPolicy": "OnFailure", "containers": [container]}
    if job.service_account:
        spec["serviceAccountName"] = SUBDOMAIN.require(job.service_account, "--service-account")
    settings = training_pods(pods, job) if trains else pods
    failures = job.options.max_failures
    return {
        "name": role,
        "template": {
            "metadata": {"labels": dict(_STEP)},
            "spec": {
                "completionMode": "Indexed",
                "parallelism": count,
                "completions": count,
                # When a task fails, those that communicate with it fail too; each counts once.
                "backoffLimit": _UNLIMITED_RETRIES if failures < 0 else min(failures * count, _UNLIMITED_RETRIES),
                **({"activeDeadlineSeconds": job.deadline_seconds} if job.deadline_seconds else {}),
                "template": settings.apply({"spec": spec}, _CONTAINER),
            },
        },
    }


def _environment() -> list[dict[str, object]]:
    """Returns the variables for `jobset.set_tf_config`; Kubernetes itself sets the index of an indexed job's pod."""
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}
        for name, label in _LABELS.items()
    ]
