"""Builds a KubeRay `RayJob` for a command line with `--engine ray`.

    manifest = ray_job(job, KubeRay(pods=PodSettings(volumes=(Volume.parse("training-data:/data"),))))

KubeRay starts a Ray cluster for the job and deletes it afterwards. The command runs on the cluster's head node, with
RAY_ADDRESS set; the head does not train. The image must contain generic-trainer[kuberay]: jobs are submitted through
Ray's dashboard, which `ray[train]` does not include. API: https://ray-project.github.io/kuberay/reference/api/.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib.metadata
import shlex
from collections.abc import Mapping
from typing import Any, TypedDict

from ...executors.engines.cluster_options import worker_range
from ...executors.errors import InputError
from .names import RAY_VERSION, SUBDOMAIN
from .pods import METRICS_PORT, PodSettings, gigabytes, training_pods, training_resources
from .strategic_merge import merged
from .submission import PROGRAM, SubmittedJob, require_name

LONGEST_NAME = 47  # KubeRay's MaxRayJobNameLength; cluster and service names are derived from it
RAY = "ray"  # the option `engine` of a job on Ray
LOCKED_RAY = "2.60.0"  # version in requirements/; used if Ray is not installed on this machine
_UNLIMITED_RETRIES = 2**31 - 1
_CLUSTER_TTL_SECONDS = 300  # the cluster stays for this long after the job, for its logs
# The dashboard listens on all addresses of the head's pod: KubeRay's operator connects to it in the cluster's network.
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104  # nosec B104
_OBJECT_STORE_BYTES = "200000000"  # training data does not pass through Ray's object store
_RAY_OVERHEAD_GB = 1.0  # memory in each worker pod for Ray's processes
_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}


@dataclasses.dataclass(frozen=True)
class KubeRay:
    """Kubernetes-specific settings of a job.

    Attributes:
      namespace: The namespace; "" for the current one of the kubeconfig.
      pods: Settings of all pods.
      head_cpus: Processors of the head node, where the command runs.
      head_memory_gb: Memory of the head node in 10^9 bytes; the SavedModel check runs there.
      ray_version: Ray version of the image (default: the version installed on this machine).
      metadata: Labels and annotations of the RayJob.
      pod_template: Base pod template; its first container becomes the Ray container.
      folder: Working directory of the command in the image; "" for the image's default.
      suspend: Whether the job is created suspended.
      metrics_port: Port of each pod for Ray's Prometheus metrics; 0 for Ray's choice.
    """

    namespace: str = ""
    pods: PodSettings = dataclasses.field(default_factory=PodSettings)
    head_cpus: float = 2.0
    head_memory_gb: float = 8.0
    ray_version: str = ""
    metadata: Mapping[str, object] = dataclasses.field(default_factory=dict)
    pod_template: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    folder: str = ""
    suspend: bool = False
    metrics_port: int = 0


class RayJob(TypedDict):
    """KubeRay's RayJob."""

    apiVersion: str
    kind: str
    metadata: dict[str, object]
    spec: dict[str, object]


