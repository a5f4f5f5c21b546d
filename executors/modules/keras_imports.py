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
from .source import parsed

KERAS_2 = "tf_keras"
_LEGACY = "TF_USE_LEGACY_KERAS"


@contextlib.contextmanager
def legacy_keras_imports(files: Sequence[str], only_keras_2: Callable[[], bool] = bool) -> Iterator[None]:
    """Makes the Keras imports of source files work in the block; `sys.modules` is restored afterwards.

    Args:
      files: The module's source files. If they use both `keras` and `tf.keras`, and `tf.keras` is Keras 2 in this
        process, `keras` is Keras 2 as well.
      only_keras_2: Returns whether the files only work with Keras 2; if True, `keras` is Keras 2 whenever `tf.keras`
        is.
    """
    with contextlib.ExitStack() as stack:
        if os.environ.get(_LEGACY, "").lower() in ("1", "true") and (_uses_both_keras(files) or only_keras_2()):
            stack.enter_context(_keras_2_as_keras())
        stack.enter_context(_old_paths())
        yield


def _uses_both_keras(files: Sequence[str]) -> bool:
    """Whether source files use both `keras` and `tf.keras`."""
    nodes = [node for file in files for node in ast.walk(parsed(file))]
    imported = {name for node in nodes for name in _imported(node)}
    has_keras = any(name.partition(".")[0] == KERAS for name in imported)
    has_tf_keras = any(name.startswith(("tensorflow.keras", KERAS_2)) for name in imported) or any(
        isinstance(node, ast.Attribute) and ast.unparse(node) in ("tf.keras", "tensorflow.keras") for node in nodes
    )
    return has_keras and has_tf_keras


def _imported(node: ast.AST) -> list[str]:
    """Returns the dotted names that a statement imports: ["tensorflow.keras"] for `from tensorflow import keras`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


@contextlib.contextmanager
def _keras_2_as_keras() -> Iterator[None]:
    """Resolves `keras` and all its submodules to tf-keras in the block."""
    if importlib.util.find_spec(KERAS_2) is None:
        yield
        return
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == KERAS}
    finder = _AsKeras2()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in list(sys.modules) if name.partition(".")[0] == KERAS]:
            del sys.modules[name]
        sys.modules.update(hidden)


class _AsKeras2(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Resolves an import of `keras.NAME` to the module `tf_keras.NAME` itself."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        del path, target
        package, dot, rest = fullname.partition(".")
        if package == KERAS:
            with contextlib.suppress(ModuleNotFoundError):  # a parent package is missing
                if importlib.util.find_spec(f"{KERAS_2}{dot}{rest}") is not None:
                    return importlib.machinery.ModuleSpec(fullname, self, origin=KERAS_2, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        del spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        _, dot, rest = module.__name__.partition(".")
        sys.modules[module.__name__] = importlib.import_module(f"{KERAS_2}{dot}{rest}")


@contextlib.contextmanager
def _old_paths() -> Iterator[None]:
    finder = _OldPaths()
    sys.meta_path.append(finder)  # last, so only for modules that do not exist
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name, module in list(sys.modules.items()) if isinstance(module, _OldPath)]:
            del sys.modules[name]


class _OldPath(ModuleType):
    """A module that looks up its names in public `tf.keras` namespaces, the most specific first."""

    def __init__(self, name: str) -> None:
        import tensorflow as tf

        super().__init__(name)
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


class _OldPaths(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if not is_missing(fullname):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin="tf.keras", is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _OldPath(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        del module
