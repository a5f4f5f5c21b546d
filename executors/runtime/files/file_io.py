"""The one file-system layer: TFX's `fileio`, without paying for TensorFlow on local paths.

`tfx.dsl.io.fileio` imports TensorFlow to learn about `gs://` and its like. A local path needs none of
that, so it goes to TFX's own local plug-in, which is plain Python.

Calls that fail for a moment are made again, those that take long are told of, and what remains of the errors of disks
and networks are `StorageError`s, which are `OSError`s that say what to do; see `file_retries`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from . import storage_errors
from .retry import retried
from .user_paths import require_regular

if TYPE_CHECKING:
    from tfx.dsl.io.filesystem import Filesystem

# EMFILE is gcsfuse's: "too many objects to be renamed".
NO_RENAME = (errno.EXDEV, errno.EMFILE, errno.ENOSYS, errno.ENOTSUP)
_DOING = {
    "open": "Opening",
    "copy": "Copying",
    "remove": "Deleting",
    "rmtree": "Deleting",
    "rename": "Renaming",
    "makedirs": "Making the folder",
    "listdir": "Listing",
    "glob": "Looking for",
    "exists": "Looking for",
    "isdir": "Looking for",
    "stat": "Looking for",
}


def is_remote(path: str) -> bool:
    """Returns whether the path names a file system by scheme, such as `gs://bucket/file`."""
    return "://" in path


def whole(path: str) -> str:
    """Returns a path that means the same in any working folder; one with a scheme as it is."""
    return path if is_remote(path) else os.path.abspath(path)


def file_system(path: str) -> Filesystem:
    """Returns TFX's file system for a path, with calls that are retried.

    What is done with a file that it opens is not.
    """
    return _Retrying(_plain(path))


def _plain(path: str) -> Filesystem:
    if is_remote(path):
        from tfx.dsl.io import filesystem_registry
        from tfx.dsl.io.plugins import tensorflow_gfile  # noqa: F401  (registers itself)

        return filesystem_registry.DEFAULT_FILESYSTEM_REGISTRY.get_filesystem_for_path(path)
    from tfx.dsl.io.plugins.local import LocalFilesystem

    return LocalFilesystem


class _Retrying:
    """A file system whose calls are made again when they fail for a moment."""

    def __init__(self, plain: Filesystem) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Callable[..., object]:
        call = getattr(self._plain, name)

        def steady(path: str, *arguments: str, **options: object) -> object:
            return retried(
                lambda: call(path, *arguments, **options),
                _DOING.get(name, name),
                path,
                done=lambda: _has_happened(name, path, *arguments),
            )

        return steady


def _has_happened(name: str, path: str, *others: str) -> bool:
    """Returns whether a call that failed has done its work all the same, now that it says that `path` is missing."""
    if name == "rename":
        return not exists(path) and exists(others[0])
    return name in ("remove", "rmtree") and not exists(path)


def exists(path: str) -> bool:
    """Returns whether there is a file or folder."""
    return bool(file_system(path).exists(path)) if is_remote(path) else _status(path) is not None


def isdir(path: str) -> bool:
    """Returns whether there is a folder."""
    if is_remote(path):
        return bool(file_system(path).isdir(path))
    status = _status(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _status(path: str) -> os.stat_result | None:
    """Returns a local path's status, None when there is nothing; `os.path.exists` says so of a disk that fails, too."""

    def status() -> os.stat_result | None:
        try:
            return os.stat(path)
        except (OSError, ValueError) as error:
            if storage_errors.is_passing(error):
                raise
            return None

    return retried(status, "Looking for", path)


def listdir(path: str) -> list[str]:
    """Returns the names in a folder, sorted, without the slash that object stores append."""
    return sorted(name.rstrip("/") for name in file_system(path).listdir(path))


def glob(pattern: str) -> list[str]:
    """Returns the paths that match a glob pattern, sorted."""
    found = sorted(file_system(pattern).glob(pattern))
    if not found and not is_remote(pattern) and isdir(folder := parent(pattern)):
        listdir(folder)  # which says of a disk that fails what Python's glob keeps to itself
    return found


def read_bytes(path: str) -> bytes:
    """Returns a file's content."""

    if not is_remote(path):
        require_regular(path)

    def read() -> bytes:
        # TFX's error on a local file that is missing has neither a number nor a text.
        with _plain(path).open(path, mode="rb") if is_remote(path) else open(path, "rb") as file:
            data: bytes = file.read()
            return data

    return retried(read, "Reading", path)


