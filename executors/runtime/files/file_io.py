"""The file-system layer: TFX's `fileio`, without importing TensorFlow for local paths, and with s3://.

`tfx.dsl.io.fileio` imports TensorFlow to support `gs://` and other schemes. Local paths use TFX's local plug-in
directly, which is plain Python; for s3:// see `object_store.py`.

Transient failures are retried, and slow calls are logged. Remaining disk and network errors are raised as
`StorageError`s, which are `OSError`s with a remedy; see `retry.py`.
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
from typing import IO, TYPE_CHECKING

from . import durable, storage_errors
from .file_kinds import require_regular
from .object_store import is_in_store, object_store
from .retry import retry_call

if TYPE_CHECKING:
    from tfx.dsl.io.filesystem import Filesystem

# gcsfuse returns EMFILE for "too many objects to be renamed".
NO_RENAME = (errno.EXDEV, errno.EMFILE, errno.ENOSYS, errno.ENOTSUP)
_OPERATIONS = {
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
    """Whether the path has a scheme, such as `gs://bucket/file`."""
    return "://" in path


def absolute_path(path: str) -> str:
    """Returns the absolute path, which is valid in any working directory; a path with a scheme unchanged."""
    return path if is_remote(path) else os.path.abspath(path)


def file_system(path: str) -> Filesystem:
    """Returns TFX's file system for a path, with retries on its calls.

    Reads and writes of a file that it opens are not retried.
    """
    return _Retrying(_plain(path))


def _plain(path: str) -> Filesystem:
    if is_in_store(path):
        return object_store(path.partition("://")[0])
    if is_remote(path):
        from tfx.dsl.io import filesystem_registry
        from tfx.dsl.io.plugins import tensorflow_gfile  # noqa: F401  (registers itself)

        return filesystem_registry.DEFAULT_FILESYSTEM_REGISTRY.get_filesystem_for_path(path)
    from tfx.dsl.io.plugins.local import LocalFilesystem

    return LocalFilesystem


class _Retrying:
    """A file system whose calls are retried after transient failures."""

    def __init__(self, plain: Filesystem) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Callable[..., object]:
        call = getattr(self._plain, name)

        def retrying_call(path: str, *arguments: str, **options: object) -> object:
            return retry_call(
                lambda: call(path, *arguments, **options),
                _OPERATIONS.get(name, name),
                path,
                done=lambda: _was_done(name, path, *arguments),
            )

        return retrying_call


def _was_done(name: str, path: str, *others: str) -> bool:
    """Whether a call that failed because `path` is missing was done by an earlier attempt."""
    if name == "rename":
        return not exists(path) and exists(others[0])
    return name in ("remove", "rmtree") and not exists(path)


def exists(path: str) -> bool:
    """Whether a file or folder exists."""
    return bool(file_system(path).exists(path)) if is_remote(path) else status_of(path) is not None


def isdir(path: str) -> bool:
    """Whether a folder exists."""
    if is_remote(path):
        return bool(file_system(path).isdir(path))
    status = status_of(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def status_of(path: str) -> os.stat_result | None:
    """Returns a local path's status; None if it does not exist; raises disk errors, which `os.path.exists` hides."""

    def status() -> os.stat_result | None:
        try:
            return os.stat(path)
        except (OSError, ValueError) as error:
            if storage_errors.is_transient(error):
                raise
            return None

    return retry_call(status, "Looking for", path)


def listdir(path: str) -> list[str]:
    """Returns the sorted names in a folder, without the trailing slash that object stores append."""
    return sorted(name.rstrip("/") for name in file_system(path).listdir(path))


def numbered_in(folder: str) -> list[str]:
    """Returns the paths in a folder, which may not exist, whose names are numbers: the highest first."""
    numbers = filter(str.isdigit, listdir(folder) if isdir(folder) else ())
    return [os.path.join(folder, number) for number in sorted(numbers, key=int, reverse=True)]


def glob(pattern: str) -> list[str]:
    """Returns the sorted paths that match a glob pattern."""
    found = sorted(file_system(pattern).glob(pattern))
    if not found and not is_remote(pattern) and isdir(folder := parent(pattern)):
        listdir(folder)  # raises disk errors, which Python's glob ignores
    return found


def read_bytes(path: str, most: int = -1) -> bytes:
    """Returns a file's content; only its first bytes if `most`, a number of them, is given."""

    if not is_remote(path):
        require_regular(path)

    def read() -> bytes:
        with _opened(path) as file:
            data: bytes = file.read(most)
            return data

    return retry_call(read, "Reading", path)


def opened(path: str) -> IO[bytes]:
    """Opens a file to read its bytes; reads are not retried."""
    return retry_call(lambda: _opened(path), "Opening", path)


def _opened(path: str) -> IO[bytes]:
    # Local files are opened with `open`: TFX's error for a missing file has neither errno nor message.
    return _plain(path).open(path, mode="rb") if is_remote(path) else open(path, "rb")


def read_text(path: str) -> str:
    """Returns the text of a UTF-8 file."""
    return read_bytes(path).decode("utf-8")


