"""Names that the TPU modules of tensorflow-estimator import. Creating a TPU Estimator itself raises an error."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

_MODULES = ("session_support", "tpu_embedding", "tpu_embedding_gradient")
_PARAMETERS = ("AdagradParameters", "AdamParameters", "FtrlParameters", "StochasticGradientDescentParameters")


def _refuse(*unused_args: object, **unused_options: object) -> None:
    raise NotImplementedError(
        "TPU Estimators are gone from TensorFlow since 2.16. Use TPUEstimator(use_tpu=False) for the CPU, or "
        "tf.distribute.TPUStrategy with a Keras model."
    )


class _Gone:
    """Placeholder for a class or function for training Estimators on TPUs, which TensorFlow has removed."""

    __init__ = _refuse


class _GoneModule(ModuleType):
    """A module whose attributes are all `_Gone`."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Gone


def restore() -> None:
    """Makes the removed names importable."""
    package = importlib.import_module("tensorflow.python.tpu")
    for name in _MODULES:
        module = _GoneModule(f"tensorflow.python.tpu.{name}", _Gone.__doc__)
        sys.modules[module.__name__] = module
        setattr(package, name, module)
    experimental = importlib.import_module("tensorflow").compat.v1.tpu.experimental
    for name in _PARAMETERS:
        if not hasattr(experimental, name):
            setattr(experimental, name, type(name, (_Gone,), {}))


def refuse_tpus() -> None:
    """Makes an Estimator with `use_tpu=True` raise NotImplementedError before it searches for a TPU."""
    context = importlib.import_module("tensorflow_estimator.python.estimator.tpu.tpu_context")
    context._InternalTPUContext._validate_tpu_configuration = _refuse
