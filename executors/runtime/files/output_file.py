"""Writes a file to a path that the user has named, as the shell's `>` does, but atomically.

Links are followed, a replaced file keeps its owner and mode, and devices and FIFOs are written to. Files of a run, in
contrast, are written with `file_io.atomic_write` alone, which replaces links: another user may have planted one.

    write_output("pipeline.yaml", text)
    write_output("-", text)              # standard output
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import IO

from . import file_io, storage_errors, user_paths
from .retry import log_if_slow

STDOUT = "-"
_LONGEST_CHAIN = 40  # links of links, as in Linux


def is_stdout(path: str) -> bool:
    """Whether a path stands for standard output: "-", /dev/stdout, /dev/fd/1."""
    return path == STDOUT or _descriptor(path) == 1


def require_output(path: str, what: str) -> None:
    """Checks that a file can be written to a path: a regular file, a link to one, a FIFO, or a character device.

    Args:
      path: The path.
      what: The option, for the message.

    Raises:
      InputError: When it is a folder, a socket, a block device or a dangling link, or below a file.
    """
    if not is_stream(path):
        user_paths.require_writable_kind(path, what, folder=False)


def write_output(path: str, text: str) -> None:
    """Writes a text; see `output_file`."""
    with output_file(path) as part, file_io.file_system(part).open(part, mode="wb") as file:
        file.write(text.encode("utf-8", "backslashreplace"))  # UTF-8 cannot encode lone surrogates


@contextlib.contextmanager
def output_file(path: str) -> Iterator[str]:
    """Yields the path of a temporary file, whose content is written to `path` when the block succeeds.

    Args:
      path: A path or URI, or "-" for standard output.

    Raises:
      InputError: See `require_output`.
      StorageError: When the block, or writing, fails with a disk error.
    """
    require_output(path, "The output")
    if is_stream(path):
        with tempfile.TemporaryDirectory(prefix="generic-trainer-") as folder:
            yield (part := os.path.join(folder, "part"))
            _send(part, path)
    elif file_io.is_remote(path):
        with file_io.atomic_write(path) as part:
            yield part
    else:
        with file_io.atomic_write(os.path.realpath(path)) as part, _same_access(path, part):
            yield part


@contextlib.contextmanager
def _same_access(path: str, part: str) -> Iterator[None]:
    """Gives the block's file the owner and mode of an existing one; until it is complete, only its owner can read it.

    Only root can give a file to another user; for others the file becomes theirs, as with an editor.
    """
    if not os.path.exists(path):
        yield
        return
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    yield
    there = os.stat(path)
    with contextlib.suppress(PermissionError):
        os.chown(part, there.st_uid, there.st_gid)
    shutil.copymode(path, part)  # last, as a change of the owner clears the bits for set-user-ID


def _send(part: str, path: str) -> None:
    try:
        with log_if_slow("Writing", path), open(part, "rb") as file, _opened(path) as stream:  # waits for a reader
            shutil.copyfileobj(file, stream)
            stream.flush()
    except OSError as error:
        raise storage_errors.explain(error, "Writing", path) or error from error


def _opened(path: str) -> AbstractContextManager[IO[bytes]]:
    if is_stdout(path):
        sys.stdout.flush()
        return nullcontext(sys.stdout.buffer)
    descriptor = _descriptor(path)
    return open(path, "wb") if descriptor is None else os.fdopen(os.dup(descriptor), "wb")


def is_stream(path: str) -> bool:
    """Whether a path is written to in place: standard output, /dev/fd/3, a FIFO, or a character device."""
    if path == STDOUT or _descriptor(path) is not None:
        return True
    with contextlib.suppress(OSError, ValueError):
        mode = os.stat(path).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)
    return False


def _descriptor(path: str) -> int | None:
    """Returns the number of this process's open file that a path stands for, such as 1 for /dev/stdout; else None.

    Opening such a path is not the same: of a regular file it starts at its beginning.
    """
    for _ in range(_LONGEST_CHAIN):
        folder, name = os.path.split(path)
        if name.isdecimal() and os.path.realpath(folder) == f"/proc/{os.getpid()}/fd":
            return int(name)
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
    return None
