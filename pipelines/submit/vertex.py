"""A job on Vertex AI: the `CustomJob` for a command line, and how it is sent.

    manifest = custom_job(job, Vertex(project="my-project", region="europe-west4"))
    send(manifest, "my-project", "europe-west4")

Every replica runs the same command; Vertex AI sets TF_CONFIG in each, with the chief in worker pool 0, workers in 1,
parameter servers in 2 and evaluators in 3 (https://cloud.google.com/vertex-ai/docs/training/distributed-training).
There is no Ray, so `--engine ray` becomes replica counts; the number of replicas is fixed while the job runs.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from ...executors.errors import InputError, did_you_mean
from .submission import PROGRAM, SubmittedJob

BUCKETS = "/gcs"  # Vertex AI mounts every bucket there, in each replica
LONGEST_NAME = 128
_RESTARTS = 3  # what TrainingOptions.max_failures is when nobody chose
# Machines, smallest first: their processors and memory in 10^9 bytes. https://cloud.google.com/compute/docs/machine-resource
_GIB = 2**30 / 1e9
_PLAIN = {
    f"{kind}-{cpus}": (cpus, memory * cpus * _GIB)
    for cpus in (4, 8, 16, 32, 64, 96)
    for kind, memory in (("e2-standard", 4), ("n1-highmem", 6.5))
    if kind != "e2-standard" or cpus <= 32
}
_N1 = {
    f"n1-{kind}-{cpus}": (cpus, memory * cpus * _GIB)
    for cpus in (4, 8, 16, 32, 64, 96)
    for kind, memory in (("standard", 3.75), ("highmem", 6.5))
}
# GPUs come with machines of their own, or with any of the N1. By the number of GPUs where it decides.
_WITH_N1 = ("NVIDIA_TESLA_T4", "NVIDIA_TESLA_P4", "NVIDIA_TESLA_P100", "NVIDIA_TESLA_V100")
_OWN_MACHINES: dict[str, dict[int, str]] = {
    "NVIDIA_L4": {1: "g2-standard-12", 2: "g2-standard-24", 4: "g2-standard-48", 8: "g2-standard-96"},
    "NVIDIA_TESLA_A100": {count: f"a2-highgpu-{count}g" for count in (1, 2, 4, 8)} | {16: "a2-megagpu-16g"},
    "NVIDIA_A100_80GB": {count: f"a2-ultragpu-{count}g" for count in (1, 2, 4, 8)},
    "NVIDIA_H100_80GB": {count: f"a3-highgpu-{count}g" for count in (1, 2, 4, 8)},
    "NVIDIA_H100_MEGA_80GB": {8: "a3-megagpu-8g"},
    "NVIDIA_H200_141GB": {8: "a3-ultragpu-8g"},
}
ACCELERATORS = (*_WITH_N1, *_OWN_MACHINES)


@dataclasses.dataclass(frozen=True)
class Vertex:
    """What only Vertex AI wants to know.

    Attributes:
      machine_type: The machine of chief, workers and evaluator; "" for the smallest that has what each asks for.
      output: A gs:// URI for `baseOutputDirectory`, which Vertex AI shows and passes on; "" for none.
    """

    machine_type: str = ""
    output: str = ""


def custom_job(job: SubmittedJob, place: Vertex) -> dict[str, Any]:
    """Returns the CustomJob for a command line, as the REST API takes it.

    Raises:
      InputError: When there is no such machine or accelerator.
    """
    if len(job.name) > LONGEST_NAME:
        raise InputError(f"--name {job.name}: Vertex AI takes at most {LONGEST_NAME} characters.")
    workers, ps = job.options.worker_range[1], job.options.ps
    trains = _machine(job, place)
    counts = [(1, trains), (workers - 1, trains), (ps, _plain_machine(job)), (job.evaluators, trains)]
    pools = [_pool(job, count, machine) if count else {} for count, machine in counts]
    while not pools[-1]:
        pools.pop()
    spec: dict[str, Any] = {"workerPoolSpecs": pools, "scheduling": _scheduling(job, sum(map(bool, pools)) > 1)}
    if job.service_account:
        spec["serviceAccount"] = job.service_account
    if place.output:
        spec["baseOutputDirectory"] = {"outputUriPrefix": place.output}
    return {"displayName": job.name, "jobSpec": spec}


def remarks(job: SubmittedJob) -> list[str]:
    """Returns what of the command line Vertex AI has no counterpart for."""
    options, found = job.options, []
    least, most = options.worker_range
    if least < most:
        found.append(f"--workers {options.workers}: Vertex AI's replicas do not come and go; the job has {most}.")
    if options.max_failures not in (0, _RESTARTS):
        found.append(
            f"--max-failures {options.max_failures}: Vertex AI restarts the job as often as it sees fit; 0 forbids it."
        )
    return found


def send(manifest: Mapping[str, Any], project: str, region: str, client: Any = None) -> str:
    """Creates the job; returns its resource name.

    Args:
      manifest: As `custom_job` made it.
      project: The Google Cloud project.
      region: Its region, such as europe-west4.
      client: An `aiplatform_v1.JobServiceClient` (default: one with this machine's credentials).

    Raises:
      InputError: When there is no client, no credentials, or Vertex AI refuses the job.
    """
    try:
        from google.api_core.exceptions import GoogleAPICallError, RetryError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud import aiplatform_v1
    except ImportError as error:
        raise InputError(
            f"--send needs Vertex AI's client ({error}): pip install google-cloud-aiplatform. Or leave --send out, and "
            "send what is written by the REST API."
        ) from error
    try:
        if client is None:
            endpoint = {"api_endpoint": f"{region}-aiplatform.googleapis.com"}
            client = aiplatform_v1.JobServiceClient(client_options=endpoint)
        body = aiplatform_v1.CustomJob.from_json(json.dumps(manifest))
        made = client.create_custom_job(parent=f"projects/{project}/locations/{region}", custom_job=body)
    except GoogleAuthError as error:
        raise InputError(f"--send: no credentials: {error}. Try gcloud auth application-default login.") from error
    except (GoogleAPICallError, RetryError) as error:
        raise InputError(f"--send: Vertex AI refused the job: {error}") from error
    return str(made.name)


def _pool(job: SubmittedJob, count: int, machine: dict[str, Any]) -> dict[str, Any]:
    return {
        "machineSpec": dict(machine),
        "replicaCount": count,
        "containerSpec": {"imageUri": job.image, "command": [PROGRAM], "args": list(job.command)},
    }


def _scheduling(job: SubmittedJob, several: bool) -> dict[str, Any]:
    """Returns when the job is ended, and whether it is begun again from its checkpoint when a replica was."""
    again = job.options.max_failures != 0
    scheduling: dict[str, Any] = {"restartJobOnWorkerRestart": again and several}
    if not again:
        scheduling["disableRetries"] = True
    if job.deadline_seconds:
        scheduling["timeout"] = f"{job.deadline_seconds}s"
    return scheduling


def _machine(job: SubmittedJob, place: Vertex) -> dict[str, Any]:
    """Returns the machineSpec of those that train."""
    options = job.options
    if options.gpus_per_worker % 1:
        raise InputError(f"--gpus-per-worker {options.gpus_per_worker:g}: a machine has whole GPUs.")
    count = int(options.gpus_per_worker) or int(bool(job.accelerator))
    if not count:
        return {"machineType": place.machine_type} if place.machine_type else _plain_machine(job)
    kind = job.accelerator.upper().replace("-", "_")
    if kind not in ACCELERATORS:
        given = f"--accelerator {job.accelerator}: choose" if kind else f"{count} GPUs: say which by --accelerator:"
        raise InputError(f"{given} {', '.join(ACCELERATORS)}.{did_you_mean(kind, ACCELERATORS)}")
    machine = place.machine_type or _machine_with(job, kind, count)
    return {"machineType": machine, "acceleratorType": kind, "acceleratorCount": count}


def _machine_with(job: SubmittedJob, kind: str, count: int) -> str:
    if kind in _WITH_N1:
        return _smallest(_N1, job, least_cpus=4 * count)
    machines = _OWN_MACHINES[kind]
    if count not in machines:
        raise InputError(f"--gpus-per-worker {count}: {kind} comes as {', '.join(map(str, machines))} in a machine.")
    return machines[count]


def _plain_machine(job: SubmittedJob) -> dict[str, Any]:
    return {"machineType": _smallest(_PLAIN, job)}


def _smallest(machines: Mapping[str, tuple[float, float]], job: SubmittedJob, least_cpus: int = 0) -> str:
    cpus = max(job.options.cpus_per_worker, least_cpus)
    memory = job.options.memory_gb_per_worker or 0.0
    for name, (has_cpus, has_memory) in machines.items():
        if has_cpus >= cpus and has_memory >= memory:
            return name
    most = max(machines.values())
    raise InputError(
        f"{cpus:g} processors and {math.ceil(memory)} GB: the largest machine that is chosen by itself has "
        f"{most[0]:g} and {most[1]:.0f}. Name one with --machine-type."
    )
