"""Tells files and folders from FIFOs, sockets and devices.

No path is opened: opening a FIFO blocks until there is a writer, and a device may be endless.
"""

from __future__ import annotations

import errno
import os
import stat

from ...errors import InputError, StorageError

_KINDS = {
    stat.S_ISFIFO: "a FIFO (named pipe)",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a character device",
    stat.S_ISBLK: "a block device",
}


def require_readable_kind(path: str, what: str, wanted: str = "a file or a folder") -> None:
    """Checks that a local path, if it exists, is a file or a folder.

    Args:
      path: The value.
      what: The option, for the message.
      wanted: What to give instead.

    Raises:
      InputError: When it is a dangling link, a FIFO, a socket or a device.
    """
    if "://" in path:
        return
    if os.path.islink(path) and not os.path.exists(path):
        raise InputError(f"{what} {path}: this is a link to {os.readlink(path)}, which does not exist.")
    if kind := special_kind(path):
        raise InputError(f"{what} {path}: this is {kind}. Give {wanted}.")


def special_kind(path: str) -> str:
    """Returns the kind of a local path that is neither a file nor a folder, such as "a socket"; otherwise ""."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    return next((name for has_kind, name in _KINDS.items() if has_kind(mode)), "")


def require_regular(path: str) -> None:
    """Checks that a local path, if it exists, is a regular file, so that reading it ends.

    Raises:
      StorageError: When it is a FIFO, a socket, a device or a folder.
    """
    kind = "a folder" if os.path.isdir(path) else special_kind(path)
    if kind:
        number = errno.EISDIR if kind == "a folder" else errno.EINVAL
        error = StorageError(number, os.strerror(number), path)
        error.advice = f"{path}: this is {kind}, not a file. Give a file."
        raise error
