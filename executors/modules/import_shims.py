"""Provides replacement modules for packages that are not installed, under the dotted names that model files import.

A published module contains the public names of one or more modules of this project. Its parent packages are created as
needed. An installed package is never replaced, but the source tree of such a package is, for example a clone of its
repository in the working directory: it has not been built, and was not asked for.

Usage:

    publish_shims([("framework.common.constants", "constants")], beside=my_dialect.shim.names.__name__)
    from framework.common.constants import Mode
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Collection
from importlib.machinery import ModuleSpec
from types import ModuleType

from ..runtime.logs.exceptions import chain
from .source import is_installed


def publish_shims(table: Collection[tuple[str, str]], beside: str) -> None:
    """Publishes replacement modules in this process, except for packages that are installed or already published.

    Args:
      table: Pairs of published dotted name and replacement module, in any order. A name that occurs several times gets
        the names of all its replacement modules; a name with others below it is a package.
      beside: Dotted name of a module in the same package as the replacement modules.
    """
    package = beside.rpartition(".")[0]
    names = {name for name, _ in table}
    missing = {top for top in {name.partition(".")[0] for name in names} if not _is_available(top, names)}
    for name, replacement in table:
        if name.partition(".")[0] in missing:
            vars(_published(name)).update(_public(importlib.import_module(f"{package}.{replacement}")))


def hint(error: BaseException) -> str:
    """Returns that an import failed because only a part of its package is provided; "" for other exceptions."""
    for cause in chain(error):
        package = str(getattr(cause, "name", None) or "").partition(".")[0]
        spec = getattr(sys.modules.get(package), "__spec__", None)
        if isinstance(cause, ImportError) and spec is not None and spec.origin == __name__:
            return (
                f"{package} is not installed. Generic Trainer provides what training code takes from it, and this "
                "import is not part of that: the package's own processes, such as master and agents, do not run here."
            )
    return ""


def _is_available(package: str, names: Collection[str]) -> bool:
    """Whether a package is installed, already published, or the user's own.

    A folder without `__init__.py` does not count, nor does a source tree of one of the packages to publish, unless it
    is in PYTHONPATH.
    """
    if package in sys.modules:
        return True
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return False
    folder = os.path.dirname(os.path.dirname(spec.origin))
    chosen = is_installed(folder) or folder in os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return chosen or not any(_has_module(spec, name) for name in names)


def _has_module(spec: ModuleSpec, name: str) -> bool:
    package, _, inner = name.partition(".")
    paths = [os.path.join(folder, *inner.split(".")) for folder in spec.submodule_search_locations or () if inner]
    return package == spec.name and any(os.path.exists(path) or os.path.exists(f"{path}.py") for path in paths)


def _public(module: ModuleType) -> dict[str, object]:
    """Returns a module's public names; by `__all__` if it has one, as some are created lazily."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return {name: getattr(module, name) for name in names}


def _published(name: str) -> ModuleType:
    """Returns the published module of that name; creates it and its parent packages if missing."""
    if name not in sys.modules:
        module = ModuleType(name, f"{name} as Generic Trainer provides it.")
        module.__spec__ = ModuleSpec(name, None, origin=__name__, is_package=True)
        module.__path__ = []
        sys.modules[name] = module
        package, _, last = name.rpartition(".")
        if package:
            setattr(_published(package), last, module)
    return sys.modules[name]
