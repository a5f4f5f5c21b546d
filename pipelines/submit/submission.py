"""A command line that is to run on somebody else's machines: what the manifests of all platforms are made from.

job = SubmittedJob(
    name="taxi", image="registry/trainer:1", command=("train", "taxi_keras", "--engine=ray", "--workers=1:4"),
    options=TrainingOptions(engine="ray", workers="1:4"),
)
manifest = kuberay.ray_job(job, KubeRay())       # or vertex_job.custom_job(job, Vertex())
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

PROGRAM = "generic-trainer"
# What a platform does within its deadline besides the training that --timeout is about: machines, image, check.
_AROUND_TRAINING_SECONDS = 900
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclasses.dataclass(frozen=True)
class SubmittedJob:
    """What to run, whatever the platform is.

    Attributes:
      name: The job's name there.
      image: The container image; it holds generic-trainer.
      command: The command line, without the program's own name.
      options: The training's options, as the command line has them.
      evaluators: How many evaluators stand beside the cluster.
      service_account: Whom the job acts as; "" for the platform's default.
      accelerator: The kind of GPU, by the platform's name; "" for any.
      output: Where the command writes, "" if it does not say.
    """

    name: str
    image: str
    command: tuple[str, ...]
    options: TrainingOptions
    evaluators: int = 0
    service_account: str = ""
    accelerator: str = ""
    output: str = ""

    @property
    def deadline_seconds(self) -> int | None:
        """Whole seconds after which the platform ends the job: --timeout, and what comes before and after training."""
        timeout = self.options.timeout
        return None if timeout is None else math.ceil(timeout) + _AROUND_TRAINING_SECONDS


def derived_name(text: str, longest: int) -> str:
    """Returns a Kubernetes name made from any text: lower case, digits and "-", beginning with a letter."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    name = name if name[:1].isalpha() else f"job-{name}"
    return name[:longest].rstrip("-")


def require_name(name: str, longest: int, what: str) -> str:
    """Makes sure that Kubernetes takes a name (RFC 1035's labels), and returns it.

    Raises:
      InputError: When it does not; it proposes one that is.
    """
    if len(name) > longest or not _LABEL.fullmatch(name):
        raise InputError(
            f"{what} {name!r}: Kubernetes takes lower-case letters, digits and '-', beginning with a letter and "
            f"ending with a letter or digit, at most {longest} characters. For example {derived_name(name, longest)!r}."
        )
    return name


def is_reachable(path: str, folders: Sequence[str]) -> bool:
    """Returns whether a path means the same on other machines: by its scheme, or in one of the folders there."""
    if file_io.is_remote(path):
        return not path.lower().startswith("file:")
    whole = posixpath.normpath(path)
    return any(whole == folder or whole.startswith(folder.rstrip("/") + "/") for folder in folders)
