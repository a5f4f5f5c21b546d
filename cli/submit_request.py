"""The flags of `generic-trainer submit`, without the command line to submit."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from ..executors.errors import InputError
from ..pipelines.submit.job_file import JobFile
from ..pipelines.submit.kuberay import KubeRay
from ..pipelines.submit.pods import PodSettings
from ..pipelines.submit.train_job import KubeflowTrainer

KUBERAY, TRAINER = PLATFORMS = ("kuberay", "kubeflow-trainer")
HINT = "Use URIs such as gs://bucket/…, or folders of a volume mounted with --volume CLAIM:/FOLDER."


class PlatformOption(click.Option):
    """A flag of one platform, which its help begins with."""

    def __init__(self, *names: Any, platform: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.platform, self.help = platform, f"{platform}: {self.help}"

    def require_for(self, platform: str, value: object) -> None:
        """Raises InputError if the flag is given with another platform."""
        if value and platform != self.platform:
            raise InputError(f"{self.opts[0]} requires --to {self.platform}, not --to {platform}.")


@dataclasses.dataclass(frozen=True)
class SubmitRequest:
    """The flags of `submit`, by the names of its parameters."""

    platform: str
    image: str
    name: str
    output: str
    sends: bool
    code_root: str
    in_image: tuple[str, ...]
    not_secret: tuple[str, ...]
    service_account: str
    accelerator: str
    job_file: str
    namespace: str
    pods: PodSettings
    head_cpus: float | None
    head_memory_gb: float | None
    ray_version: str
    metrics_port: int | None
    runtime: str

    def folders(self, job: JobFile | None) -> list[str]:
        """Returns the folders that are mounted on the platform."""
        return [*(volume.path for volume in self.pods.volumes), *(job.folders if job else ())]

    def kuberay(self, job: JobFile | None) -> KubeRay:
        """Returns the Kubernetes-specific settings; flags take precedence over those of a job file."""
        place = KubeRay(
            namespace=self.namespace,
            pods=self.pods,
            head_cpus=self.head_cpus or KubeRay.head_cpus,
            head_memory_gb=self.head_memory_gb or KubeRay.head_memory_gb,
            ray_version=self.ray_version,
            metrics_port=self.metrics_port or 0,
        )
        if job is None:
            return place
        return dataclasses.replace(
            place,
            namespace=self.namespace or job.namespace,
            metadata=job.metadata,
            pod_template=job.pod_template,
            folder=job.folder,
            suspend=job.suspend,
        )

    def kubeflow_trainer(self) -> KubeflowTrainer:
        """Returns the settings for Kubeflow Trainer."""
        return KubeflowTrainer(self.namespace, self.pods, self.runtime)
