"""Finds files near a training module that may belong to the same pipeline, such as the one with `preprocessing_fn`.

with_function(find_source("models/model.py", scratch), "preprocessing_fn")    # ["/code/models/preprocessing.py"]
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator

from ..runtime.files import file_io
from .archive import archive_in
from .defined_names import owns
from .project_root import MARKERS
from .source import ModuleSource, is_installed

_TRAINS = ("run_fn", "trainer_fn")  # a file that defines one of these is another training module


def with_function(source: ModuleSource, name: str) -> list[str]:
    """Returns the files that define a function, from the first of the following places that has any.

    The places are: the user files that the module imports; its folder; the folder above; the folders beside it, within
    the same project. See `files_beside` for the files that are skipped.
    """
    if found := [file for file in source.files if file != source.path and owns(file, name)]:
        return found
    for files in files_beside(source):
        if found := [file for file in files if owns(file, name)]:
            return found
    return []


def files_beside(source: ModuleSource) -> Iterator[list[str]]:
    """Yields the Python files of the module's folder, of the folder above, and of its sibling folders.

    Tests are skipped, and so are files that define a training function and sibling folders with such a file.
    """
    folder = os.path.dirname(source.path)
    above = os.path.dirname(folder)
    yield [file for file in _python_files(folder) if file != source.path and not _trains(file)]
    if _is_in_project(folder, source):
        yield [file for file in _python_files(above) if not _trains(file)]
        beside = [os.path.join(above, name) for name in sorted(os.listdir(above)) if not name.startswith(".")]
        folders = [one for one in beside if os.path.isdir(one) and one != folder]
        found = [_python_files(one) for one in folders]
        yield [file for files in found if not any(map(_trains, files)) for file in files]


def reference_to(file: str, source: ModuleSource) -> str:
    """Returns a reference to a file near a module, in the form of the module's reference, valid on other machines."""
    dotted = os.path.relpath(file, source.roots[-1]).removesuffix(".py").replace(os.sep, ".")
    if archive_in(source.reference):
        return f"{dotted}@{source.reference.partition('@')[2]}"
    if not source.reference.endswith(".py"):
        return file if dotted.startswith(".") else dotted
    beside = os.path.relpath(file, os.path.dirname(source.path)).replace(os.sep, "/")
    if file_io.is_remote(source.reference):
        return posixpath.join(posixpath.dirname(source.reference), beside)
    path = os.path.normpath(os.path.join(os.path.dirname(source.reference), beside))
    return path if os.path.realpath(path) == file else file  # the module's path may be a symbolic link


def _is_in_project(folder: str, source: ModuleSource) -> bool:
    """Whether the folder above belongs to the same project, by import roots, packages or marker files."""
    if is_installed(folder):
        return False
    here = os.path.realpath(os.getcwd())
    project = [root for root in (*source.roots[1:], here) if folder.startswith(root.rstrip(os.sep) + os.sep)]
    package = os.path.exists(os.path.join(folder, "__init__.py"))
    above = os.path.dirname(folder)
    return bool(project) or package or any(os.path.exists(os.path.join(above, marker)) for marker in MARKERS)


def _python_files(folder: str) -> list[str]:
    """Returns the readable Python files of a folder, without tests; [] for an unreadable folder."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    paths = [os.path.join(folder, name) for name in names if name.endswith(".py") and not _is_test(name)]
    return [path for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)]


def _is_test(name: str) -> bool:
    return name.startswith("test_") or name.endswith("_test.py") or name in ("conftest.py", "setup.py")


def _trains(file: str) -> bool:
    return any(owns(file, name) for name in _TRAINS)
