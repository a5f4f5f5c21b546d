"""A job for any platform: a command line with image, options and pod settings, from which manifests are built.

job = SubmittedJob(
    name="taxi", image="registry/trainer:1", command=("train", "taxi_keras", "--engine=ray", "--workers=1:4"),
    options=TrainingOptions(engine="ray", workers="1:4"),
)
manifest = kuberay.ray_job(job, KubeRay())
"""

from __future__ import annotations

import copy
import dataclasses
import math
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from ...executors.errors import InputError
from ...executors.options import TrainingOptions
from ...executors.runtime.files import file_io
from .accelerators import GPU, node_label
from .names import IMAGE, JOB, NAMESPACE
from .pods import PodSettings

PROGRAM = "generic-trainer"
_UNLIMITED = 2**31 - 1
# Added to --timeout, which limits the training only: starting machines, pulling the image, checking the model.
_OVERHEAD_SECONDS = 900
_GPU_TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}


@dataclasses.dataclass(frozen=True)
class SubmittedJob:
    """A job for any platform.

    Attributes:
      name: The job's name on the platform.
      image: The container image; must contain generic-trainer.
      command: The command line, without the program's name.
      options: The training options on the command line.
      evaluators: Number of evaluator replicas besides the training cluster.
      namespace: The namespace; "" for the current one of the kubeconfig.
      accelerator: Type of GPU, a value of GKE's node label or LABEL=VALUE; "" for any.
      pods: Settings of all pods.

    Raises:
      InputError: From the constructor, when a name or the image is not valid, or there is an accelerator but no GPU.
    """

    name: str
    image: str
    command: tuple[str, ...]
    options: TrainingOptions
    evaluators: int = 0
    namespace: str = ""
    accelerator: str = ""
    pods: PodSettings = dataclasses.field(default_factory=PodSettings)

    def __post_init__(self) -> None:
        JOB.require(self.name, "--name")
        NAMESPACE.require(self.namespace, "--namespace")
        IMAGE.require(self.image, "--image")
        if self.accelerator and not self.options.gpus_per_worker:
            raise InputError(f"--accelerator {self.accelerator} requires GPUs: add --gpus-per-worker 1.")

    @property
    def identity(self) -> dict[str, str]:
        """Name and namespace, for the metadata of a manifest."""
        return {"name": self.name, **({"namespace": self.namespace} if self.namespace else {})}

    @property
    def deadline(self) -> dict[str, int]:
        """The field with the seconds after which the platform ends the job: --timeout, rounded up, plus 900."""
        timeout = self.options.timeout
        return {} if timeout is None else {"activeDeadlineSeconds": math.ceil(timeout) + _OVERHEAD_SECONDS}

    def restarts(self, tasks: int = 1) -> int:
        """Returns the number of restarts if each failure of the job counts once for each of its tasks."""
        failures = self.options.max_failures
        return _UNLIMITED if failures < 0 else min(failures * tasks, _UNLIMITED)

    def training_resources(self, overhead_gb: float = 0.0) -> dict[str, str]:
        """Returns the resources of a container that trains, by Kubernetes' names.

        Args:
          overhead_gb: Memory in 10^9 bytes besides that of the training.

        Raises:
          InputError: When a worker has a fraction of a GPU.
        """
        options = self.options
        resources = {"cpu": f"{options.cpus_per_worker:g}"}
        if options.memory_gb_per_worker is not None:
            resources["memory"] = gigabytes(options.memory_gb_per_worker + overhead_gb)
        if options.gpus_per_worker % 1:
            raise InputError(
                f"--gpus-per-worker {options.gpus_per_worker:g}: pods take whole GPUs only. Set an integer."
            )
        if options.gpus_per_worker:
            resources[GPU] = f"{options.gpus_per_worker:g}"
        return resources

    def pod(
        self, container: Mapping[str, object], resources: Mapping[str, str], template: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns a pod template with the job's image and settings.

        Args:
          container: Fields of the container that runs the job, with its name.
          resources: Its resources. A pod with GPUs gets a node that has the job's accelerator.
          template: The template to start with; its first container becomes the job's.
        """
        pod = copy.deepcopy(dict(template))
        spec = pod.setdefault("spec", {})
        main, *others = spec.get("containers") or [{}]
        limits = {"requests": dict(resources), "limits": dict(resources)}
        spec["containers"] = [{**main, **container, "image": self.image, "resources": limits}, *others]
        has_gpus = GPU in resources
        if has_gpus and self.accelerator:
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **node_label(self.accelerator, "--accelerator")}
        pod = self.pods.apply(pod, str(container["name"]))
        if has_gpus:  # after the patch, which replaces the whole list
            pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", []), dict(_GPU_TOLERATION)]
        return pod


def gigabytes(number: float) -> str:
    """Converts 10^9 bytes to a Kubernetes quantity in units of 10^6 bytes, rounded up."""
    return f"{math.ceil(number * 1000)}M"


def is_reachable(path: str, folders: Sequence[str]) -> bool:
    """Returns whether other machines can access a path: a URI other than file:, or a path in one of their folders."""
    if file_io.is_remote(path):
        return not path.lower().startswith("file:")
    whole = posixpath.normpath(path)
    return any(whole == folder or whole.startswith(folder.rstrip("/") + "/") for folder in folders)
