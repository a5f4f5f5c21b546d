"""Restores the `tf.estimator` names that TensorFlow 2.16 removed, and nothing else.

Restored, because the package `tensorflow-estimator` or old modules use them:

* `tf_export.ESTIMATOR_API_NAME` with its attributes: the package's `estimator_export` decorator uses it.
* `tensorflow.python.distribute.estimator_training`: Estimator, RunConfig and train_and_evaluate call it.
* Three modules below `tensorflow.python.tpu`, and `tf.compat.v1.tpu.experimental.*Parameters`: the package's TPU
  modules import them, and `TPUEstimator(use_tpu=False)` trains on the CPU.
* `tf.estimator`, `tf.compat.v1.estimator`, `tf.compat.v2.estimator`, importable by these names as well.
* `tensorflow.python.estimator.*`: the package's modules under the name that older code and DeepCTR import.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NoReturn

from .. import run_context
from ..modules.keras_version import VARIABLE, version_in_use

_WHEEL = "tensorflow_estimator.python.estimator"
_OLD_NAME = "tensorflow.python.estimator"
_COMPAT_MODULE = re.compile(r"tensorflow(\._api\.v2)?(\.compat\.v[12]){1,2}")


@dataclasses.dataclass(frozen=True)
class RestorationListener:
    """Part of the run context: a function to call after `tf.estimator` was restored."""

    call: Callable[[], None]


def restore_estimator() -> None:
    """Makes `tf.estimator` available in this process; no-op if TensorFlow has it, or when called again.

    Raises:
      RuntimeError: If a package is missing, or if `tf.keras` is already Keras 3 in this process: Estimators are built
        on Keras 2, and a process has only one `tf.keras`.
    """
    import tensorflow as tf

    if hasattr(getattr(tf, "estimator", None), "Estimator"):  # which restores it if `lazy_restoration` is prepared
        return
    _require_packages()
    _require_keras_2()
    from .compat import api_names, distribute, tpu

    tensorflow_modules()  # before tensorflow-estimator imports `tensorflow.compat.v1`
    with api_names.one_deprecation_line():
        api_names.restore()
        _publish("tensorflow.python.distribute.estimator_training", distribute)
        tpu.restore()
        api = {version: importlib.import_module(f"{_WHEEL}.api._{version}.estimator") for version in ("v1", "v2")}
        for name, module in (
            ("tensorflow.estimator", api["v2"]),
            ("tensorflow.compat.v1.estimator", api["v1"]),
            ("tensorflow.compat.v2.estimator", api["v2"]),
        ):
            _publish(name, module)
            _explain_missing_names(module)
            for path, part in _namespaces(module):
                sys.modules[f"{name}.{path}"] = part
                _explain_missing_names(part)
        tpu.refuse_tpus()
        for module, version in tensorflow_modules():
            module.estimator = api[version]  # type: ignore[attr-defined]
        _publish_old_names()
    if listener := run_context.part(RestorationListener):
        listener.call()


def tensorflow_modules() -> list[tuple[ModuleType, str]]:
    """Returns the modules that have the name `estimator`: `tf`, `tf.compat.v1`, `tf.compat.v2` and their nested forms.

    Each comes with the version of its API, "v1" or "v2". `import tensorflow.compat.v1` would create a second module
    next to `tf.compat.v1`; here it gets the same one, unless it has been imported before.
    """
    import tensorflow as tf

    for version in ("v1", "v2"):
        sys.modules.setdefault(f"tensorflow.compat.{version}", getattr(tf.compat, version))
    found = [(module, name[-2:]) for name, module in list(sys.modules.items()) if _COMPAT_MODULE.fullmatch(name)]
    return [(tf, "v2"), *found]


def _require_keras_2() -> None:
    if version_in_use() == "3":
        raise RuntimeError(
            "tf.estimator needs Keras 2, but tf.keras is already Keras 3 in this process. Set "
            f"{VARIABLE}=1 before TensorFlow is imported, or train in a subprocess (isolate=True)."
        )
    os.environ[VARIABLE] = "1"  # read when tf.keras is first accessed, which has not happened yet


def _require_packages() -> None:
    for package, name in (("tensorflow-estimator", "tensorflow_estimator"), ("tf-keras", "tf_keras")):
        if importlib.util.find_spec(name) is None:
            raise RuntimeError(f"tf.estimator needs the package {package}: pip install 'generic-trainer[estimator]'.")


def _publish(name: str, module: ModuleType) -> None:
    """Makes a module importable under another name, and an attribute of that name's parent package."""
    sys.modules[name] = module
    package, _, last = name.rpartition(".")
    setattr(importlib.import_module(package), last, module)


def _publish_old_names() -> None:
    """Makes the package's modules importable as `tensorflow.python.estimator.*`, as aliases of the same modules."""
    for name, module in list(sys.modules.items()):
        if name == _WHEEL or name.startswith(f"{_WHEEL}."):
            sys.modules[_OLD_NAME + name[len(_WHEEL) :]] = module
    parent: Any = importlib.import_module("tensorflow.python")
    parent.estimator = sys.modules[_WHEEL]


def _explain_missing_names(module: ModuleType) -> None:
    """Adds advice to the AttributeError for missing BoostedTrees names; other names raise as usual."""

    def missing(name: str) -> NoReturn:
        message = f"module {module.__name__!r} has no attribute {name!r}"
        if name.lower().replace("_", "").startswith("boostedtrees"):
            message += (
                ": tensorflow-estimator dropped BoostedTrees before its last release. Use TensorFlow Decision Forests, "
                "such as tfdf.keras.GradientBoostedTreesModel."
            )
        raise AttributeError(message)

    # TensorFlow wraps its v1 modules; the wrapper calls the wrapped module's `__getattr__`.
    vars(getattr(module, "_tfmw_wrapped_module", module))["__getattr__"] = missing


def _namespaces(module: ModuleType) -> Iterator[tuple[str, ModuleType]]:
    """Yields the submodules that the package's API module imports, such as `export` and `experimental`."""
    for name, part in vars(module).items():
        if isinstance(part, ModuleType) and part.__name__.startswith(f"{module.__name__}."):
            yield name, part
            for path, below in _namespaces(part):
                yield f"{name}.{path}", below
