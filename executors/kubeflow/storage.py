"""Where Kubeflow's artifacts lie in a container: at the path that its launcher copies them to, or at their URI.

The launcher downloads what has a URI of gs, s3, minio or oci to a folder of that name, and uploads outputs from there
when the container has succeeded (`LocalPathForURI` in kubeflow/pipelines, backend/src/v2/component/launcher_v2.go).
Vertex AI mounts its buckets at /gcs instead. On a local runner the URI is a path itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ..checkpoints.directory import ROOT, root_beside
from ..errors import InputError
from ..runtime.files import file_io

MOUNTS = {"gs": "/gcs", "s3": "/s3", "minio": "/minio", "oci": "/oci"}
WORKSPACE = "/kfp-workspace/.artifacts"  # of artifacts that Kubeflow marks so, as kfp.dsl.Artifact has it
_MOUNT_TABLE = "/proc/mounts"
_OF_TENSORFLOW = ("gs", "file", "ram", "")  # file systems that come with it
_KUBEFLOWS = ("minio://", "oci://")  # schemes of its own
_LOCAL_RUN = re.compile(r".+-\d{4}(-\d\d){5}-\d{6}")  # as kfp.local names the folder of a run


def local_path(uri: str, metadata: Mapping[str, object] | None = None) -> str | None:
    """Returns where Kubeflow puts what lies at a URI, or None where it leaves it alone.

    Args:
      uri: An artifact's.
      metadata: The artifact's.
    """
    scheme, _, rest = uri.rpartition("://")
    if not scheme:
        path = uri
    elif scheme == "oci":
        path = os.path.join(MOUNTS[scheme], rest.replace("/", "_"), "models")
    elif scheme in MOUNTS:
        path = os.path.join(MOUNTS[scheme], rest)
    else:
        return None
    if (metadata or {}).get("_kfp_workspace") is True:
        return os.path.join(WORKSPACE, path.lstrip("/"))
    return path


def readable_place(uri: str, what: str, metadata: Mapping[str, object] | None = None) -> str:
    """Returns the path, or else the URI, that an input is read at.

    Args:
      uri: The input's.
      what: Its name, for errors.
      metadata: The artifact's.

    Raises:
      InputError: When it is at neither, or cannot be read; it says what is missing.
    """
    if not uri:
        raise InputError(f"{what}: the artifact has no URI. Did the step that makes it run?")
    path = local_path(uri, metadata)
    if path and os.path.exists(path):
        return path
    missing = f" Kubeflow's launcher puts it at {path}, but there is nothing." if path and path != uri else ""
    if uri.startswith(_KUBEFLOWS):
        raise InputError(f"{what} {uri} cannot be read: TensorFlow has no file system for it.{missing}")
    try:
        found = file_io.exists(uri)
    except Exception as error:  # whatever a file system raises
        raise InputError(f"{what} {uri} cannot be read: {_hint(uri, error)}{missing}") from error
    if not found:
        raise InputError(f"{what} {uri} does not exist.{missing}")
    return uri


def require_readable_pattern(pattern: str, what: str) -> None:
    """Makes sure that the file system of a pattern can be listed; whether anything matches is another question.

    Raises:
      InputError: When it cannot.
    """
    if not file_io.is_remote(pattern):
        return
    try:
        file_io.glob(pattern)
    except Exception as error:  # whatever a file system raises
        raise InputError(f"{what} {pattern} cannot be read: {_hint(pattern, error)}") from error


def writable_place(uri: str, what: str) -> str:
    """Returns the path, or else the URI, that an output is written to.

    Raises:
      InputError: When there is neither.
    """
    scheme = uri.rpartition("://")[0]
    path = local_path(uri)
    if not uri or (scheme and path is None and scheme not in _OF_TENSORFLOW):
        raise InputError(f"output {what} {uri!r}: Kubeflow copies outputs of {', '.join(MOUNTS)} only.")
    if path and (not scheme or os.path.isdir(MOUNTS[scheme])):
        return path
    if scheme not in _OF_TENSORFLOW:
        raise InputError(
            f"output {what} {uri}: there is no {MOUNTS[scheme]} in this container, from which Kubeflow's launcher "
            f"would copy it, and TensorFlow has no file system for {scheme}://."
        )
    return uri


def checkpoint_root(uri: str, place: str) -> str | None:
    """Returns where retries of a step, and later runs of it, find its checkpoints; None where nothing outlives the pod.

    That is a folder beside the runs. The launcher's own copies are in the pod alone until the step has succeeded.

    Args:
      uri: Of the output for logs.
      place: Where in the container it is written, of `writable_place`.
    """
    folders = place.split("/")
    if len(folders) > 3 and _LOCAL_RUN.fullmatch(folders[-3]):
        return "/".join([*folders[:-3], ROOT, folders[-2]])
    if place == uri or is_network_mount(place):
        return root_beside(place)
    return None


def is_network_mount(path: str) -> bool:
    """Returns whether a path lies on a mounted bucket (FUSE) or network file system, as /gcs on Vertex AI does."""
    kind, longest = "", -1
    with open(_MOUNT_TABLE, encoding="utf-8", errors="replace") as file:
        for line in file:
            _, mount, found, *_ = line.split(" ")
            if f"{os.path.abspath(path)}/".startswith(f"{mount.rstrip('/')}/") and len(mount) > longest:
                kind, longest = found, len(mount)
    return kind.startswith(("fuse", "nfs", "cifs", "ceph", "lustre"))


def _hint(uri: str, error: Exception) -> str:
    scheme, said = uri.partition("://")[0], str(error).strip().splitlines() or [type(error).__name__]
    if scheme not in _OF_TENSORFLOW:
        return (
            f"TensorFlow has no file system for {scheme}:// here ({said[0]}). Install one in the image, such as "
            "tensorflow-io where there is a release for this TensorFlow. Artifacts are downloaded by Kubeflow itself."
        )
    return f"{said[0].rstrip('.')}. Does the pod's service account have credentials that may read it?"
