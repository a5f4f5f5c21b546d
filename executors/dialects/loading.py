"""Imports a module in a process that the dialects have prepared.

with loaded(source) as module:                   # in a process with the Keras version of `needs.choose_keras`
    module.run_fn(fn_args)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType

from .. import run_context
from ..modules import keras_version, loader
from ..modules.keras_version import KerasChoice
from ..modules.source import ModuleSource
from .base import Dialect
from .other_settings import ImportWatch, settings_noted
from .registry import adapters, call_dialect, importing


@contextlib.contextmanager
def loaded(
    source: ModuleSource,
    dialect: str = "auto",
    keras: KerasChoice | None = None,
    checkpoint_dir: str | None = None,
    *,
    is_restartable: bool = False,
) -> Iterator[ModuleType]:
    """Calls `prepare` of each dialect, then imports a module for the block, in `importing` of each dialect.

    See `modules.loader.loaded`.

    Args:
      source: The module's files.
      dialect: The option `dialect`. If that dialect executes the file itself, the module is empty.
      keras: The settings of this process, if it may be restarted with others; see `settings_noted`.
      checkpoint_dir: The training's checkpoints; see `settings_noted`.
      is_restartable: Whether it can be restarted with environment variables that the module sets.

    Raises:
      ModuleError: When the name of the module's package resolves to a package in another location.
      LateVariableError: When the module sets environment variables that TensorFlow or Keras have read already.
      KerasVersionError: When the module failed because it needs the other Keras version for certain.
      Exception: Any exception that the module raises on import, with its original type and traceback.
    """
    known = adapters()  # reads the metadata of all installed packages
    imports = dialect not in known or known[dialect].imports_module
    installed_first = any(
        call_dialect(candidate, Dialect.detect, path)
        for candidate in known.values()
        if candidate.installed_first
        for path in source.files
    )
    with contextlib.ExitStack() as contexts:
        contexts.enter_context(run_context.extended(ImportWatch()))
        for candidate in known.values():
            contexts.enter_context(importing(candidate))
        contexts.enter_context(settings_noted(keras, checkpoint_dir))
        for candidate in known.values():
            call_dialect(candidate, Dialect.prepare, source.files)
        with loader.loaded(source, imports, installed_first, is_restartable) as module:
            if keras:
                keras_version.require_backend()
            yield module
