"""What a module needs, from the evidence that dialects find in its source: its Keras version, where its data are from.

choice = choose_keras("auto", source.files)      # KerasChoice("2", "taxi.py, line 8: tf.estimator")
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..compat.keras_source import KerasSign
from ..modules import keras_version
from ..modules.keras_version import KerasChoice
from .base import Dialect, Evidence
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
            if (found := call_dialect(dialect, Dialect.detect, path)) and found.keras:
                yield KerasSign(found.line, found.keras, found.text, True)

    return keras_version.choose(option, files, beside=beside, distributed=distributed, more_signs=find_signs)


def uses_estimators(files: Sequence[str]) -> bool:
    """Whether a module's files train an Estimator, according to the evidence that dialects find in their source."""
    return any(evidence.uses_estimators for evidence in _evidence(files))


def reads_any_origin(files: Sequence[str]) -> bool:
    """Whether a module reads the data itself, so that `train_files` and `eval_files` need not be files."""
    return any(evidence.reads_any_origin for evidence in _evidence(files))


def _evidence(files: Sequence[str]) -> Iterator[Evidence]:
    found = (call_dialect(dialect, Dialect.detect, path) for dialect in installed().values() for path in files)
    return (evidence for evidence in found if evidence is not None)
