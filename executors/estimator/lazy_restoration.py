"""Restores `tf.estimator` when it is first used, however a module reaches it.

    with restored_on_use() as use:
        import model          # with `v1 = tf.compat.v1; v1.estimator`, `from tensorflow import estimator`, …
    use.place                 # "model.py, line 3"; "" if nothing used it
    use.is_refused            # whether it could not be restored, because `tf.keras` was Keras 3 already

A module `__getattr__` (PEP 562) provides the missing name of `tf`, `tf.compat.v1`, `tf.compat.v2` and their nested
forms: a module that is loaded with its first attribute, as in TensorFlow 2.15, so `from tensorflow import *` uses
nothing. A finder of the import system does so for `import tensorflow.estimator` and for the package
tensorflow-estimator itself, which cannot be imported before TensorFlow is prepared for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.abc
import importlib.machinery
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, ModuleType

from .. import run_context
from ..modules.keras_version import VARIABLE, version_in_use
from .runtime import restore_estimator, tensorflow_modules

_NAME = "estimator"
_MODULES = ("tensorflow.estimator", "tensorflow.compat.v1.estimator", "tensorflow.compat.v2.estimator")
_PACKAGES = ("tensorflow_estimator", "tensorflow.python.estimator")
# Their frames are not the place of a use.
_LIBRARIES = ("tensorflow", "importlib", "_frozen_importlib", "keras", "tf_keras", __name__.partition(".")[0])


@dataclasses.dataclass
class EstimatorUse:
    """How the code in a block used `tf.estimator`.

    Attributes:
      place: File and line of the first use; "" without one, or if `tf.estimator` was there before the block.
      is_refused: Whether it was not restored: `tf.keras` is Keras 3 in this process, and Estimators need Keras 2.
    """

    place: str = ""
    is_refused: bool = False


@contextlib.contextmanager
def restored_on_use() -> Iterator[EstimatorUse]:
    """Prepares this process to restore `tf.estimator`; it stays prepared after the block, which records the use.

    If a package is missing or `tf.keras` is Keras 3 already, the name stays missing, and the error contains advice.
    """
    import tensorflow as tf

    if not any(isinstance(finder, _Restorer) for finder in sys.meta_path) and _NAME not in vars(tf):
        restorer = _Restorer()
        sys.meta_path.insert(0, restorer)
        for module, _ in tensorflow_modules():
            # TensorFlow wraps its v1 modules; the wrapper calls the wrapped module's `__getattr__`.
            vars(getattr(module, "_tfmw_wrapped_module", module))["__getattr__"] = restorer.getattr_of(module)
            if names := vars(module).get("__all__"):  # what `import *` brings
                module.__all__ = [*names, _NAME]  # type: ignore[attr-defined]
    with run_context.extended(use := EstimatorUse()):
        yield use


class _Restorer(importlib.abc.MetaPathFinder):
    """Restores `tf.estimator` when it is accessed, or when a module of it or of its package is imported."""

    def __init__(self) -> None:
        self._is_restoring = False  # restore_estimator accesses the name and imports the package itself

    def getattr_of(self, module: ModuleType) -> Callable[[str], object]:
        """Returns the `__getattr__` of one of TensorFlow's modules."""

        lazy = _LazyEstimator(module, self)

        def missing(name: str) -> object:
            if name != _NAME:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            return lazy

        return missing

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Restores `tf.estimator` if the module belongs to it; returns the spec of a module that this imported."""
        del path, target
        if self._is_restoring or not (name in _MODULES or name.startswith(_PACKAGES)):
            return None
        self.restore()  # if that is impossible, the other finders continue, and the import fails
        return importlib.machinery.ModuleSpec(name, _Restored()) if name in sys.modules else None

    def restore(self) -> str:
        """Restores `tf.estimator`; returns the reason if that is impossible, as the end of a message, else ""."""
        if self._is_restoring:
            return ": it is being restored"
        use = run_context.part(EstimatorUse) or EstimatorUse()
        use.place = use.place or _place(inspect.currentframe())
        if version_in_use() == "3":
            use.is_refused = True
            return f": Estimators need Keras 2, but tf.keras is Keras 3 in this process. Set {VARIABLE}=1."
        self._is_restoring = True
        try:
            restore_estimator()
        except RuntimeError as error:  # a package is missing
            return f": {error}"
        finally:
            self._is_restoring = False
        return ""


class _LazyEstimator(ModuleType):
    """Stands for `tf.estimator` until its first attribute is read, which restores it."""

    def __init__(self, owner: ModuleType, restorer: _Restorer) -> None:
        super().__init__(f"{owner.__name__}.{_NAME}")
        self._owner, self._restorer = owner, restorer

    def __getattr__(self, name: str) -> object:
        if problem := self._restorer.restore():
            raise AttributeError(f"module {self._owner.__name__!r} has no attribute {_NAME!r}{problem}")
        return getattr(vars(self._owner)[_NAME], name)


class _Restored(importlib.abc.Loader):
    """Loads a module that `restore_estimator` has put into `sys.modules`."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Keeps the restored module: Python replaces it in `sys.modules` by an empty one until `exec_module`."""
        self._module = sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Puts the restored module back."""
        sys.modules[module.__name__] = self._module


def _place(frame: FrameType | None) -> str:
    """Returns the file and line of the innermost frame outside of TensorFlow, Keras and the import system."""
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _LIBRARIES:
            return f"{os.path.basename(frame.f_code.co_filename)}, line {frame.f_lineno}"
        frame = frame.f_back
    return ""
