"""Explains disk and network errors: what failed, where, how much space is free, and the remedy.

Errors of Python's and of TensorFlow's file systems are identified by their number in <errno.h>, which for TensorFlow is
derived from the message or the error code.

    try:
        write(path)
    except Exception as error:
        raise explain(error, "Writing", path) or error
"""

from __future__ import annotations

import errno
import os
import re
import shutil

from ...errors import StorageError
from ..quantities import size_text
from .object_store import is_in_store

# Without a file's name, these can be of a connection to another process.
_CONNECTION = frozenset(
    {
        errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTDOWN,
        errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH, errno.ENOLINK,
    }
)  # fmt: skip
# Transient errors of network and FUSE mounts, whose server is unreachable, busy or restarted.
TRANSIENT = _CONNECTION | {errno.EIO, errno.EAGAIN, errno.EBUSY, errno.ESTALE, errno.EREMOTEIO}
_REMEDIES = {
    errno.ENOSPC: "Free disk space, or choose a folder on another disk, and run it again.",
    errno.EDQUOT: "Delete files that are not needed, or request a larger quota, and run it again.",
    errno.EFBIG: "Raise the limit on the size of files (`ulimit -f`, or the file system's own), and run it again.",
    errno.EROFS: "Mount it for writing, or choose another folder, and run it again.",
    errno.EACCES: "Grant this user the permission, or choose another folder, and run it again.",
}
_REMEDIES[errno.EPERM] = _REMEDIES[errno.EACCES]
_REMOTE_LIBRARIES = ("tensorflow", "botocore", "aiobotocore", "aiohttp")
_CHECK_DISK = "Check the disk, or the network connection to it, and run it again."
SPACE = (errno.ENOSPC, errno.EDQUOT)
# absl::Status codes of TensorFlow's and ML Metadata's exceptions, for messages from which no number can be derived.
_ERRNO_BY_CODE = {4: errno.ETIMEDOUT, 7: errno.EACCES, 10: errno.EAGAIN, 14: errno.EAGAIN, 16: errno.EACCES}
KNOWN = TRANSIENT | _REMEDIES.keys()
_ERRNO_BY_TEXT = {os.strerror(number): number for number in KNOWN}
_PATTERN = re.compile(
    rf"(?:(?<!\S)(\S+); )?({'|'.join(map(re.escape, sorted(_ERRNO_BY_TEXT, key=len, reverse=True)))})(?:: '([^']+)')?"
)


def errno_of(error: BaseException) -> int | None:
    """Returns an error's number in <errno.h>; None if it is not a file system's error."""
    if isinstance(error, OSError):
        return error.errno
    if not type(error).__module__.startswith("tensorflow."):
        return None
    if found := _PATTERN.search(str(error)):
        return _ERRNO_BY_TEXT[found[2]]
    return _ERRNO_BY_CODE.get(getattr(error, "error_code", 0))


def is_transient(error: BaseException) -> bool:
    """Whether an error is transient, so that a retry may succeed; False for errors that were already retried."""
    return errno_of(error) in TRANSIENT and not isinstance(error, StorageError)


def explain(error: BaseException, operation: str, path: str, tries: int = 1) -> StorageError | None:
    """Returns a file system's error as a StorageError with a remedy; None for errors of other kinds.

    Args:
      error: The exception.
      operation: The operation, such as "Writing".
      path: The path that it failed on.
      tries: Number of attempts.
    """
    if isinstance(error, StorageError):
        return error
    number = errno_of(error)
    if number is None or number not in KNOWN:
        return None
    explained = StorageError(number, os.strerror(number), path)
    often = f", {tries} times" if tries > 1 else ""
    explained.advice = f"{operation} {path} failed{often}: {os.strerror(number)}. {advice(number, path)}"
    return explained


def explain_remote(error: BaseException, operation: str, path: str) -> StorageError | None:
    """Returns an error of TensorFlow or of fsspec on a remote path as a StorageError with a remedy; None for others."""
    is_from_library = type(error).__module__.partition(".")[0] in _REMOTE_LIBRARIES
    if "://" not in path or isinstance(error, StorageError) or not (is_from_library or _is_s3_error(path, error)):
        return None
    explained = StorageError(errno.EREMOTEIO, os.strerror(errno.EREMOTEIO), path)
    text = str(getattr(error, "message", error)).strip() or type(error).__name__
    text = text.splitlines()[0].strip()
    explained.advice = f"{operation} {path} failed: {text}. Check the address, the network, and the credentials."
    return explained


def _is_s3_error(path: str, error: BaseException) -> bool:
    """Whether s3fs has translated an answer of the server to an OSError; FileNotFoundError keeps its type."""
    return is_in_store(path) and isinstance(error, OSError) and not isinstance(error, FileNotFoundError)


def advice(number: int, path: str) -> str:
    """Returns the remedy, preceded by the free space if that is the cause."""
    free = free_space(path) if number in SPACE else ""
    return " ".join(filter(None, [free, _REMEDIES.get(number, _CHECK_DISK)]))


def hint(error: BaseException, folder: str = "") -> str:
    """Returns the remedy for an error that a module has raised; "" if it is not a file system's.

    Args:
      error: An exception of Python or TensorFlow.
      folder: The folder that the module writes to, for errors without a path; without it, those get no hint.
    """
    number, found = errno_of(error), _PATTERN.search(str(error))
    if number is None or number not in KNOWN:
        return ""
    named = getattr(error, "filename", None) or (found[1] if found else "")
    is_file = isinstance(named, str) and named.startswith("/")
    # Without a file, a code alone, such as UNAVAILABLE, or "Connection reset by peer" can be a lost worker's.
    if not is_file and (number in _CONNECTION or not (found or isinstance(error, OSError))):
        return ""
    path = named if is_file else folder
    return f"{os.strerror(number)}: {path}. {advice(number, path)}" if path else ""


def find_in_text(text: str) -> StorageError | None:
    """Finds a disk error with a path in a text, such as that of an exception whose type was lost."""
    for found in _PATTERN.finditer(text):
        path = found[1] or found[3]
        if path and path.startswith("/"):
            number = _ERRNO_BY_TEXT[found[2]]
            explained = StorageError(number, found[2], path)
            explained.advice = f"{path}: {found[2]}. {advice(number, path)}"
            return explained
    return None


def free_space(path: str) -> str:
    """Returns a sentence on the free space at a path: "0 B of 4.0 MB are free there."; "" if unknown."""
    if "://" in path:
        return ""
    folder = os.path.abspath(path)
    while not os.path.exists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    try:
        space, status = shutil.disk_usage(folder), os.statvfs(folder)
    except OSError:
        return ""
    if status.f_files and not status.f_favail:
        return f"The disk cannot store more files: all {status.f_files:,} inodes are in use."
    return f"{size_text(space.free)} of {size_text(space.total)} are free there."
