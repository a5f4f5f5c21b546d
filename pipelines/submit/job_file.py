"""Job files of other projects, which `submit --from FILE` converts to command lines.

A package registers a function (path, document) -> `JobFile` under the `kind` of its manifests:

    [options.entry_points]
    generic_trainer.job_files =
        ElasticJob = my_package.elastic_job:translate
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

from ...executors import plugins
from ...executors.errors import InputError
from ...executors.runtime.files.plain_yaml import yaml_documents

_GROUP = "generic_trainer.job_files"


@dataclasses.dataclass(frozen=True)
class JobFile:
    """A job of another project; without arguments, none.

    Attributes:
      name: The job's name.
      namespace: The job's namespace, or "".
      metadata: The job's labels and annotations.
      image: The image of the training replicas.
      command: The equivalent command line of generic-trainer, without the program's name.
      pod_template: The pod template of the training replicas, without command, image and resources.
      folder: The working directory in the image that the command changes to with `cd`; "" if it does not.
      folders: Paths of the template's volume mounts.
      suspend: Whether the job is suspended.
      notes: One line per field that was left out or changed, with its value and the reason.
    """

    name: str = ""
    namespace: str = ""
    metadata: dict[str, object] = dataclasses.field(default_factory=dict)
    image: str = ""
    command: tuple[str, ...] = ()
    pod_template: dict[str, object] = dataclasses.field(default_factory=dict)
    folder: str = ""
    folders: tuple[str, ...] = ()
    suspend: bool = False
    notes: tuple[str, ...] = ()


def kinds() -> list[str]:
    """Returns the registered kinds."""
    return [entry.name for entry in plugins.entries(_GROUP)]


def read_job_file(path: str) -> JobFile:
    """Reads a YAML file with one job of a registered kind; other documents in the file are left out and noted.

    Raises:
      InputError: When the file does not contain exactly one such job, or its package cannot translate it.
    """
    documents = yaml_documents(path, "--from")
    by_kind = [
        (str(document.get("kind")) if isinstance(document, dict) else type(document).__name__, document)
        for document in documents
    ]
    jobs = [(kind, document) for kind, document in by_kind if kind in kinds()]
    if len(jobs) != 1:
        present = ", ".join(kind for kind, _ in by_kind) or "nothing"
        expected = " or ".join(kinds()) or "job of a registered kind"
        raise InputError(f"--from {path}: expected exactly one {expected}, found {present}.")
    [(kind, document)] = jobs
    translate = cast("Callable[[str, Any], JobFile]", plugins.load_one(_GROUP, kind))
    job = translate(path, document)
    left_out = [f"The file's {other} was left out." for other, _ in by_kind if other != kind]
    return dataclasses.replace(job, notes=tuple(dict.fromkeys((*left_out, *job.notes))))
