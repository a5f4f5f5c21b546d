"""Private names of TensorFlow 2.16 to 2.21 that hold `tf.keras`, to change its version after its first use.

TensorFlow reads the environment variable at the first use of each of these names, and then keeps the version. Modules
below `tensorflow.keras` are found through TensorFlow's search path.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

_KERAS_2 = "tf_keras.api._v2.keras"
_KERAS_3_MODULES = ("keras.", "tensorflow.keras")


class KerasSwitch:
    """Makes `tf.keras` Keras 2 from its creation until `undo`. Keras 3 objects that exist already stay as they are.

    Args:
      namespaces: TensorFlow's modules with a name `keras`, such as `tf` and `tf.compat.v1`.
    """

    def __init__(self, namespaces: Iterable[ModuleType]) -> None:
        import tensorflow as tf

        self._path: list[str] = list(tf.__path__)
        self._names = [
            (names, name, value)
            for module in {id(namespace): namespace for namespace in namespaces}.values()
            for names in _names_of(module)
            for name, value in list(names.items())
            if _is_keras(value)
        ]
        for names, name, value in self._names:
            names[name] = _loader(names, name, value)
        self._imported = _take_imported()
        spec = importlib.util.find_spec(_KERAS_2)
        if spec is not None and spec.origin is not None:
            tf.__path__ = [os.path.dirname(os.path.dirname(spec.origin)), *self._path]

    def undo(self) -> None:
        """Restores the version that `tf.keras` had before."""
        import tensorflow as tf

        for names, name, value in self._names:
            names[name] = value
        tf.__path__ = self._path
        _take_imported()
        sys.modules.update(self._imported)


def _names_of(module: ModuleType) -> list[dict[str, Any]]:
    """Returns a module's names, and those of the module that TensorFlow has wrapped in it."""
    wrapped = vars(module).get("_tfmw_wrapped_module")
    return [vars(module)] if wrapped is None else [vars(module), vars(wrapped)]


def _is_keras(value: object) -> bool:
    from tensorflow.python.util.lazy_loader import KerasLazyLoader

    return isinstance(value, KerasLazyLoader) or (
        isinstance(value, ModuleType) and str(vars(value).get("__name__")).startswith(_KERAS_3_MODULES)
    )


def _loader(names: dict[str, Any], name: str, value: object) -> ModuleType:
    """Returns a new loader, which has not read the environment variable yet, for a name of Keras."""
    from tensorflow.python.util.lazy_loader import KerasLazyLoader

    if isinstance(value, KerasLazyLoader):
        mode, submodule = value._tfll_mode, value._tfll_submodule
    else:  # the name holds the module after its first use
        mode, submodule = None, None if name == "keras" else name
    loader: ModuleType = KerasLazyLoader(names, mode=mode, submodule=submodule, name=name)
    return loader


def _take_imported() -> dict[str, ModuleType]:
    """Removes the imported modules `tensorflow.keras`, `tensorflow.keras.layers`, …; returns them."""
    names = [name for name in sys.modules if name == "tensorflow.keras" or name.startswith("tensorflow.keras.")]
    return {name: sys.modules.pop(name) for name in names}
