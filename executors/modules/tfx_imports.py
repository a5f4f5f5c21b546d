"""Provides on demand the modules that TFX's own Trainer has already imported when it loads a module.

Modules rely on these imports implicitly: `keras.utils.plot_model` prints a missing graphviz as a message if IPython is
imported and raises an error otherwise, and `import tfx; tfx.v1` works only after something has imported `tfx.v1`.
Importing all of it eagerly would take more than ten seconds.

Usage:

    with tfx_imports_available():
        module.run_fn(fn_args)
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator

# Keras 2 and 3 check `sys.modules` for this name.
_NOTEBOOK = "IPython.core.magics.namespace"
# Packages with submodules that a TFX process has imported, but a process with only TensorFlow has not.
_PACKAGES = ("concurrent.futures", "email", "http", "logging", "multiprocessing", "pyarrow", "tfx", "xml")


class _LazyModule(types.ModuleType):
    """A lazy entry of `sys.modules` that is replaced by the real module when one of its attributes is read.

    Dunder attributes such as `__file__` do not trigger the import, because `inspect` reads them of every module.
    """

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@contextlib.contextmanager
def tfx_imports_available() -> Iterator[None]:
    """Makes the modules that TFX would have imported available in the block; missing packages stay missing."""
    with contextlib.suppress(ImportError):  # required to import tensorflow_data_validation 1.16 and later
        importlib.import_module("tfx")
    with contextlib.ExitStack() as stack:
        for name in _PACKAGES:
            if name in sys.modules:
                stack.enter_context(_submodules_on_use(sys.modules[name]))
        if _NOTEBOOK not in sys.modules and importlib.util.find_spec("IPython") is not None:
            stack.enter_context(_installed(_LazyModule(_NOTEBOOK)))
        yield


@contextlib.contextmanager
def _installed(module: types.ModuleType) -> Iterator[None]:
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        if sys.modules.get(module.__name__) is module:
            del sys.modules[module.__name__]


@contextlib.contextmanager
def _submodules_on_use(package: types.ModuleType) -> Iterator[None]:
    """Imports submodules of a package on attribute access, for the duration of the block."""
    content = vars(package)
    if "__getattr__" in content:
        yield
        return
    content["__getattr__"] = _importer(package.__name__)
    try:
        yield
    finally:
        content.pop("__getattr__", None)


def _importer(package: str) -> Callable[[str], types.ModuleType]:
    def submodule(name: str) -> types.ModuleType:
        if not name.startswith("_") and importlib.util.find_spec(f"{package}.{name}") is not None:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return submodule
