"""Gives installed packages precedence over folders around a module that have the same name.

Python prefers the folder. But in a model zoo, folders are named after libraries and data sets: in `zoo/deepctr/wdl.py`,
`from deepctr.models import WDL` means the library.

Usage:

    with installed_packages_first(source):
        import deepctr      # from site-packages, also if zoo/ is in front of `sys.path`
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from .source import ModuleSource, is_installed


@contextlib.contextmanager
def installed_packages_first(source: ModuleSource) -> Iterator[None]:
    """Applies the precedence to all imports in the block.

    Args:
      source: The module. Its own package keeps its name; folders that are not beside or above it are left alone.
    """
    finder = _InstalledFirst(source)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def installed_spec(name: str) -> ModuleSpec | None:
    """Returns the spec of a top-level module in site-packages or dist-packages, or None."""
    return PathFinder.find_spec(name, [entry for entry in sys.path if is_installed(entry)])


class _InstalledFirst(MetaPathFinder):
    def __init__(self, source: ModuleSource) -> None:
        self._path = source.path
        self._package = source.name.rpartition(".")[0].partition(".")[0]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or fullname == self._package:
            return None
        found = PathFinder.find_spec(fullname)
        return installed_spec(fullname) if found is not None and self._hides(found) else None

    def _hides(self, found: ModuleSpec) -> bool:
        """Whether a spec is that of the module itself, or of a folder beside or above it."""
        if found.submodule_search_locations is None:
            return os.path.realpath(found.origin or "") == self._path
        beside = {os.path.dirname(os.path.realpath(folder)) for folder in found.submodule_search_locations}
        return any(self._path.startswith(folder.rstrip(os.sep) + os.sep) for folder in beside)