def ray_job(job: SubmittedJob, settings: KubeRay) -> RayJob:
    """Returns the RayJob manifest for a command line.

    Raises:
      InputError: When the command does not use `--engine ray`, or an option or a name is not possible on KubeRay.
    """
    options = job.options
    _require_ray(job)
    least, most = (number + options.ps for number in worker_range(options.workers))
    elastic = least < most
    cluster = {
        "rayVersion": RAY_VERSION.require(settings.ray_version, "--ray-version") or _installed_ray(),
        "enableInTreeAutoscaling": elastic,
        "headGroupSpec": {
            # The head offers no CPUs, so that Ray schedules workers on worker pods only; the driver needs none.
            "rayStartParams": {
                "dashboard-host": _ALL_ADDRESSES,
                "num-cpus": "0",
                "object-store-memory": _OBJECT_STORE_BYTES,
                **_metrics(settings),
            },
            "template": _head(job, settings),
        },
        "workerGroupSpecs": [
            {
                "groupName": "workers",
                # Start with the maximum; the autoscaler removes idle workers down to the minimum.
                "replicas": most,
                "minReplicas": least,
                "maxReplicas": most,
                "rayStartParams": {"object-store-memory": _OBJECT_STORE_BYTES, **_metrics(settings)},
                "template": _worker(job, settings),
            }
        ],
    }
    begin = f"cd {shlex.quote(settings.folder)} && " if settings.folder else ""
    spec = {
        "entrypoint": begin + shlex.join([PROGRAM, *job.command]),
        # In HTTPMode a single shell parses the entrypoint. The other modes pass it through `ray job submit`, which
        # before Ray 2.60 quoted words as on Windows (ray-project/ray#63797) and so corrupted quotes, ';' and '*'.
        "submissionMode": "HTTPMode",
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": _CLUSTER_TTL_SECONDS,
        # Retries with a new cluster, for example after the head was lost. Worker failures are handled by Ray itself.
        "backoffLimit": _UNLIMITED_RETRIES if options.max_failures < 0 else options.max_failures,
        **({"activeDeadlineSeconds": job.deadline_seconds} if job.deadline_seconds else {}),
        **({"suspend": True} if settings.suspend else {}),
        "rayClusterSpec": cluster,
    }
    name = require_name(job.name, LONGEST_NAME, "--name")
    where = {"namespace": require_name(settings.namespace, 63, "--namespace")} if settings.namespace else {}
    metadata = {"name": name, **where, **merged(settings.metadata, settings.pods.job_metadata)}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}


def remarks(job: SubmittedJob, queue: str = "") -> list[str]:
    """Returns notes on the job to show to the user: unset memory, permissions for autoscaling, and queues."""
    least, most = worker_range(job.options.workers)
    found = []
    if job.options.memory_gb_per_worker is None:
        found.append("The worker pods have no memory request; set one with --memory-gb-per-worker N.")
    if least < most and job.service_account:
        found.append(
            f"The cluster is scaled between {least} and {most} workers by the service account {job.service_account}, "
            "which must be allowed to get, list, watch and patch pods and rayclusters.ray.io in its namespace."
        )
    if least < most and queue:
        found.append(
            f"--queue {queue}: not every release of Kueue admits jobs with autoscaling. If the job stays suspended, "
            "set a fixed number of workers."
        )
    return found


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


def _head(job: SubmittedJob, settings: KubeRay) -> dict[str, object]:
    resources = {"cpu": f"{settings.head_cpus:g}", "memory": gigabytes(settings.head_memory_gb)}
    ports = [{"name": name, "containerPort": port} for name, port in _PORTS.items()]
    return _pod(job, settings, settings.pods, "ray-head", resources, ports)


def _worker(job: SubmittedJob, settings: KubeRay) -> dict[str, object]:
    resources = training_resources(job, _RAY_OVERHEAD_GB)
    return _pod(job, settings, training_pods(settings.pods, job), "ray-worker", resources, [])


def _pod(
    job: SubmittedJob,
    settings: KubeRay,
    pods: PodSettings,
    name: str,
    resources: dict[str, str],
    ports: list[dict[str, object]],
) -> dict[str, Any]:
    """Returns a pod template whose first container runs the job's image."""
    template = copy.deepcopy(dict(settings.pod_template)) or {"spec": {"containers": [{}]}}
    spec = template["spec"]
    container = {**spec["containers"][0], "name": name, "image": job.image}
    container["resources"] = {"requests": resources, "limits": dict(resources)}
    if settings.metrics_port:
        ports = [*ports, {"name": METRICS_PORT, "containerPort": settings.metrics_port}]
    if ports:
        container["ports"] = ports
    spec["containers"][0] = container
    if job.service_account:
        spec["serviceAccountName"] = SUBDOMAIN.require(job.service_account, "--service-account")
    return pods.apply(template, name)


def _metrics(settings: KubeRay) -> dict[str, str]:
    return {"metrics-export-port": str(settings.metrics_port)} if settings.metrics_port else {}
