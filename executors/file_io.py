"""The one file-system layer: TFX's `fileio`, without paying for TensorFlow on local paths.

`tfx.dsl.io.fileio` imports TensorFlow to learn about `gs://` and its like. A local path needs none of
that, so it goes to TFX's own local plug-in, which is plain Python.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import shutil
from collections.abc import Iterator
from typing import Any

# EMFILE is gcsfuse's: "too many objects to be renamed".
_NO_RENAME = (errno.EXDEV, errno.EMFILE, errno.ENOSYS, errno.ENOTSUP)


def is_remote(path: str) -> bool:
    """Returns whether the path names a file system by scheme, such as `gs://bucket/file`."""
    return "://" in path


def whole(path: str) -> str:
    """Returns a path that means the same in any working folder; one with a scheme as it is."""
    return path if is_remote(path) else os.path.abspath(path)


def file_system(path: str) -> Any:
    """Returns TFX's file-system class for a path (see `tfx.dsl.io.filesystem.Filesystem`)."""
    if is_remote(path):
        from tfx.dsl.io import filesystem_registry
        from tfx.dsl.io.plugins import tensorflow_gfile  # noqa: F401  (registers itself)

        return filesystem_registry.DEFAULT_FILESYSTEM_REGISTRY.get_filesystem_for_path(path)
    from tfx.dsl.io.plugins.local import LocalFilesystem

    return LocalFilesystem


def exists(path: str) -> bool:
    """Returns whether there is a file or folder."""
    return bool(file_system(path).exists(path))


def isdir(path: str) -> bool:
    """Returns whether there is a folder."""
    return bool(file_system(path).isdir(path))


def listdir(path: str) -> list[str]:
    """Returns the names in a folder, sorted, without the slash that object stores append."""
    return sorted(name.rstrip("/") for name in file_system(path).listdir(path))


def glob(pattern: str) -> list[str]:
    """Returns the paths that match a glob pattern, sorted."""
    return sorted(file_system(pattern).glob(pattern))


def read_bytes(path: str) -> bytes:
    """Returns a file's content."""
    with file_system(path).open(path, mode="rb") as file:
        data: bytes = file.read()
        return data


def read_text(path: str) -> str:
    """Returns a UTF-8 file's text."""
    return read_bytes(path).decode("utf-8")


def write_text(path: str, text: str) -> None:
    """Writes a file so that a reader sees all of the text or none of it (on local disks)."""
    with whole_file(path) as part, file_system(path).open(part, mode="wb") as file:
        file.write(text.encode("utf-8"))


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[str]:
    """Gives the path of a part file to write, which becomes `path` when the block ends well.

    Ends it otherwise, with an error or Ctrl-C, the part file is removed and what was at `path` is still there.

        with whole_file("predictions.csv") as part:
            write(part)
    """
    makedirs(parent(path))
    part = f"{path}.part-{os.getpid()}"
    try:
        yield part
        file_system(path).rename(part, path, overwrite=True)
    except BaseException:
        if exists(part):
            file_system(part).remove(part)
        raise


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
    for base, _, names in sorted(file_system(folder).walk(folder)):
        for name in sorted(names):
            yield os.path.relpath(os.path.join(base, name), folder)


def copytree(source: str, target: str) -> None:
    """Copies a folder, with `saved_model.pb`, the file that readers look for, last."""
    last = "saved_model.pb"
    if not is_remote(source) and not is_remote(target):
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(last))
        for name in files_below(source):
            if os.path.basename(name) == last:
                shutil.copy2(os.path.join(source, name), os.path.join(target, name))
        return
    for name in sorted(files_below(source), key=lambda name: (os.path.basename(name) == last, name)):
        destination = posixpath.join(target, name)
        makedirs(parent(destination))
        file_system(target).copy(posixpath.join(source, name), destination, overwrite=True)


def move(source: str, target: str) -> None:
    """Moves a folder so that nothing at `target` looks complete before it is.

    On a local disk that is one rename. On an object store a rename is a copy of file after file; a mounted one renames
    no folders, nor does a disk to another one.
    """
    makedirs(parent(target))
    if not is_remote(target):
        try:
            os.rename(source, target)
        except OSError as error:
            if error.errno not in _NO_RENAME:
                raise
        else:
            return
    copytree(source, target)
    rmtree(source)


def size_of(path: str) -> int:
    """Returns a file's size in bytes."""
    status = file_system(path).stat(path)
    return int(status.st_size if hasattr(status, "st_size") else status.length)
