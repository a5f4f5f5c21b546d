"""Makes `import keras` work in modules written when `keras` and `tf.keras` were the same package.

Two things have changed since. Keras 2.13 removed paths such as `keras.utils.vis_utils` and `keras.layers.core`,
although their objects are still public elsewhere. And since TensorFlow 2.16, `keras` is Keras 3 even if `tf.keras` is
Keras 2, and layers of one fail in models of the other. While a module is in use, both work as before.

    with legacy_keras_imports(source.files):
        from keras.utils.vis_utils import plot_model  # tf.keras.utils.plot_model
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType

from ..compat.keras_source import KERAS, is_missing
from .keras_version import only_keras_2, selects_keras_2
from .source import imports_in, parsed

KERAS_2 = "tf_keras"


@contextlib.contextmanager
def legacy_keras_imports(files: Sequence[str]) -> Iterator[None]:
    """Makes the Keras imports of source files work in the block; `sys.modules` is restored afterwards.

    Where `tf.keras` is Keras 2 in this process, `keras` is Keras 2 as well if the files use both names, or only work
    with Keras 2.
    """
    with contextlib.ExitStack() as stack:
        if selects_keras_2(os.environ) and (_uses_both_keras(files) or only_keras_2(files)):
            stack.enter_context(_keras_2_as_keras())
        stack.enter_context(_Replacements(is_missing, _OldPath).active(first=False))
        yield


def _uses_both_keras(files: Sequence[str]) -> bool:
    """Whether source files use both `keras` and `tf.keras`."""
    imported = {name for file in files for level, name in imports_in(file) if not level}
    has_tf_keras = any(name.startswith(("tensorflow.keras", KERAS_2)) for name in imported) or any(
        isinstance(node, ast.Attribute) and ast.unparse(node) in ("tf.keras", "tensorflow.keras")
        for file in files
        for node in ast.walk(parsed(file))
    )
    return has_tf_keras and any(name.partition(".")[0] == KERAS for name in imported)


@contextlib.contextmanager
def _keras_2_as_keras() -> Iterator[None]:
    """Resolves `keras` and all its submodules to tf-keras in the block."""
    if importlib.util.find_spec(KERAS_2) is None:
        yield
        return
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == KERAS}
    try:
        with _Replacements(_is_in_keras_2, lambda name: importlib.import_module(_in_keras_2(name))).active(first=True):
            yield
    finally:
        sys.modules.update(hidden)


def _in_keras_2(name: str) -> str:
    return KERAS_2 + name.removeprefix(KERAS)


def _is_in_keras_2(name: str) -> bool:
    with contextlib.suppress(ModuleNotFoundError):  # a parent package is missing
        return name.partition(".")[0] == KERAS and importlib.util.find_spec(_in_keras_2(name)) is not None
    return False


class _Replacements(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports other modules in place of some.

    Args:
      has: Whether a module is replaced, by its dotted name.
      module: Returns the other module, by the same name.
    """

    def __init__(self, has: Callable[[str], bool], module: Callable[[str], ModuleType]) -> None:
        self._has, self._module = has, module
        self._imported: list[str] = []

    @contextlib.contextmanager
    def active(self, *, first: bool) -> Iterator[None]:
        """Replaces imports in the block; unless `first`, only those of modules that do not exist."""
        sys.meta_path.insert(0 if first else len(sys.meta_path), self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            for name in self._imported:
                sys.modules.pop(name, None)

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        del path, target
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if self._has(fullname) else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        del spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        self._imported.append(module.__name__)
        sys.modules[module.__name__] = self._module(module.__name__)


class _OldPath(ModuleType):
    """A module that looks up its names in public `tf.keras` namespaces, the most specific first."""

    def __init__(self, name: str) -> None:
        import tensorflow as tf

        super().__init__(name)
        self.__path__: list[str] = []  # a package, which may have other old paths below it
        namespaces: list[object] = [tf.keras]
        for part in name.split(".")[1:]:
            if not hasattr(namespaces[-1], part):
                break
            namespaces.append(getattr(namespaces[-1], part))
        # The objects of the former `keras.engine` are spread over several public namespaces.
        self._namespaces = [*reversed(namespaces), tf.keras.layers]

    def __getattr__(self, name: str) -> object:
        if not name.startswith("__"):
            for namespace in self._namespaces:
                if hasattr(namespace, name):
                    return getattr(namespace, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}; tf.keras has no public one either")
