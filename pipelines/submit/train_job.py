"""Builds a `TrainJob` and its `TrainingRuntime` for a command line, for Kubeflow Trainer 2.

    runtime, train_job = manifests(job)

Kubeflow Trainer has no runtime for TensorFlow (https://github.com/kubeflow/trainer/issues/2443). The runtime here is a
JobSet with a replicated job per role: `worker`, or `chief`, `worker` and `ps` with parameter servers, and `evaluator`.
`generic-trainer` derives TF_CONFIG from the environment of its pod; see `executors.distributed.jobset`. A pod that
fails is restarted in place and resumes from the last checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...executors.distributed import jobset
from ...executors.distributed.tf_config import CHIEF, EVALUATOR, PS, WORKER
from ...executors.engines.cluster_options import worker_range
from ...executors.errors import InputError
from .expansion import environment, literal
from .names import IMAGE, RUNTIME, SUBDOMAIN
from .pods import PodSettings
from .submission import PROGRAM, SubmittedJob

API_VERSION = "trainer.kubeflow.org/v1alpha1"
_CONTAINER = "node"  # Kubeflow Trainer sets image and command of containers with this name
_STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}  # … in jobs with this label
_FRAMEWORK = {"trainer.kubeflow.org/framework": "tensorflow"}
_LABELS = {jobset.NAME: "jobset.sigs.k8s.io/jobset-name", jobset.ROLE: "jobset.sigs.k8s.io/replicatedjob-name"}
# For `jobset.set_tf_config`. Kubernetes itself sets the index of an indexed job's pod.
_ENVIRONMENT = [
    {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}
    for name, label in _LABELS.items()
]


def manifests(job: SubmittedJob, runtime: str = "") -> list[dict[str, Any]]:
    """Returns the TrainingRuntime, unless the job uses a cluster's, and the TrainJob.

    Args:
      job: The job.
      runtime: Name of a ClusterTrainingRuntime from `cluster_runtime`; "" for a TrainingRuntime made for the job.

    Raises:
      InputError: When an option or name is not possible on Kubeflow Trainer.
    """
    counts = _counts(job)
    SUBDOMAIN.require(runtime, "--runtime")
    if runtime and counts.keys() != {WORKER}:
        raise InputError(
            f"--runtime {runtime}: the runtime of the cluster has workers only, no parameter servers and no "
            "evaluator. Omit --runtime."
        )
    trainer: dict[str, object] = {
        "image": job.image,
        "command": [PROGRAM],
        "args": list(map(literal, job.command)),
        "env": environment({jobset.TASKS: json.dumps(counts)}),
    }
    reference = {"apiGroup": API_VERSION.partition("/")[0], "kind": "TrainingRuntime", "name": job.name}
    if runtime:
        resources = job.training_resources()
        limits = {"requests": resources, "limits": dict(resources)}
        trainer |= {"numNodes": counts[WORKER], "resourcesPerNode": limits}
        reference |= {"kind": "ClusterTrainingRuntime", "name": runtime}
    train_job = {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": {**job.identity, **job.pods.job_metadata},
        "spec": {"runtimeRef": reference, "trainer": trainer},
    }
    if runtime:
        return [train_job]
    roles = [_replicated_job(role, _job_spec(job, role, count)) for role, count in counts.items()]
    chief = CHIEF if CHIEF in counts else WORKER
    return [_runtime("TrainingRuntime", job.identity, roles, chief), train_job]


def cluster_runtime(name: str, image: str, pods: PodSettings) -> dict[str, Any]:
    """Returns a ClusterTrainingRuntime for any number of workers; the TrainJob sets number, command and resources."""
    container = {
        "name": _CONTAINER,
        "image": IMAGE.require(image, "--image"),
        "command": [PROGRAM, "--help"],
        "env": _ENVIRONMENT,
    }
    pod = pods.apply({"spec": {"restartPolicy": "OnFailure", "containers": [container]}}, _CONTAINER)
    worker = _replicated_job(WORKER, {"template": pod})
    runtime = _runtime("ClusterTrainingRuntime", {"name": RUNTIME.require(name, "--runtime")}, [worker], WORKER)
    return {**runtime, "spec": {"mlPolicy": {"numNodes": 1}, **runtime["spec"]}}


def remarks(job: SubmittedJob) -> list[str]:
    """Returns notes on options of the command line that Kubeflow Trainer does not support."""
    options, notes = job.options, []
    least, most = worker_range(options.workers)
    if least < most:
        notes.append(f"--workers {options.workers}: the number of pods of a TrainJob is fixed; the job has {most}.")
    if options.memory_gb_per_worker is None:
        notes.append("The pods have no memory request; set one with --memory-gb-per-worker N.")
    return notes


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


def _replicated_job(role: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": role, "template": {"metadata": {"labels": dict(_STEP)}, "spec": spec}}


def _job_spec(job: SubmittedJob, role: str, count: int) -> dict[str, Any]:
    resources = job.training_resources()
    if role not in (CHIEF, WORKER):
        resources = {name: value for name, value in resources.items() if name in ("cpu", "memory")}
    ports = [{"name": "tensorflow", "containerPort": jobset.PORT}]
    container = {"name": _CONTAINER, "env": _ENVIRONMENT, "ports": ports}
    return {
        "completionMode": "Indexed",
        "parallelism": count,
        "completions": count,
        # When a task fails, those that communicate with it fail too; each counts once.
        "backoffLimit": job.restarts(count),
        **job.deadline,
        "template": job.pod(container, resources, {"spec": {"restartPolicy": "OnFailure"}}),
    }
