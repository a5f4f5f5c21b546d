"""Checks that temporary files can be written, which TensorFlow and nearly every command require.

Python's `tempfile` tries TMPDIR, /tmp, /var/tmp and the current directory. In a read-only container none is writable.
It tries them once and reports none of their errors, so that the cause is determined here, by writing a file.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import resource
import tempfile
import types
import uuid
from collections.abc import Iterator

from ...errors import InputError

_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_REMEDY = (
    "Mount a writable folder (docker and podman: --tmpfs /tmp; Kubernetes: an emptyDir at /tmp), or set TMPDIR to one."
)


def require_temporary_folder() -> None:
    """Checks that temporary files can be written.

    Raises:
      InputError: When they cannot; the message names the cause and the remedy.
    """
    try:
        tempfile.gettempdir()
    except OSError as error:
        raise InputError(_cause()) from error


def explain(error: BaseException) -> InputError | None:
    """Returns an InputError if no file descriptor or no temporary folder was available; None for other errors."""
    if not isinstance(error, OSError):
        return None
    if error.errno in _NO_DESCRIPTORS:
        return InputError(descriptors_message(error.errno or 0, str(error.filename or "")))
    if not isinstance(error, FileNotFoundError):
        return None
    if folder := _deleted_folder(str(error.filename or "")):
        return InputError(
            f"{folder} was deleted during the run, so that temporary files cannot be written. Exclude it from the "
            "cleanup of temporary files (tmpreaper, systemd-tmpfiles), or set TMPDIR to another folder."
        )
    try:
        require_temporary_folder()
    except InputError as missing:
        return missing
    return None


def descriptors_message(number: int, path: str = "") -> str:
    """Returns the message for an exhausted limit of open files: that of the process, or that of the machine."""
    where = f"{path}: " if path else ""
    if number == errno.ENFILE:
        return f"{where}{os.strerror(number)}: the machine has reached fs.file-max. Raise it, or end processes."
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return f"{where}{os.strerror(number)}: the limit of this process is {limit:,}. Close files, or raise it: ulimit -n."


def _deleted_folder(path: str) -> str:
    """Returns the temporary folder, or the folder in it, that a missing file should be in; "" if that exists."""
    chosen = tempfile.tempdir  # None before the first use
    if not isinstance(chosen, str) or not path.startswith(os.path.join(chosen, "")):
        return ""
    folder = path if os.path.basename(os.path.dirname(path)) == "" else os.path.dirname(path)
    if os.path.isdir(folder):
        return ""
    return folder if os.path.isdir(chosen) else chosen


def _cause() -> str:
    if replaced := next(_replaced_functions(), ""):
        return (
            f"Temporary files cannot be written, because {replaced}. Restore the function, or replace it only in the "
            "module's own code."
        )
    folders = [folder for folder in (os.environ.get("TMPDIR"), "/tmp", "/var/tmp") if folder]  # noqa: S108  # nosec B108
    with contextlib.suppress(OSError):  # the working folder was deleted
        folders.append(os.getcwd())
    errors = [_error_in(folder) for folder in folders]
    if (number := next((number for number in errors if number in _NO_DESCRIPTORS), None)) is not None:
        return f"Temporary files cannot be written: {descriptors_message(number)}"
    if errno.EFBIG in errors:
        return "Temporary files cannot be written: no file may be larger than 0 B (ulimit -f). Raise that limit."
    given = os.environ.get("TMPDIR")
    tried = ", ".join([*([f"TMPDIR={given}"] if given else []), *folders[bool(given) :]])
    return f"Temporary files cannot be written: none of {tried} is a writable folder with free space. {_REMEDY}"


def _error_in(folder: str) -> int | None:
    """Returns the number of the error of writing a file to a folder; None if it succeeds."""
    path = os.path.join(folder, f"generic-trainer-{uuid.uuid4().hex}")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, b"x")
        finally:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(path)
    except OSError as error:
        return error.errno
    return None


def _replaced_functions() -> Iterator[str]:
    """Yields the functions that `tempfile` writes with if a Python function has replaced them, with its location."""
    for name, function in (("open", builtins.open), ("io.open", io.open), ("os.open", os.open)):
        if isinstance(function, types.FunctionType):
            code = function.__code__
            yield f"{name} was replaced by {function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
