"""Builds and submits a Vertex AI `CustomJob` for a command line.

    manifest = custom_job(job, Vertex(machine_type="n1-standard-8"))
    send(manifest, "my-project", "europe-west4")

Every replica runs the same command; Vertex AI sets TF_CONFIG in each, with the chief in worker pool 0, workers in 1,
parameter servers in 2 and evaluators in 3 (https://cloud.google.com/vertex-ai/docs/training/distributed-training).
Vertex AI does not provide Ray, so options of `--engine ray` become replica counts, which are fixed while the job runs.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from ...executors.engines.cluster_options import worker_range
from ...executors.errors import InputError, did_you_mean
from .expansion import environment, literal
from .names import ACCOUNT, DISPLAY_NAME, GOOGLE_LABEL_KEY, GOOGLE_LABEL_VALUE, MACHINE_TYPE
from .submission import PROGRAM, SubmittedJob

if TYPE_CHECKING:
    from google.cloud import aiplatform_v1

BUCKETS = "/gcs"  # Vertex AI mounts every bucket below it in each replica
_RESTARTS = 3  # the default of the option max_failures
# Vertex AI's accelerator types: https://cloud.google.com/vertex-ai/docs/training/configure-compute
ACCELERATORS = (
    "NVIDIA_TESLA_T4",
    "NVIDIA_TESLA_P4",
    "NVIDIA_TESLA_P100",
    "NVIDIA_TESLA_V100",
    "NVIDIA_L4",
    "NVIDIA_TESLA_A100",
    "NVIDIA_A100_80GB",
    "NVIDIA_H100_80GB",
    "NVIDIA_H100_MEGA_80GB",
    "NVIDIA_H200_141GB",
)


class ContainerSpec(TypedDict, total=False):
    """Vertex AI's ContainerSpec."""

    imageUri: str
    command: list[str]
    args: list[str]
    env: list[dict[str, str]]


class WorkerPool(TypedDict, total=False):
    """Vertex AI's WorkerPoolSpec; {} for a pool without replicas."""

    machineSpec: dict[str, str | int]
    replicaCount: int
    containerSpec: ContainerSpec


class Scheduling(TypedDict, total=False):
    """Vertex AI's Scheduling."""

    restartJobOnWorkerRestart: bool
    disableRetries: bool
    timeout: str


class JobSpec(TypedDict, total=False):
    """Vertex AI's CustomJobSpec."""

    workerPoolSpecs: list[WorkerPool]
    scheduling: Scheduling
    serviceAccount: str
    baseOutputDirectory: dict[str, str]


class CustomJob(TypedDict, total=False):
    """Vertex AI's CustomJob in the REST API's JSON form."""

    displayName: str
    jobSpec: JobSpec
    labels: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Vertex:
    """Vertex AI-specific settings of a job.

    Attributes:
      machine_type: Machine type of chief, workers and evaluators, such as "n1-standard-8".
      ps_machine_type: Machine type of the parameter servers; "" for `machine_type`, which then must not have GPUs.
      output: A gs:// URI for `baseOutputDirectory`, which Vertex AI displays and passes on; "" for none.
      labels: Labels of the job.
      env: Environment variables of all replicas.

    Raises:
      InputError: From the constructor, when a machine type is no name.
    """

    machine_type: str
    ps_machine_type: str = ""
    output: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        MACHINE_TYPE.require(self.machine_type, "--machine-type")
        MACHINE_TYPE.require(self.ps_machine_type, "--ps-machine-type")


def custom_job(job: SubmittedJob, settings: Vertex) -> CustomJob:
    """Returns the CustomJob for a command line, in the REST API's JSON form.

    Raises:
      InputError: When the job's name is too long, a machine type is missing, or the accelerator or number of GPUs is
        not available.
    """
    DISPLAY_NAME.require(job.name, "--name")
    workers, ps = worker_range(job.options.workers)[1], job.options.ps
    if not settings.machine_type:
        raise InputError(
            "--to vertex: set the machine type of the replicas with --machine-type, such as n1-standard-8."
        )
    training_machine = _machine(job, settings)
    if ps and "acceleratorType" in training_machine and not settings.ps_machine_type:
        raise InputError(
            "--ps-machine-type: set a machine type without GPUs for the parameter servers, such as e2-standard-4."
        )
    server_machine: dict[str, str | int] = (
        {"machineType": settings.ps_machine_type} if settings.ps_machine_type else training_machine
    )
    counts = [
        (1, training_machine),
        (workers - 1, training_machine),
        (ps, server_machine),
        (job.evaluators, training_machine),
    ]
    pools: list[WorkerPool] = [_pool(job, settings, count, machine) if count else {} for count, machine in counts]
    while not pools[-1]:
        pools.pop()
    spec: JobSpec = {"workerPoolSpecs": pools, "scheduling": _scheduling(job, sum(map(bool, pools)) > 1)}
    if job.service_account:
        spec["serviceAccount"] = ACCOUNT.require(job.service_account, "--service-account")
    if settings.output:
        spec["baseOutputDirectory"] = {"outputUriPrefix": settings.output}
    custom: CustomJob = {"displayName": job.name, "jobSpec": spec}
    if settings.labels:
        custom["labels"] = _labels(settings.labels)
    return custom


