"""Finds the project folder from which an absolute import resolves, independent of the working directory.

    project_folder("pipeline.models.features", "/code/pipeline/models/model.py", search)    # "/code"

TFX users start a pipeline from the project's root, which is then on Python's `sys.path`. Here a module may be run from
another folder, so the folders above the importing file are searched as well, up to the project's root.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
from collections.abc import Iterator, Sequence

# Files that mark the root of a project.
MARKERS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile")


def project_folder(target: str, file: str, search: Sequence[str]) -> str | None:
    """Returns the folder above a file in which an absolute import is found.

    Args:
      target: The imported name, `pipeline.models.features`.
      file: The importing file.
      search: Folders that Python searches.

    Returns:
      The folder of `search` in which Python finds the import first, if it is above the file. If Python doesn't find the
      import, the nearest folder above the file that has it: either the parent folder of a package that contains the
      file, or a folder inside the project, whose root is marked by a file such as `setup.py` or `.git`. None for other
      imports.
    """
    top = target.partition(".")[0]
    if not top:
        return None
    if (spec := importlib.machinery.PathFinder.find_spec(top, list(search))) is not None:
        places = spec.submodule_search_locations
        folders = [os.path.dirname(place) for place in (places if places is not None else [spec.origin or ""])]
        return next((folder for folder in folders if _contains(folder, file)), None)
    if _is_importable(top):
        return None
    parts = target.split(".")
    inside = True
    for folder in _above(file):
        is_around = os.path.basename(folder) == top  # the package itself contains the file
        if is_around and _has_module(parts, os.path.dirname(folder)):
            return os.path.dirname(folder)
        if inside and _has_module(parts, folder) and _has_marker_above(folder):
            return folder
        inside = inside and not _is_marked(folder)
    return None


def _is_importable(top: str) -> bool:
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):  # a module that removed itself from sys.modules, or has no spec
        return True


def _contains(folder: str, file: str) -> bool:
    return file.startswith(folder.rstrip(os.sep) + os.sep)


def _above(file: str) -> Iterator[str]:
    """Yields the folders above a file, the nearest first, excluding the file system's root."""
    folder = os.path.dirname(file)
    while os.path.dirname(folder) != folder:
        yield folder
        folder = os.path.dirname(folder)


def _has_marker_above(folder: str) -> bool:
    return _is_marked(folder) or any(_is_marked(parent) for parent in _above(folder))


def _is_marked(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, marker)) for marker in MARKERS)


def _has_module(parts: Sequence[str], folder: str) -> bool:
    """Whether a folder has a module of this name, or a package that may have the last part as an attribute."""
    for length in (len(parts), len(parts) - 1):
        path = os.path.join(folder, *parts[:length])
        if length and (os.path.isfile(f"{path}.py") or os.path.isfile(os.path.join(path, "__init__.py"))):
            return True
    return False
