"""Files that a model can be served with: regular files that can be read, and no symbolic links.

A link may point to a checkpoint that is deleted after the run, to a disk that is not mounted in production, or to an
absolute path in the staging directory, which does not exist after publishing. A FIFO in a model's place blocks each
reader, and a file of mode 0 can be read by nobody but root, who trained here but does not serve. So the mode bits of
the owner decide, also if this process is root's. No file is opened.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator

from absl import logging

from ..errors import ModelCheckError, StorageError
from ..runtime.files import file_io
from ..runtime.files.file_kinds import special_kind
from ..runtime.files.retry import retry_call

_FILE, _FOLDER = stat.S_IRUSR, stat.S_IRUSR | stat.S_IXUSR


def reading_problem(path: str) -> str:
    """Returns why a local file or folder cannot be read, with the remedy; "" if it can be."""
    if kind := special_kind(path):
        return f"is {kind}, but a model consists of regular files. Replace it by one, or remove it"
    mode = stat.S_IMODE(os.stat(path).st_mode)
    needed, access = (_FOLDER, os.R_OK | os.X_OK) if os.path.isdir(path) else (_FILE, os.R_OK)
    if mode & needed != needed or not os.access(path, access):
        return f"cannot be read: its mode is {mode:04o}. Give its owner read permission, as by chmod u=rwX,go=rX"
    return ""


def first_problem(folder: str) -> str:
    """Returns the first path below a folder that cannot be read, and why; "" for remote folders, and if all can be."""
    if file_io.is_remote(folder):
        return ""
    problems = (f"{os.path.relpath(path, folder)} {why}" for path in _below(folder) if (why := reading_problem(path)))
    return next(problems, "")


def _below(folder: str) -> Iterator[str]:
    for base, folders, files in os.walk(folder):
        for name in sorted([*folders, *files]):
            if os.path.exists(path := os.path.join(base, name)):
                yield path


def replace_links(folder: str) -> None:
    """Replaces every symbolic link below a folder with a copy of its target, which keeps the target's modes.

    Args:
      folder: A local folder; a no-op for remote ones, which have no links.

    Raises:
      ModelCheckError: If a link is dangling, points to a folder that contains it, or to something other than a file or
        folder; if a file is a FIFO, a socket or a device, or cannot be read.
      StorageError: If a file cannot be copied.
    """
    if not file_io.is_remote(folder) and os.path.isdir(folder):
        _replace_below(folder, lambda path: os.path.relpath(path, folder))


def _replace_below(folder: str, shown: Callable[[str], str]) -> None:
    for name in file_io.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.islink(path):
            _replace(path, shown(path))
        if problem := reading_problem(path):
            raise ModelCheckError(f"{shown(path)} {problem}.")
        if os.path.isdir(path):
            _replace_below(path, shown)


def _replace(link: str, shown: str) -> None:
    target = os.readlink(link)
    part = f"{link}.part-{secrets.token_hex(4)}"
    try:
        _copy(link, part, (os.path.realpath(os.path.dirname(link)),))
    except _NotReplaceable as error:
        raise ModelCheckError(
            f"{shown} is a symbolic link to {target}, which cannot be published: {error}. Save the files themselves to "
            "fn_args.serving_model_dir."
        ) from error.__cause__
    os.remove(link)
    os.rename(part, link)
    logging.info("%s is a symbolic link to %s; a copy of its target is published.", shown, target)


class _NotReplaceable(Exception):
    """A link cannot be replaced; the message gives the reason."""


def _copy(source: str, target: str, within: tuple[str, ...]) -> None:
    """Copies a file or folder, following links.

    Args:
      source: The file or folder.
      target: A path that does not exist yet.
      within: Real paths of the folders that are being copied, and of the link's folder; for the detection of cycles.
    """
    real = os.path.realpath(source)
    try:
        mode = retry_call(lambda: os.stat(source), "Looking for", source).st_mode
        names = file_io.listdir(source) if stat.S_ISDIR(mode) else []
    except StorageError:
        raise
    except OSError as error:
        raise _NotReplaceable(f"{real}: {error.strerror}") from error
    if stat.S_ISREG(mode) and (problem := reading_problem(real)):
        raise _NotReplaceable(f"{real} {problem}")
    if stat.S_ISDIR(mode):
        if any(os.path.commonpath([folder, real]) == real for folder in within):
            raise _NotReplaceable(f"{real} contains the link itself")
        os.mkdir(target)
        for name in names:
            _copy(os.path.join(source, name), os.path.join(target, name), (*within, real))
        shutil.copymode(real, target)
    elif stat.S_ISREG(mode):
        try:
            retry_call(lambda: shutil.copy(real, target), "Copying", real)
        except FileNotFoundError as error:
            raise _NotReplaceable(f"{real}: {error.strerror}") from error
    else:
        raise _NotReplaceable(f"{real} is neither a file nor a folder")
