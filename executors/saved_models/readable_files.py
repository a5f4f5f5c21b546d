"""Files that a model can be served with: regular files that can be read.

A FIFO in a model's place blocks each reader, and a file of mode 0 can be read by nobody but root, who trained here
but does not serve. So the mode bits of the owner decide, also if this process is root's. No file is opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from ..runtime.files import file_io
from ..runtime.files.file_kinds import special_kind

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
