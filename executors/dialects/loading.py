"""Steps before a module is imported: choosing its Keras version, and preparing the process with each dialect.

choice = choose_keras("auto", source.files)      # KerasChoice("2", "taxi.py, line 8: tf.estimator")
with loaded(source) as module:                   # in a process with that Keras
    module.run_fn(fn_args)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import ModuleType

from ..estimator.lazy_restoration import restored_on_use
from ..modules import keras_version, loader
from ..modules.keras_version import KerasChoice, KerasSign
from ..modules.pipeline_modules import PipelineModules
from ..modules.source import ModuleSource
from .base import Evidence
from .registry import call_dialect, installed
from .restart import settings_noted


def choose_keras(
    option: str, files: Sequence[str], *, beside: Sequence[str] = (), distributed: bool = False
) -> KerasChoice:
    """Chooses the Keras version for a module, including the evidence that dialects find in its files.

    See `keras_version.choose` for arguments and errors.
    """
    dialects = installed().values()

    def find_signs(path: str) -> Iterator[KerasSign]:
        for dialect in dialects:
            if (found := call_dialect(dialect, "detect", path)) and found.keras:
                yield KerasSign(found.line, found.keras, found.text, True)

    return keras_version.choose(option, files, beside=beside, distributed=distributed, more_signs=find_signs)


def uses_estimators(files: Sequence[str]) -> bool:
    """Whether a module's files train an Estimator, according to the evidence that dialects find in their source."""
    return any(evidence.uses_estimators for evidence in _evidence(files))


def reads_any_origin(files: Sequence[str]) -> bool:
    """Whether a module reads the data itself, so that `train_files` and `eval_files` need not be files."""
    return any(evidence.reads_any_origin for evidence in _evidence(files))


def _evidence(files: Sequence[str]) -> Iterator[Evidence]:
    found = (call_dialect(dialect, "detect", path) for dialect in installed().values() for path in files)
    return (evidence for evidence in found if evidence is not None)


def choose_keras_for(
    modules: PipelineModules, source: ModuleSource, option: str, *, distributed: bool = False
) -> KerasChoice:
    """Chooses the Keras version for the process that runs one of a pipeline's modules.

    Args:
      modules: All modules of the pipeline; their files are passed to `choose_keras` as `beside`.
      source: The module that the process runs.
      option: The option `keras`.
      distributed: Passed to `choose_keras`.
    """
    beside = [file for other in modules.sources for file in other.files]
    return choose_keras(option, source.files, beside=beside, distributed=distributed)


@contextlib.contextmanager
def loaded(
    source: ModuleSource,
    dialect: str = "auto",
    keras: KerasChoice | None = None,
    checkpoint_dir: str | None = None,
    *,
    is_restartable: bool = False,
) -> Iterator[ModuleType]:
    """Calls `prepare` of each dialect, then imports a module for the block; see `modules.loader.loaded`.

    `tf.estimator` is restored if the module or a library uses it, during the import or in the block.

    Args:
      source: The module's files.
      dialect: The option `dialect`. If that dialect executes the file itself, the module is empty.
      keras: The settings of this process, if it may be restarted with others; see `restart.settings_noted`.
      checkpoint_dir: The training's checkpoints; see `restart.settings_noted`.
      is_restartable: Whether it can be restarted with environment variables that the module sets.

    Raises:
      ModuleError: When the name of the module's package resolves to a package in another location.
      LateVariableError: When the module sets environment variables that TensorFlow or Keras have read already.
      KerasVersionError: When the module failed after it used `tf.estimator` in a process with Keras 3.
      Exception: Any exception that the module raises on import, with its original type and traceback.
    """
    known = installed()  # reads the metadata of all installed packages
    imports = dialect not in known or known[dialect].imports_module
    installed_first = any(
        call_dialect(candidate, "detect", path)
        for candidate in known.values()
        if candidate.installed_first
        for path in source.files
    )
    with restored_on_use(), settings_noted(keras, checkpoint_dir):
        for candidate in known.values():
            call_dialect(candidate, "prepare", source.files)
        with loader.loaded(source, imports, installed_first, is_restartable) as module:
            if keras:
                keras_version.require_backend()
            yield module
