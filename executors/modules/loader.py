"""Loads a training module so that everything it imports of its own resolves, and takes it away again.

While the module is in use, its folder (and the folder above its package) is in front of `sys.path`: its
siblings and sub-packages import at the top of the file and inside functions. Relative imports work too,
in a file that lies in no package as well. Afterwards `sys.path` and `sys.modules` are as before, so two
runs in one process, each with a `helpers.py` of its own, do not see each other.

Usage:

    with loaded(find_source("trainers/taxi.py", scratch)) as module:
        module.run_fn(fn_args)
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.abc import PathEntryFinder
from types import ModuleType

from ..errors import ModuleError
from .keras_imports import keras_paths
from .keras_version import only_keras_2
from .source import ModuleSource, is_below, own_folders
from .tfx_imports import as_in_tfx

OWN_PACKAGE = __name__.partition(".")[0]


@contextlib.contextmanager
def loaded(source: ModuleSource) -> Iterator[ModuleType]:
    """Imports the module and keeps it importable until the block is left.

    Raises:
      ModuleError: When the module's package name is taken by a package from elsewhere.
      Exception: Whatever the module itself raises, with its own type and traceback.
    """
    with as_in_tfx(), keras_paths(source.files, lambda: only_keras_2(source.files)), _only_while_in_use(source):
        yield _import(source)


@contextlib.contextmanager
def _only_while_in_use(source: ModuleSource) -> Iterator[None]:
    own = own_folders(source.roots)
    hidden = {name: sys.modules.pop(name) for name in _names_taken(source) if name in sys.modules}
    before = set(sys.modules)
    hook = _hook_for(own)
    sys.path[:0] = source.roots
    sys.path_hooks.insert(0, hook)
    _forget_finders(own)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for root in source.roots:
            with contextlib.suppress(ValueError):  # the module may have tidied up sys.path itself
                sys.path.remove(root)
        sys.path_hooks.remove(hook)
        _forget_finders(own)
        # All are looked at before any goes: the path of a package without __init__.py is asked of the one around it.
        for name in _those_below(own, set(sys.modules) - before):
            del sys.modules[name]
        sys.modules.update(hidden)


class _FromSource(importlib.machinery.SourceFileLoader):
    """Reads the user's files as they are now.

    Python takes the byte code that it keeps for a file if the file's size and its second of change are the same:
    an edit right after a short run would go unseen, while the fingerprint tells of it.
    """

    def path_stats(self, path: str) -> Mapping[str, float]:
        raise OSError(f"{path}: byte code is neither read nor written")


_LOADERS: list[tuple[type, list[str]]] = [
    (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
    (_FromSource, importlib.machinery.SOURCE_SUFFIXES),
    (importlib.machinery.SourcelessFileLoader, importlib.machinery.BYTECODE_SUFFIXES),
]


def _hook_for(own: list[str]) -> Callable[[str], PathEntryFinder]:
    finder = importlib.machinery.FileFinder.path_hook(*_LOADERS)

    def hook(folder: str) -> PathEntryFinder:
        if not _is_own(folder, own):
            raise ImportError(f"{folder} is not the user's", path=folder)
        return finder(folder)

    return hook


def _is_own(folder: str, own: list[str]) -> bool:
    return is_below(os.path.join(folder, "a_file"), own)


def _forget_finders(own: list[str]) -> None:
    for folder in [folder for folder in sys.path_importer_cache if _is_own(folder, own)]:
        del sys.path_importer_cache[folder]


def _those_below(folders: list[str], names: set[str]) -> list[str]:
    """Returns the imported modules that are the user's; all modules of a package lie where its `__init__.py` does."""
    lies_below = functools.cache(lambda name: name in sys.modules and _lies_below(name, folders))

    def place_of(name: str) -> str:
        package = name.partition(".")[0]
        return package if getattr(sys.modules.get(package), "__file__", None) else name

    return [name for name in names if lies_below(place_of(name))]


def _lies_below(name: str, folders: list[str]) -> bool:
    """Returns whether an imported module is the user's."""
    file = getattr(sys.modules[name], "__file__", None)
    packages = [] if file else list(getattr(sys.modules[name], "__path__", []))
    places = [file, *(os.path.join(f"{package}", "__init__.py") for package in packages)]
    return name.partition(".")[0] != OWN_PACKAGE and any(place and is_below(place, folders) for place in places)


def _names_taken(source: ModuleSource) -> list[str]:
    """Returns names in sys.modules that would hide files of the user's with the same name."""
    wanted = {}
    for file in source.files:
        for root in source.roots:
            name = os.path.relpath(file, root).removesuffix(".py").removesuffix(f"{os.sep}__init__")
            wanted[name.replace(os.sep, ".")] = file
    tops = set()
    for name, file in wanted.items():
        present = getattr(sys.modules.get(name), "__file__", None)
        if present and os.path.realpath(present) != file:
            tops.add(name.partition(".")[0])
    tops -= {OWN_PACKAGE, *sys.stdlib_module_names}
    return [name for name in sys.modules if name.partition(".")[0] in tops]


def _import(source: ModuleSource) -> ModuleType:
    if "." in source.name or os.path.basename(source.path) == "__init__.py":
        module = importlib.import_module(source.name)
        if os.path.realpath(module.__file__ or "") != source.path:
            raise ModuleError(
                f"{source.reference}: the name {source.name!r} belongs to {module.__file__}, "
                f"which is in use already. Rename the folder of {source.path}."
            )
        return module
    name = source.name
    if source.relative_imports or name in sys.stdlib_module_names:
        # A file in a folder without __init__.py has no package to be relative to, so it gets one; and a
        # module called `code.py` must not stand in for the standard library's.
        package = ModuleType(f"user_code_{source.fingerprint[:12]}")
        package.__path__ = [source.roots[0]]
        sys.modules[package.__name__] = package
        name = f"{package.__name__}.{source.name}"
    spec = importlib.util.spec_from_file_location(name, source.path, loader=_FromSource(name, source.path))
    assert spec  # it is a .py file, so there is a loader too
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if source.name not in sys.stdlib_module_names:
        sys.modules.setdefault(source.name, module)  # for a sibling that imports the module back
    spec.loader.exec_module(module)
    return module
