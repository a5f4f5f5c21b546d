"""Builds a KubeRay `RayJob` for a command line with `--engine ray`.

    manifest = ray_job(job, KubeRay(head_cpus=4))

KubeRay starts a Ray cluster for the job and deletes it afterwards. The command runs on the cluster's head node, with
RAY_ADDRESS set; the head does not train. The image must contain generic-trainer[kuberay]: jobs are submitted through
Ray's dashboard, which `ray[train]` does not include. API: https://ray-project.github.io/kuberay/reference/api/.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import shlex
from typing import Any

from ...executors.engines.cluster_options import worker_range
from ...executors.errors import InputError
from .job_file import JobFile
from .names import RAY_VERSION
from .strategic_merge import merged
from .submission import PROGRAM, SubmittedJob, gigabytes

RAY = "ray"  # the option `engine` of a job on Ray
LOCKED_RAY = "2.60.0"  # version in requirements/; used if Ray is not installed on this machine
_CLUSTER_TTL_SECONDS = 300  # the cluster stays for this long after the job, for its logs
# The dashboard listens on all addresses of the head's pod: KubeRay's operator connects to it in the cluster's network.
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104  # nosec B104
_OBJECT_STORE_BYTES = "200000000"  # training data does not pass through Ray's object store
_RAY_OVERHEAD_GB = 1.0  # memory in each worker pod for Ray's processes
_HEAD, _WORKER = "ray-head", "ray-worker"  # names of containers
_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}


@dataclasses.dataclass(frozen=True)
class KubeRay:
    """Settings of a job that only KubeRay has.

    Attributes:
      head_cpus: Processors of the head node, where the command runs.
      head_memory_gb: Memory of the head node in 10^9 bytes; the SavedModel check runs there.
      ray_version: Ray version of the image; "" for the version installed on this machine.
      metrics_port: Port of each pod for Ray's Prometheus metrics; None for Ray's choice.
      source: The job file that the job was converted from, with its pod template.
    """

    head_cpus: float = 2.0
    head_memory_gb: float = 8.0
    ray_version: str = ""
    metrics_port: int | None = None
    source: JobFile = dataclasses.field(default_factory=JobFile)


def ray_job(job: SubmittedJob, settings: KubeRay) -> dict[str, Any]:
    """Returns the RayJob manifest for a command line.

    Raises:
      InputError: When the command does not use `--engine ray`, or an option is not possible on KubeRay.
    """
    _require_ray(job)
    options, source = job.options, settings.source
    least, most = (number + options.ps for number in worker_range(options.workers))
    head = {"cpu": f"{settings.head_cpus:g}", "memory": gigabytes(settings.head_memory_gb)}
    cluster = {
        "rayVersion": RAY_VERSION.require(settings.ray_version, "--ray-version") or _installed_ray(),
        "enableInTreeAutoscaling": least < most,
        "headGroupSpec": _group(job, settings, _HEAD, head),
        "workerGroupSpecs": [
            {
                "groupName": "workers",
                # Start with the maximum; the autoscaler removes idle workers down to the minimum.
                "replicas": most,
                "minReplicas": least,
                "maxReplicas": most,
                **_group(job, settings, _WORKER, job.training_resources(_RAY_OVERHEAD_GB)),
            }
        ],
    }
    begin = f"cd {shlex.quote(source.folder)} && " if source.folder else ""
    spec = {
        "entrypoint": begin + shlex.join([PROGRAM, *job.command]),
        # In HTTPMode a single shell parses the entrypoint. The other modes pass it through `ray job submit`, which
        # before Ray 2.60 quoted words as on Windows (ray-project/ray#63797) and so corrupted quotes, ';' and '*'.
        "submissionMode": "HTTPMode",
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": _CLUSTER_TTL_SECONDS,
        # Retries with a new cluster, for example after the head was lost. Worker failures are handled by Ray itself.
        "backoffLimit": job.restarts(),
        **job.deadline,
        **({"suspend": True} if source.suspend else {}),
        "rayClusterSpec": cluster,
    }
    metadata = {**job.identity, **merged(source.metadata, job.pods.job_metadata)}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}


def _group(job: SubmittedJob, settings: KubeRay, name: str, resources: dict[str, str]) -> dict[str, Any]:
    """Returns the parameters of `ray start` and the pod template of a group of nodes."""
    parameters = {"object-store-memory": _OBJECT_STORE_BYTES}
    ports: dict[str, int] = {}
    if name == _HEAD:
        # The head offers no CPUs, so that Ray schedules workers on worker pods only; the driver needs none.
        parameters |= {"dashboard-host": _ALL_ADDRESSES, "num-cpus": "0"}
        ports |= _PORTS
    if port := settings.metrics_port:
        parameters["metrics-export-port"] = str(port)
        ports["metrics"] = port
    container: dict[str, object] = {"name": name}
    if ports:
        container["ports"] = [{"name": key, "containerPort": number} for key, number in ports.items()]
    return {"rayStartParams": parameters, "template": job.pod(container, resources, settings.source.pod_template)}


def remarks(job: SubmittedJob) -> list[str]:
    """Returns notes on the job to show to the user: unset memory, permissions for autoscaling, and queues."""
    least, most = worker_range(job.options.workers)
    account, queue, notes = job.pods.service_account, job.pods.queue, []
    if job.options.memory_gb_per_worker is None:
        notes.append("The worker pods have no memory request; set one with --memory-gb-per-worker N.")
    if least < most and account:
        notes.append(
            f"The cluster is scaled between {least} and {most} workers by the service account {account}, "
            "which must be allowed to get, list, watch and patch pods and rayclusters.ray.io in its namespace."
        )
    if least < most and queue:
        notes.append(
            f"--queue {queue}: not every release of Kueue admits jobs with autoscaling. If the job stays suspended, "
            "set a fixed number of workers."
        )
    return notes


def _require_ray(job: SubmittedJob) -> None:
    options = job.options
    if options.engine != RAY:
        raise InputError(
            f"--to kuberay starts a Ray cluster, but {' '.join(job.command[:1])} would train in one process on its "
            "head. Add --engine ray, and --workers N for more than one worker."
        )
    if options.cluster_address:
        raise InputError(
            f"--cluster-address {options.cluster_address}: the job gets its own cluster, and KubeRay sets "
            "RAY_ADDRESS. Omit the option."
        )


def _installed_ray() -> str:
    try:
        return importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        return LOCKED_RAY
