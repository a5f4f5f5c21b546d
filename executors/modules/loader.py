"""Imports a training module and its helper modules from the user's folders, and unloads them afterwards.

While the module is in use, its folder (and the folder above its package) is in front of `sys.path`: sibling modules and
sub-packages can be imported at the top of the file and inside functions. Relative imports also work in a file outside
of any package. Afterwards `sys.path` and `sys.modules` are restored, so that two runs in one process, each with its own
`helpers.py`, do not share modules.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import PathEntryFinder
from types import ModuleType

from ..errors import ModuleError
from .installed_first import installed_packages_first, installed_spec
from .keras_imports import legacy_keras_imports
from .late_variables import late_variables
from .source import ModuleSource, is_below, own_folders
from .tfx_imports import tfx_imports_available

OWN_PACKAGE = __name__.partition(".")[0]


@contextlib.contextmanager
def loaded(
    source: ModuleSource, executed: bool = True, installed_first: bool = False, watches_variables: bool = False
) -> Iterator[ModuleType]:
    """Imports the module and keeps it importable for the duration of the block.

    Args:
      source: The module's files.
      executed: Whether to execute the module; otherwise it is empty except for `__file__`.
      installed_first: Whether an installed package takes precedence over folders, and the module, of the same name.
      watches_variables: Whether environment variables that the module sets must have had their values before.

    Raises:
      LateVariables: When they had not. A module that is not executed here is watched in the block.
      ModuleError: When another package with the name of the module's package is already imported.
      Exception: Any exception that the module itself raises, with its original type and traceback.
    """
    with (
        tfx_imports_available(),
        legacy_keras_imports(source.files),
        # A script in a package is run as by `python -m`, whose path has the folder above the package only.
        _importable(source, source.roots if executed or "." not in source.name else source.roots[1:]),
        installed_packages_first(source) if installed_first else contextlib.nullcontext(),
    ):
        with late_variables(source.files) if watches_variables else contextlib.nullcontext() as watch:
            if not executed:
                empty = ModuleType(source.name)
                empty.__file__ = source.path
                yield empty
                return
            module = _import(source, installed_first)
            if watch is not None:
                watch.require_none()
        yield module


@contextlib.contextmanager
def _importable(source: ModuleSource, roots: Sequence[str]) -> Iterator[None]:
    own = own_folders(source.roots)
    hidden = {name: sys.modules.pop(name) for name in _shadowing_names(source) if name in sys.modules}
    before = set(sys.modules)
    hook = _hook_for(own)
    sys.path[:0] = roots
    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()  # the finders of other folders are made again when they are needed
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for root in roots:
            with contextlib.suppress(ValueError):  # the module may have removed it from sys.path itself
                sys.path.remove(root)
        sys.path_hooks.remove(hook)
        sys.path_importer_cache.clear()
        # Collect all before deleting any: a namespace package computes its path from its parent package.
        for name in _user_modules(own, set(sys.modules) - before):
            del sys.modules[name]
        sys.modules.update(hidden)


class _FromSource(importlib.machinery.SourceFileLoader):
    """Loads the user's files without byte code caching.

    Python reuses cached byte code if a file's size and modification time in seconds are unchanged, so it would miss an
    edit right after a short run, although the fingerprint changes.
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
        if not is_below(os.path.join(folder, "a_file"), own):
            raise ImportError(f"{folder} is not the user's", path=folder)
        return finder(folder)

    return hook


def _user_modules(folders: list[str], names: set[str]) -> list[str]:
    """Returns the imported modules that are user modules.

    The modules of a package with an `__init__.py` are judged by the location of that file.
    """
    lies_below = functools.cache(lambda name: name in sys.modules and _is_user_module(name, folders))

    def place_of(name: str) -> str:
        package = name.partition(".")[0]
        return package if getattr(sys.modules.get(package), "__file__", None) else name

    return [name for name in names if lies_below(place_of(name))]


def _is_user_module(name: str, folders: list[str]) -> bool:
    """Whether an imported module is a user module."""
    file = getattr(sys.modules[name], "__file__", None)
    packages = [] if file else list(getattr(sys.modules[name], "__path__", []))
    places = [file, *(os.path.join(f"{package}", "__init__.py") for package in packages)]
    return name.partition(".")[0] != OWN_PACKAGE and any(place and is_below(place, folders) for place in places)


def _shadowing_names(source: ModuleSource) -> list[str]:
    """Returns the names in sys.modules that would hide user modules of the same name."""
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
    return [name for name in list(sys.modules) if name.partition(".")[0] in tops]


def _import(source: ModuleSource, installed_first: bool) -> ModuleType:
    if "." in source.name or os.path.basename(source.path) == "__init__.py":
        module = importlib.import_module(source.name)
        if os.path.realpath(module.__file__ or "") != source.path:
            raise ModuleError(
                f"{source.reference}: the name {source.name!r} is already used by {module.__file__}. Rename the folder "
                f"of {source.path}."
            )
        return module
    name = source.name
    taken = name in sys.stdlib_module_names or (installed_first and installed_spec(name) is not None)
    if source.relative_imports or taken:
        # Relative imports need a parent package, which a folder without __init__.py lacks; and a module named like one
        # of the standard library, such as `code.py`, or like an installed one, must not replace that.
        package = ModuleType(f"user_code_{source.fingerprint[:12]}")
        package.__path__ = [source.roots[0]]
        sys.modules[package.__name__] = package
        name = f"{package.__name__}.{source.name}"
    spec = importlib.util.spec_from_file_location(name, source.path, loader=_FromSource(name, source.path))
    assert spec  # always found for a .py file with a loader
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if not taken:
        sys.modules.setdefault(source.name, module)  # for siblings with circular imports
    spec.loader.exec_module(module)
    return module
