"""Defers the optional third-party imports of `import tensorflow` until they are used.

Keras tries to import scikit-learn, pandas, IPython, Pillow and others and works without them; TensorFlow imports Google
API clients for cluster resolvers. Together they take as long to import as TensorFlow itself, and few modules use any of
them.

Usage:

    with deferred():
        import tensorflow
    import pandas     # a normal import

In the block, `import` of such a package returns a lazy module, which imports the package on the first attribute access.
Outside of the block nothing is deferred: lazy modules that have not been used are removed from `sys.modules`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence

from ..compat.keras import DEFERRABLE

# Modules that TensorFlow 2.15 to 2.21, Keras 2 and Keras 3 import at module level but only use inside functions.
NAMES = (
    "IPython",
    "googleapiclient.discovery",
    "h5py",
    "jax",
    *DEFERRABLE,
    "pandas",
    "requests",
    "rich.console",
    "rich.markup",
    "rich.table",
)


class _LazyModule(types.ModuleType):
    """A lazy module, imported on the first access of an attribute."""

    def __getattr__(self, name: str) -> object:
        if "__ready__" not in vars(self):  # the import system checks for __path__ and others before it sets them
            raise AttributeError(name)
        return getattr(_import_real(self), name)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("__"):  # set by the import system
            super().__setattr__(name, value)
        else:
            setattr(_import_real(self), name, value)

    def __dir__(self) -> list[str]:
        return dir(_import_real(self))


def _import_real(stand_in: types.ModuleType) -> types.ModuleType:
    if sys.modules.get(stand_in.__name__) is stand_in:
        sys.modules.pop(stand_in.__name__, None)
    with _not_deferring():
        return importlib.import_module(stand_in.__name__)


class _Finder:
    """A meta path finder for the deferred packages that are installed."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = frozenset(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of a lazy module; None if `name` is not deferred or not installed."""
        if name not in self.names or importlib.machinery.PathFinder.find_spec(name, path, target) is None:
            return None
        return importlib.machinery.ModuleSpec(name, _Loader())


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _LazyModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module)["__ready__"] = True


@contextlib.contextmanager
def deferred(names: Sequence[str] = NAMES) -> Iterator[None]:
    """Defers the import of these modules during the block, unless they are imported already.

    `sys.meta_path` is changed for all threads, so use it only while the process has one thread.
    """
    finder = _Finder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in names:
            if isinstance(sys.modules.get(name), _LazyModule):
                del sys.modules[name]


@contextlib.contextmanager
def _not_deferring() -> Iterator[None]:
    """Disables deferral in the block, so that a lazy module's own imports are normal ones."""
    held = [finder for finder in sys.meta_path if isinstance(finder, _Finder)]
    for finder in held:
        sys.meta_path.remove(finder)
    try:
        yield
    finally:
        sys.meta_path[:0] = held
