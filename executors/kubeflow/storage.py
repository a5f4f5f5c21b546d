"""Locations of Kubeflow artifacts in a container: the local path that the launcher copies them to, or their URI.

The launcher downloads artifacts with gs, s3, minio and oci URIs to a folder named after the scheme, and uploads outputs
from there when the container has succeeded (`LocalPathForURI` in kubeflow/pipelines,
backend/src/v2/component/launcher_v2.go). Vertex AI mounts buckets at /gcs instead. On a local runner the URI is a path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ..checkpoints.directory import ROOT, step_checkpoint_root
from ..errors import InputError
from ..runtime.files import file_io
from ..runtime.files.local_disks import disk_kind

MOUNTS = {"gs": "/gcs", "s3": "/s3", "minio": "/minio", "oci": "/oci"}
WORKSPACE = "/kfp-workspace/.artifacts"  # for artifacts that Kubeflow marks as such, see kfp.dsl.Artifact
_NETWORK_DISKS = ("fuse", "nfs", "cifs", "ceph", "lustre")  # with mounted buckets, such as /gcs on Vertex AI
_TENSORFLOW_SCHEMES = ("gs", "file", "ram", "")  # file systems that are built into TensorFlow
_KUBEFLOW_SCHEMES = ("minio://", "oci://")  # schemes that only Kubeflow uses
_LOCAL_RUN = re.compile(r".+-\d{4}(-\d\d){5}-\d{6}")  # name of a run's folder in kfp.local


def local_path(uri: str, metadata: Mapping[str, object] | None = None) -> str | None:
    """Returns the local path to which Kubeflow maps a URI, or None if it does not map the URI.

    Args:
      uri: URI of an artifact.
      metadata: Metadata of the artifact.
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


def resolve_input(uri: str, what: str, metadata: Mapping[str, object] | None = None) -> str:
    """Returns the local path of an input if it exists there, otherwise its URI.

    Args:
      uri: URI of the input.
      what: Name of the input, for errors.
      metadata: Metadata of the artifact.

    Raises:
      InputError: If the input is at neither place or cannot be read; the message gives the reason.
    """
    if not uri:
        raise InputError(f"{what}: the artifact has no URI. Check that the step that produces it has run.")
    path = local_path(uri, metadata)
    if path and os.path.exists(path):
        return path
    missing = f" Kubeflow's launcher copies it to {path}, which does not exist." if path and path != uri else ""
    if uri.startswith(_KUBEFLOW_SCHEMES):
        raise InputError(f"{what} {uri} cannot be read: TensorFlow has no file system for it.{missing}")
    try:
        found = file_io.exists(uri)
    except Exception as error:  # file systems raise various exceptions
        raise InputError(f"{what} {uri} cannot be read: {_hint(uri, error)}{missing}") from error
    if not found:
        raise InputError(f"{what} {uri} does not exist.{missing}")
    return uri


def require_readable_pattern(pattern: str, what: str) -> None:
    """Checks that a pattern's file system can be listed, not whether the pattern matches files.

    Raises:
      InputError: If it cannot be listed.
    """
    if not file_io.is_remote(pattern):
        return
    try:
        file_io.glob(pattern)
    except Exception as error:  # file systems raise various exceptions
        raise InputError(f"{what} {pattern} cannot be read: {_hint(pattern, error)}") from error


def resolve_output(uri: str, what: str) -> str:
    """Returns the local path of an output if Kubeflow copies it from there, otherwise its URI.

    Raises:
      InputError: If the output can be written to neither.
    """
    scheme = uri.rpartition("://")[0]
    path = local_path(uri)
    if not uri or (scheme and path is None and scheme not in _TENSORFLOW_SCHEMES):
        raise InputError(f"output {what} {uri!r}: Kubeflow copies outputs from {', '.join(MOUNTS)} only.")
    if path and (not scheme or os.path.isdir(MOUNTS[scheme])):
        return path
    if scheme not in _TENSORFLOW_SCHEMES:
        raise InputError(
            f"output {what} {uri}: this container has no folder {MOUNTS[scheme]}, from which Kubeflow's launcher "
            f"copies outputs, and TensorFlow has no file system for {scheme}://."
        )
    return uri


def checkpoint_root(uri: str, place: str) -> str | None:
    """Returns the checkpoint folder for retries and later runs of a step; None if only storage in the pod is available.

    The folder is beside those of the runs. The launcher's local copies exist only in the pod until the step succeeds.

    Args:
      uri: URI of the output for logs.
      place: Location of that output in the container, from `resolve_output`.
    """
    folders = place.split("/")
    if len(folders) > 3 and _LOCAL_RUN.fullmatch(folders[-3]):
        return "/".join([*folders[:-3], ROOT, folders[-2]])
    if place == uri or disk_kind(place).startswith(_NETWORK_DISKS):
        return step_checkpoint_root(place)
    return None


def _hint(uri: str, error: Exception) -> str:
    scheme, lines = uri.partition("://")[0], str(error).strip().splitlines() or [type(error).__name__]
    if scheme not in _TENSORFLOW_SCHEMES:
        return (
            f"TensorFlow has no file system for {scheme}:// ({lines[0]}). Mount the storage as a folder. Kubeflow "
            "downloads artifacts itself."
        )
    return f"{lines[0].rstrip('.')}. Check that the pod's service account may read it."
