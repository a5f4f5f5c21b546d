"""Checks that temporary files can be written, which TensorFlow and nearly every command require.

Python's `tempfile` tries TMPDIR, /tmp, /var/tmp and the current directory. In a read-only container none is writable.
"""

from __future__ import annotations

import os
import tempfile

from ...errors import InputError


def require_temporary_folder() -> None:
    """Checks that temporary files can be written.

    Raises:
      InputError: When they cannot; the message lists the folders tried and the remedy.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        raise InputError(_message()) from error


def explain(error: BaseException) -> InputError | None:
    """Returns an InputError with the remedy if no temporary directory was found; None for other errors."""
    if not isinstance(error, FileNotFoundError):
        return None
    try:
        require_temporary_folder()
    except InputError as missing:
        return missing
    return None


def _message() -> str:
    given = os.environ.get("TMPDIR")
    tried = ", ".join([*([f"TMPDIR={given}"] if given else []), "/tmp", "/var/tmp", os.getcwd()])  # noqa: S108  # nosec B108
    return (
        f"Temporary files cannot be written: none of {tried} is a writable folder with free space. Mount a writable "
        "folder (docker and podman: --tmpfs /tmp; Kubernetes: an emptyDir at /tmp), or set TMPDIR to one."
    )
