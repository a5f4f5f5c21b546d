"""Steps before a module is imported: choosing its Keras version, and preparing the process with each dialect.

choice = choose_keras("auto", source.files)      # KerasChoice("2", "taxi.py, line 8: tf.estimator")
with loaded(source) as module:                   # in a process with that Keras
    module.run_fn(fn_args)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import ModuleType

from ..modules import keras_version, loader
from ..modules.keras_version import KerasChoice, KerasSign
from ..modules.pipeline_modules import PipelineModules
from ..modules.source import ModuleSource
from .registry import call_dialect, installed


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
    found = (call_dialect(dialect, "detect", path) for dialect in installed().values() for path in files)
    return any(evidence is not None and evidence.uses_estimators for evidence in found)


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
def loaded(source: ModuleSource) -> Iterator[ModuleType]:
    """Calls `prepare` of each dialect, then imports a module for the block; see `modules.loader.loaded`.

    Raises:
      ModuleError: When the name of the module's package resolves to a package in another location.
      Exception: Any exception that the module raises on import, with its original type and traceback.
    """
    for dialect in installed().values():
        call_dialect(dialect, "prepare", source.files)
    with loader.loaded(source) as module:
        yield module
