"""What `generic-trainer convert` adds to a module calls these functions: `prepare_for` and `run_as`.

They make the module run in any TFX Trainer, where nothing has been prepared for its dialect:

    from generic_trainer import prepare_for          # before the module's other imports

    prepare_for("trainer_fn", __name__)
    …
    def run_fn(fn_args):
        from generic_trainer import run_as

        return run_as("trainer_fn", __name__, fn_args)
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from types import ModuleType

from absl import logging

from .. import run_context
from ..compat.keras_switch import KerasSwitch
from ..errors import ModuleError
from ..estimator.runtime import tensorflow_modules
from ..fn_args import FnArgs
from ..modules.keras_version import VARIABLE, has_keras_3, version_in_use
from ..modules.source import find_source
from ..options import TrainingOptions
from .base import Dialect
from .other_settings import ImportWatch
from .registry import adapters, call_dialect, importing, installed, require_installed


class _Process:
    """Keras 2 in place of Keras 3 in this process, from the import of a converted module to the end of its run."""

    def __init__(self) -> None:
        self._switch: KerasSwitch | None = None
        self._variable: str | None = None

    def use_keras_2(self) -> None:
        if self._switch is None and has_keras_3() and version_in_use() != "2":
            self._variable = os.environ.get(VARIABLE)
            os.environ[VARIABLE] = "1"
            self._switch = KerasSwitch(module for module, _ in tensorflow_modules())
            logging.info("tf.keras is Keras 2 until the end of the training; the module's dialect needs it.")

    def restore_keras(self) -> None:
        if self._switch is not None:
            self._switch.undo()
            self._switch = None
            os.environ.pop(VARIABLE)
            if self._variable is not None:
                os.environ[VARIABLE] = self._variable


_PROCESS = _Process()


def prepare_for(dialect: str, module: str) -> None:
    """Prepares the process for a module of a dialect, at the top of the module.

    For Estimators, it restores `tf.estimator`, and `tf.keras` becomes Keras 2 until the end of `run_as`. In a run of
    this package's trainer, the process is prepared already.

    Args:
      dialect: The name of an installed dialect.
      module: The module's `__name__`.

    Raises:
      InputError: When the dialect is not installed.
    """
    dialects = installed()
    require_installed(dialect, dialects)
    if run_context.part(ImportWatch) is not None:
        return  # in `loading.loaded`
    path = _with_file(sys.modules[module]).__file__
    with tempfile.TemporaryDirectory() as scratch:
        files = find_source(str(path), scratch).files
    if dialects[dialect].keras == "2":
        _PROCESS.use_keras_2()
    with contextlib.ExitStack() as contexts:
        every = adapters().values()  # not before Keras is chosen: they may import TensorFlow
        for candidate in every:
            contexts.enter_context(importing(candidate))
        for candidate in every:
            call_dialect(candidate, Dialect.prepare, files)


def run_as(dialect: str, module: ModuleType | str, fn_args: FnArgs, function: str | None = None) -> object:
    """Trains a module with a dialect, from a `run_fn` in the module itself.

    It gives a module of another dialect a `run_fn` that any TFX Trainer can call:

        def run_fn(fn_args):
            from generic_trainer import run_as

            return run_as("trainer_fn", __name__, fn_args)

    `generic-trainer convert` adds these lines.

    Args:
      dialect: The name of an installed dialect.
      module: The module or its `__name__`.
      fn_args: The arguments of the module's `run_fn`; this package's or TFX's.
      function: The function that the dialect uses; None for the dialect's default name.

    Returns:
      The metrics returned by the dialect's `run_fn`.

    Raises:
      InputError: When the dialect is not installed.
      ModuleError: When the module lacks a definition that the dialect requires.
    """
    dialects = adapters()
    require_installed(dialect, dialects)
    found = _with_file(sys.modules[module] if isinstance(module, str) else module)
    try:
        return dialects[dialect].run_fn(found, function, TrainingOptions(dialect=dialect))(FnArgs.of(fn_args))
    finally:
        _PROCESS.restore_keras()


def _with_file(module: ModuleType) -> ModuleType:
    """Sets the `__file__` of a module that TFX has imported without it, and returns the module."""
    if getattr(module, "__file__", None) is None:
        origin = module.__spec__.origin if module.__spec__ is not None else None
        if origin is None:
            raise ModuleError(f"The module {module.__name__} has no source file; its dialect needs one.")
        module.__file__ = origin
    return module
