"""Puts off what `import tensorflow` imports of other packages in case that somebody needs it.

Keras looks for scikit-learn, pandas, IPython, Pillow and others and goes on without them; TensorFlow asks Google's
clients about clusters. Together they take as long as TensorFlow itself, and few modules touch any of them.

Usage:

    with deferred():
        import tensorflow
    import pandas     # as ever

Inside of the block an `import` of such a package gives a stand-in, which imports it when one of its attributes is
wanted. Outside of it nothing is put off: what the block left untouched is no longer in `sys.modules`.
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

# What TensorFlow 2.15 to 2.21, Keras 2 and Keras 3 bind by name while they are imported and use in functions only.
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


class _StandIn(types.ModuleType):
    """A module that is imported when it is first asked for something."""

    def __getattr__(self, name: str) -> object:
        if "__ready__" not in vars(self):  # the import system looks for __path__ and others, which it then sets
            raise AttributeError(name)
        return getattr(_real(self), name)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("__"):  # the import system's own
            super().__setattr__(name, value)
        else:
            setattr(_real(self), name, value)

    def __dir__(self) -> list[str]:
        return dir(_real(self))


def _real(stand_in: types.ModuleType) -> types.ModuleType:
    if sys.modules.get(stand_in.__name__) is stand_in:
        sys.modules.pop(stand_in.__name__, None)
    with _not_deferring():
        return importlib.import_module(stand_in.__name__)


class _Finder:
    """Finds the packages to put off, if they are installed."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = frozenset(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns a spec whose module is a stand-in; None for what is not to be put off, or is not there."""
        if name not in self.names or importlib.machinery.PathFinder.find_spec(name, path, target) is None:
            return None
        return importlib.machinery.ModuleSpec(name, _Loader())


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module)["__ready__"] = True


@contextlib.contextmanager
def deferred(names: Sequence[str] = NAMES) -> Iterator[None]:
    """Puts off imports of these modules until they are touched, if they are not imported yet.

    It is for the time in which a process has one thread.
    """
    finder = _Finder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in names:
            if isinstance(sys.modules.get(name), _StandIn):
                del sys.modules[name]


@contextlib.contextmanager
def _not_deferring() -> Iterator[None]:
    """Lets a package that is wanted after all import the others in earnest."""
    held = [finder for finder in sys.meta_path if isinstance(finder, _Finder)]
    for finder in held:
        sys.meta_path.remove(finder)
    try:
        yield
    finally:
        sys.meta_path[:0] = held