def gcloud_command(manifest: Mapping[str, Any], spec_file: str, project: str = "", region: str = "") -> str:
    """Returns the command of gcloud that creates a job.

    Args:
      manifest: A manifest from `custom_job`.
      spec_file: File with the manifest's `jobSpec`.
      project: The Google Cloud project; "" for gcloud's.
      region: The region; "" for gcloud's.
    """
    flags = {"project": project, "region": region, "display-name": manifest["displayName"]}
    flags["labels"] = ",".join(f"{key}={value}" for key, value in manifest.get("labels", {}).items())
    words = [f"--{name}={value}" for name, value in flags.items() if value]
    return shlex.join(["gcloud", "ai", "custom-jobs", "create", *words, f"--config={spec_file}"])


def remarks(job: SubmittedJob) -> list[str]:
    """Returns notes on options of the command line that Vertex AI does not support."""
    options, found = job.options, []
    least, most = worker_range(options.workers)
    if least < most:
        found.append(f"--workers {options.workers}: the number of replicas on Vertex AI is fixed; the job has {most}.")
    if options.max_failures not in (0, _RESTARTS):
        found.append(f"--max-failures {options.max_failures}: Vertex AI sets the number of restarts; 0 disables them.")
    return found


def send(
    manifest: Mapping[str, object], project: str, region: str, client: aiplatform_v1.JobServiceClient | None = None
) -> str:
    """Creates the job; returns its resource name.

    Args:
      manifest: A manifest from `custom_job`.
      project: The Google Cloud project.
      region: The region, such as europe-west4.
      client: An `aiplatform_v1.JobServiceClient` (default: one with this machine's credentials).

    Raises:
      InputError: When the client is not installed, there are no credentials, or Vertex AI rejects the job.
    """
    try:
        from google.api_core.exceptions import GoogleAPICallError, RetryError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud import aiplatform_v1
    except ImportError as error:
        raise InputError(
            f"--send requires Vertex AI's client ({error}): pip install google-cloud-aiplatform. Or omit --send, and "
            "submit the written manifest through the REST API."
        ) from error
    try:
        if client is None:
            endpoint = {"api_endpoint": f"{region}-aiplatform.googleapis.com"}
            client = aiplatform_v1.JobServiceClient(client_options=endpoint)
        body = aiplatform_v1.CustomJob.from_json(json.dumps(manifest))
        made = client.create_custom_job(parent=f"projects/{project}/locations/{region}", custom_job=body)
    except GoogleAuthError as error:
        raise InputError(
            f"--send: no credentials were found: {error}. Try gcloud auth application-default login."
        ) from error
    except (GoogleAPICallError, RetryError) as error:
        raise InputError(f"--send: Vertex AI rejected the job: {error}") from error
    return str(made.name)


def _pool(job: SubmittedJob, settings: Vertex, count: int, machine: dict[str, str | int]) -> WorkerPool:
    container: ContainerSpec = {"imageUri": job.image, "command": [PROGRAM], "args": list(map(literal, job.command))}
    if settings.env:
        container["env"] = environment(settings.env)
    return {"machineSpec": dict(machine), "replicaCount": count, "containerSpec": container}


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Checks labels against the rules of Google Cloud, which are narrower than those of Kubernetes."""
    for key, value in labels.items():
        GOOGLE_LABEL_KEY.require(key, "--job-label")
        GOOGLE_LABEL_VALUE.require(value, "--job-label")
    return dict(labels)


def _scheduling(job: SubmittedJob, has_several_pools: bool) -> Scheduling:
    """Returns the timeout, and whether the job restarts from its checkpoint after the restart of a replica."""
    is_restartable = job.options.max_failures != 0
    scheduling: Scheduling = {"restartJobOnWorkerRestart": is_restartable and has_several_pools}
    if not is_restartable:
        scheduling["disableRetries"] = True
    if job.deadline_seconds:
        scheduling["timeout"] = f"{job.deadline_seconds}s"
    return scheduling


def _machine(job: SubmittedJob, settings: Vertex) -> dict[str, str | int]:
    """Returns the machineSpec of the training replicas."""
    options = job.options
    if options.gpus_per_worker % 1:
        raise InputError(
            f"--gpus-per-worker {options.gpus_per_worker:g}: machines have whole GPUs only. Set an integer."
        )
    count = int(options.gpus_per_worker) or int(bool(job.accelerator))
    if not count:
        return {"machineType": settings.machine_type}
    kind = job.accelerator.upper().replace("-", "_")
    if kind not in ACCELERATORS:
        given = (
            f"--accelerator {job.accelerator}: choose from"
            if kind
            else f"{count} GPUs: set the type with --accelerator:"
        )
        raise InputError(f"{given} {', '.join(ACCELERATORS)}.{did_you_mean(kind, ACCELERATORS)}")
    return {"machineType": settings.machine_type, "acceleratorType": kind, "acceleratorCount": count}