def write_text(path: str, text: str, synced: bool = True) -> None:
    """Writes a file atomically on local disks; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"), synced)  # UTF-8 cannot encode lone surrogates


def write_bytes(path: str, content: bytes, synced: bool = True) -> None:
    """Writes a file atomically on local disks: readers see all of the content or none of it.

    Args:
      path: The file.
      content: Its content.
      synced: Whether the file must survive a power loss. False for files of a running process, such as heartbeats.
    """

    def write() -> None:
        with _plain(path).open(part, mode="wb") as file:
            file.write(content)
        if synced:
            durable.sync(part)  # here, because the data must be written again after a sync that failed

    with atomic_write(path, synced) as part:
        retry_call(write, "Writing", path)


@contextlib.contextmanager
def atomic_write(path: str, synced: bool = True) -> Iterator[str]:
    """Yields the path of a temporary file beside `path`, which is renamed to `path` when the block succeeds.

    If the block raises, including by Ctrl-C, the temporary file is removed and the content of `path` is unchanged. The
    same holds after a power loss, unless `synced` is False.

        with atomic_write("predictions.csv") as part:
            write(part)

    Raises:
      StorageError: When the block fails with a disk error.
    """
    makedirs(parent(path))
    part = f"{path}.part-{secrets.token_hex(4)}"  # unpredictable, so no link can be planted there
    try:
        yield part
        if synced:
            durable.sync(part)
        file_system(path).rename(part, path, overwrite=True)
        if synced:
            durable.sync_parent(path)
    except BaseException as error:
        with contextlib.suppress(Exception):  # must not mask the original exception
            if exists(part):
                file_system(part).remove(part)
        explained = storage_errors.explain(error, "Writing", path)
        if explained is None or explained is error:
            raise
        raise explained from error


def makedirs(path: str) -> None:
    """Creates a folder and its parents; existing folders are accepted."""
    file_system(path).makedirs(path)


def rmtree(path: str) -> None:
    """Deletes a folder with its content, if it exists."""
    if exists(path):
        file_system(path).rmtree(path)


def parent(path: str) -> str:
    """Returns the parent folder of a path."""
    return posixpath.dirname(path.rstrip("/")) if is_remote(path) else os.path.dirname(path.rstrip(os.sep)) or "."


def files_below(folder: str) -> Iterator[str]:
    """Yields the path of every file below a folder, relative to the folder, in a stable order."""
    for base, _, names in _walk(folder):
        for name in sorted(names):
            yield os.path.relpath(os.path.join(base, name), folder)


def _walk(folder: str) -> list[tuple[str, list[str], list[str]]]:
    def fail(error: Exception) -> None:
        if storage_errors.errno_of(error) in storage_errors.KNOWN:  # os.walk skips unreadable folders silently
            raise error

    options = {} if is_remote(folder) else {"onerror": fail}
    return retry_call(lambda: sorted(_plain(folder).walk(folder, **options)), "Reading", folder)


def copytree(source: str, target: str, before_last: Callable[[], object] = lambda: None) -> None:
    """Copies a folder, with `saved_model.pb`, the file that readers check for, last; syncs the copy.

    Deletes the incomplete copy if it fails.

    Args:
      source: The folder.
      target: The path of the copy.
      before_last: Called when only `saved_model.pb` is left to copy; may raise.
    """
    last = "saved_model.pb"
    try:
        for base, _, _ in _walk(source):
            below = os.path.relpath(base, source)
            makedirs(target if below == os.curdir else os.path.join(target, below))
        names = list(files_below(source))
        for is_last in (False, True):
            if is_last:
                before_last()
            for name in names:
                if (os.path.basename(name) == last) == is_last:
                    _copy(os.path.join(source, name), os.path.join(target, name))
            durable.sync_tree(target)
    except BaseException:
        with contextlib.suppress(Exception):  # must not mask the original exception
            rmtree(target)
        raise


def _copy(source: str, target: str) -> None:
    if is_remote(source) or is_remote(target):
        remote = target if is_remote(target) else source
        file_system(remote).copy(source, target, overwrite=True)
    else:
        retry_call(lambda: shutil.copy2(source, target), "Copying", target)


def copy(source: str, target: str) -> None:
    """Copies a file; creates the target's parent folders."""
    makedirs(parent(target))
    _copy(source, target)


def move(source: str, target: str) -> None:
    """Moves a folder or file so that nothing at `target` looks complete too early, also after a power loss.

    On one local disk that is an atomic rename; sync what is moved before, see `durable.py`. Object stores rename by
    copying each file; mounted object stores cannot rename folders, and no rename crosses disks: there the files are
    copied and synced, and the source is deleted.
    """
    makedirs(parent(target))
    if not is_remote(target):
        try:
            retry_call(
                lambda: os.rename(source, target),
                "Renaming",
                source,
                done=lambda: _was_done("rename", source, target),
            )
        except OSError as error:
            if error.errno not in NO_RENAME:
                raise
        else:
            durable.sync_parent(target)
            return
    if isdir(source):
        copytree(source, target)
        durable.sync_parent(target)
        rmtree(source)
    else:
        _copy(source, target)
        durable.sync(target)
        durable.sync_parent(target)
        file_system(source).remove(source)


def size_of(path: str) -> int:
    """Returns a file's size in bytes."""
    status = file_system(path).stat(path)
    return int(status.st_size if hasattr(status, "st_size") else status.length)
