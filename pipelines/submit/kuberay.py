"""Builds and submits a KubeRay `RayJob` for a command line with `--engine ray`.

    manifest = ray_job(job, KubeRay(volumes=(Volume.parse("training-data:/data"),)))
    send(manifest)

KubeRay starts a Ray cluster for the job and deletes it afterwards. The command runs on the cluster's head node, with
RAY_ADDRESS set; the head does not train. The image must contain generic-trainer[kuberay]: jobs are submitted through
Ray's dashboard, which `ray[train]` does not include. API: https://ray-project.github.io/kuberay/reference/api/.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib.metadata
import math
import posixpath
import re
import shlex
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

from ...executors.errors import InputError
from ...executors.options import RAY
from .submission import PROGRAM, SubmittedJob, require_name

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, ApiException

GROUP, VERSION, PLURAL = "ray.io", "v1", "rayjobs"
LONGEST_NAME = 47  # KubeRay's MaxRayJobNameLength; cluster and service names are derived from it
LOCKED_RAY = "2.60.0"  # version in requirements/; used if Ray is not installed on this machine
_UNLIMITED_RETRIES = 2**31 - 1
_CLUSTER_TTL_SECONDS = 300  # the cluster stays for this long after the job, for its logs
# The dashboard listens on all addresses of the head's pod: KubeRay's operator connects to it in the cluster's network.
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104  # nosec B104
_OBJECT_STORE_BYTES = "200000000"  # training data does not pass through Ray's object store
_RAY_OVERHEAD_GB = 1.0  # memory in each worker pod for Ray's processes
_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}
_SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")


@dataclasses.dataclass(frozen=True)
class Volume:
    """A persistent volume claim that is mounted in all pods.

    Attributes:
      claim: The claim's name.
      path: The absolute mount path.
      read_only: Whether it is mounted read-only.
    """

    claim: str
    path: str
    read_only: bool = False

    @classmethod
    def parse(cls, text: str) -> Volume:
        """Parses CLAIM:/FOLDER or CLAIM:/FOLDER:ro.

        Raises:
          InputError: When the text has another form.
        """
        claim, _, place = text.partition(":")
        path, _, mode = place.partition(":")
        path = posixpath.normpath(path)
        if not _SUBDOMAIN.fullmatch(claim) or not path.startswith("/") or path == "/" or mode not in ("", "ro"):
            raise InputError(
                f"--volume {text}: expected CLAIM:/FOLDER or CLAIM:/FOLDER:ro, such as training-data:/data."
            )
        return cls(claim, path, bool(mode))


@dataclasses.dataclass(frozen=True)
class KubeRay:
    """Kubernetes-specific settings of a job.

    Attributes:
      namespace: The namespace; "" for the current one of the kubeconfig.
      volumes: Persistent volume claims to mount.
      env_secrets: Names of Kubernetes Secrets whose entries become environment variables.
      head_cpus: Processors of the head node, where the command runs.
      head_memory_gb: Memory of the head node in 10^9 bytes; the SavedModel check runs there.
      ray_version: Ray version of the image (default: the version installed on this machine).
      metadata: Labels and annotations of the RayJob.
      pod_template: Base pod template; its first container becomes the Ray container.
      folder: Working directory of the command in the image; "" for the image's default.
      suspend: Whether the job is created suspended.
    """

    namespace: str = ""
    volumes: tuple[Volume, ...] = ()
    env_secrets: tuple[str, ...] = ()
    head_cpus: float = 2.0
    head_memory_gb: float = 8.0
    ray_version: str = ""
    metadata: Mapping[str, object] = dataclasses.field(default_factory=dict)
    pod_template: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    folder: str = ""
    suspend: bool = False


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
    least, most = (number + options.ps for number in options.worker_range)
    elastic = least < most
    cluster = {
        "rayVersion": settings.ray_version or _installed_ray(),
        "enableInTreeAutoscaling": elastic,
        "headGroupSpec": {
            # The head offers no CPUs, so that Ray schedules workers on worker pods only; the driver needs none.
            "rayStartParams": {
                "dashboard-host": _ALL_ADDRESSES,
                "num-cpus": "0",
                "object-store-memory": _OBJECT_STORE_BYTES,
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
                "rayStartParams": {"object-store-memory": _OBJECT_STORE_BYTES},
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
    metadata = {"name": name, **where, **copy.deepcopy(dict(settings.metadata))}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "RayJob", "metadata": metadata, "spec": spec}


def remarks(job: SubmittedJob) -> list[str]:
    """Returns notes on the job to show to the user: unset memory, and permissions for autoscaling."""
    least, most = job.options.worker_range
    found = []
    if job.options.memory_gb_per_worker is None:
        found.append("The worker pods have no memory request; set one with --memory-gb-per-worker N.")
    if least < most and job.service_account:
        found.append(
            f"The cluster is scaled between {least} and {most} workers by the service account {job.service_account}, "
            "which must be allowed to get, list, watch and patch pods and rayclusters.ray.io in its namespace."
        )
    return found


def send(manifest: Mapping[str, Any], client: ApiClient | None = None) -> str:
    """Creates the RayJob on a Kubernetes cluster; returns its name and namespace for display.

    Args:
      manifest: A manifest from `ray_job`.
      client: A `kubernetes.client.ApiClient` (default: for the cluster of this pod, or else of the kubeconfig).

    Raises:
      InputError: When the Kubernetes client is not installed, no cluster is configured or reachable, or the cluster
        rejects the job.
    """
    try:
        import kubernetes
        from urllib3.exceptions import HTTPError
    except ImportError as error:
        raise InputError(
            f"--send requires the Kubernetes client ({error}): pip install kubernetes. Or omit --send, and run "
            "kubectl create -f with the written manifest."
        ) from error
    namespace = manifest["metadata"].get("namespace") or _current_namespace(kubernetes)
    try:
        if client is None:
            client = _client(kubernetes)
        jobs = kubernetes.client.CustomObjectsApi(client)
        made = jobs.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, dict(manifest))
    except kubernetes.config.ConfigException as error:
        raise InputError(f"--send: no Kubernetes cluster is configured here ({error}). Set KUBECONFIG.") from error
    except kubernetes.client.rest.ApiException as error:
        raise InputError(_rejection_message(error, manifest["metadata"]["name"], namespace)) from error
    except HTTPError as error:
        raise InputError(f"--send: the cluster does not respond: {error}.") from error
    return f"rayjob.{GROUP}/{made['metadata']['name']} in the namespace {namespace}"


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
    if options.gpus_per_worker % 1:
        raise InputError(f"--gpus-per-worker {options.gpus_per_worker:g}: pods take whole GPUs only. Set an integer.")
    if job.accelerator and not options.gpus_per_worker:
        raise InputError(f"--accelerator {job.accelerator} requires GPUs: add --gpus-per-worker 1.")


def _installed_ray() -> str:
    try:
        return importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        return LOCKED_RAY


def _head(job: SubmittedJob, settings: KubeRay) -> dict[str, object]:
    resources = {"cpu": f"{settings.head_cpus:g}", "memory": _memory(settings.head_memory_gb)}
    template = _pod(job, settings, "ray-head", resources)
    ports = [{"name": name, "containerPort": port} for name, port in _PORTS.items()]
    template["spec"]["containers"][0]["ports"] = ports
    return template


def _worker(job: SubmittedJob, settings: KubeRay) -> dict[str, object]:
    options = job.options
    resources = {"cpu": f"{options.cpus_per_worker:g}"}
    if options.memory_gb_per_worker is not None:
        resources["memory"] = _memory(options.memory_gb_per_worker + _RAY_OVERHEAD_GB)
    if options.gpus_per_worker:
        resources["nvidia.com/gpu"] = f"{options.gpus_per_worker:g}"
    template = _pod(job, settings, "ray-worker", resources)
    if options.gpus_per_worker:
        tolerations = template["spec"].setdefault("tolerations", [])
        tolerations.append({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})
    if job.accelerator:
        key, _, value = job.accelerator.rpartition("=")
        label = key or "cloud.google.com/gke-accelerator"
        template["spec"].setdefault("nodeSelector", {})[label] = value
    return template


def _pod(job: SubmittedJob, settings: KubeRay, name: str, resources: dict[str, str]) -> dict[str, Any]:
    """Returns a pod template whose first container runs the job's image; head and workers mount the same volumes."""
    template = copy.deepcopy(dict(settings.pod_template)) or {"spec": {"containers": [{}]}}
    spec = template["spec"]
    container = {**spec["containers"][0], "name": name, "image": job.image}
    container["resources"] = {"requests": resources, "limits": dict(resources)}
    mounts, volumes = container.get("volumeMounts", []), spec.get("volumes", [])
    for number, volume in enumerate(settings.volumes):
        read_only = {"readOnly": True} if volume.read_only else {}
        mounts.append({"name": f"claim-{number}", "mountPath": volume.path, **read_only})
        volumes.append({"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": volume.claim, **read_only}})
    secrets = [{"secretRef": {"name": secret}} for secret in settings.env_secrets]
    _set_fields(container, volumeMounts=mounts, envFrom=[*container.get("envFrom", []), *secrets])
    spec["containers"][0] = container
    _set_fields(spec, volumes=volumes, serviceAccountName=job.service_account)
    return template


def _set_fields(target: dict[str, object], **fields: object) -> None:
    target.update({name: value for name, value in fields.items() if value})


def _memory(gigabytes: float) -> str:
    """Converts 10^9 bytes to a Kubernetes quantity in units of 10^6 bytes, rounded up."""
    return f"{math.ceil(gigabytes * 1000)}M"


def _client(kubernetes: ModuleType) -> ApiClient:
    try:
        kubernetes.config.load_incluster_config()
    except kubernetes.config.ConfigException:
        kubernetes.config.load_kube_config()
    return kubernetes.client.ApiClient()


def _current_namespace(kubernetes: ModuleType) -> str:
    try:
        _, active = kubernetes.config.list_kube_config_contexts()
        return str(active["context"].get("namespace") or "default")
    except (kubernetes.config.ConfigException, TypeError):
        return "default"


def _rejection_message(error: ApiException, name: str, namespace: str) -> str:
    if error.status == 409:
        return f"--send: RayJob {name} already exists in the namespace {namespace}. Set another --name."
    if error.status == 404:
        return "--send: the cluster has no resource type rayjobs.ray.io: KubeRay's operator is not installed there."
    return f"--send: the cluster rejected the job: {error.status} {error.reason}: {(error.body or '')[:500]}"