def read_text(path: str) -> str:
    """Returns a UTF-8 file's text."""
    return read_bytes(path).decode("utf-8")


def write_text(path: str, text: str) -> None:
    """Writes a file so that a reader sees all of the text or none of it (on local disks)."""

    def write() -> None:
        with _plain(path).open(part, mode="wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))  # a lone surrogate has no UTF-8

    with whole_file(path) as part:
        retried(write, "Writing", path)


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[str]:
    """Gives the path of a part file to write, which becomes `path` when the block ends well.

    Ends it otherwise, with an error or Ctrl-C, the part file is removed and what was at `path` is still there.

        with whole_file("predictions.csv") as part:
            write(part)

    Raises:
      StorageError: When the block's error is the disk's.
    """
    makedirs(parent(path))
    part = f"{path}.part-{secrets.token_hex(4)}"  # nobody can lay a link there beforehand
    try:
        yield part
        file_system(path).rename(part, path, overwrite=True)
    except BaseException as error:
        with contextlib.suppress(Exception):  # it must not hide what went wrong before
            if exists(part):
                file_system(part).remove(part)
        explained = storage_errors.explained(error, "Writing", path)
        if explained is None or explained is error:
            raise
        raise explained from error


def makedirs(path: str) -> None:
    """Makes a folder and those above it; one that is there already is fine."""
    file_system(path).makedirs(path)


def rmtree(path: str) -> None:
    """Deletes a folder and all in it, if it is there."""
    if exists(path):
        file_system(path).rmtree(path)


def parent(path: str) -> str:
    """Returns the folder that a path lies in."""
    return posixpath.dirname(path.rstrip("/")) if is_remote(path) else os.path.dirname(path.rstrip(os.sep)) or "."


def files_below(folder: str) -> Iterator[str]:
    """Yields the path of every file below a folder, in a stable order, relative to the folder."""
    for base, _, names in _walked(folder):
        for name in sorted(names):
            yield os.path.relpath(os.path.join(base, name), folder)


def _walked(folder: str) -> list[tuple[str, list[str], list[str]]]:
    def fail(error: Exception) -> None:
        if storage_errors.number_of(error) in storage_errors.KNOWN:  # a walk leaves out what it cannot read
            raise error

    options = {} if is_remote(folder) else {"onerror": fail}
    return retried(lambda: sorted(_plain(folder).walk(folder, **options)), "Reading", folder)


def copytree(source: str, target: str) -> None:
    """Copies a folder, with `saved_model.pb`, the file that readers look for, last.

    What was copied is deleted when it breaks off.
    """
    last = "saved_model.pb"
    try:
        for base, _, _ in _walked(source):
            below = os.path.relpath(base, source)
            makedirs(target if below == os.curdir else os.path.join(target, below))
        for name in sorted(files_below(source), key=lambda name: (os.path.basename(name) == last, name)):
            _copy(os.path.join(source, name), os.path.join(target, name))
    except BaseException:
        with contextlib.suppress(Exception):  # it must not hide what went wrong before
            rmtree(target)
        raise


def _copy(source: str, target: str) -> None:
    if is_remote(source) or is_remote(target):
        remote = target if is_remote(target) else source
        file_system(remote).copy(source, target, overwrite=True)
    else:
        retried(lambda: shutil.copy2(source, target), "Copying", target)


def copy(source: str, target: str) -> None:
    """Copies a file; the folders above the target are made."""
    makedirs(parent(target))
    _copy(source, target)


def move(source: str, target: str) -> None:
    """Moves a folder or file so that nothing at `target` looks complete before it is.

    On a local disk that is one rename. On an object store a rename is a copy of file after file; a mounted one renames
    no folders, nor does a disk to another one.
    """
    makedirs(parent(target))
    if not is_remote(target):
        try:
            retried(
                lambda: os.rename(source, target),
                "Renaming",
                source,
                done=lambda: _has_happened("rename", source, target),
            )
        except OSError as error:
            if error.errno not in NO_RENAME:
                raise
        else:
            return
    if isdir(source):
        copytree(source, target)
        rmtree(source)
    else:
        _copy(source, target)
        file_system(source).remove(source)


def size_of(path: str) -> int:
    """Returns a file's size in bytes."""
    status = file_system(path).stat(path)
    return int(status.st_size if hasattr(status, "st_size") else status.length)
