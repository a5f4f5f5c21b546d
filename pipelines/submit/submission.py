"""A platform-independent job: a command line with image and options, from which manifests are built.

job = SubmittedJob(
    name="taxi", image="registry/trainer:1", command=("train", "taxi_keras", "--engine=ray", "--workers=1:4"),
    options=TrainingOptions(engine="ray", workers="1:4"),
)
manifest = kuberay.ray_job(job, KubeRay())
"""

from __future__ import annotations

import dataclasses
import math
import posixpath
import re
from collections.abc import Sequence

from ...executors.errors import InputError
from ...executors.options import TrainingOptions
from ...executors.runtime.files import file_io
from .names import IMAGE

PROGRAM = "generic-trainer"
# Added to --timeout, which limits the training only: starting machines, pulling the image, checking the model.
_OVERHEAD_SECONDS = 900
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclasses.dataclass(frozen=True)
class SubmittedJob:
    """A job for any platform.

    Attributes:
      name: The job's name on the platform.
      image: The container image; must contain generic-trainer.
      command: The command line, without the program's name.
      options: The training options on the command line.
      evaluators: Number of evaluator replicas besides the training cluster.
      service_account: Service account of the job; "" for the platform's default.
      accelerator: Type of GPU, by the platform's name; "" for any.

    Raises:
      InputError: From the constructor, when the image is no valid reference.
    """

    name: str
    image: str
    command: tuple[str, ...]
    options: TrainingOptions
    evaluators: int = 0
    service_account: str = ""
    accelerator: str = ""

    def __post_init__(self) -> None:
        IMAGE.require(self.image, "--image")

    @property
    def deadline_seconds(self) -> int | None:
        """Seconds after which the platform ends the job: --timeout, rounded up, plus 900; None without --timeout."""
        timeout = self.options.timeout
        return None if timeout is None else math.ceil(timeout) + _OVERHEAD_SECONDS


def derived_name(text: str, longest: int) -> str:
    """Returns a valid Kubernetes name derived from a text: lower case, digits and "-", starting with a letter."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    name = name if name[:1].isalpha() else f"job-{name}"
    return name[:longest].rstrip("-")


def require_name(name: str, longest: int, what: str) -> str:
    """Checks that a name is valid for Kubernetes (an RFC 1035 label), and returns it.

    Raises:
      InputError: When it is not valid; the message proposes a valid one.
    """
    if len(name) > longest or not _LABEL.fullmatch(name):
        raise InputError(
            f"{what} {name!r}: Kubernetes allows lower-case letters, digits and '-', starting with a letter and "
            f"ending with a letter or digit, at most {longest} characters. For example {derived_name(name, longest)!r}."
        )
    return name


def is_reachable(path: str, folders: Sequence[str]) -> bool:
    """Returns whether other machines can access a path: a URI other than file:, or a path in one of their folders."""
    if file_io.is_remote(path):
        return not path.lower().startswith("file:")
    whole = posixpath.normpath(path)
    return any(whole == folder or whole.startswith(folder.rstrip("/") + "/") for folder in folders)
