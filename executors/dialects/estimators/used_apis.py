"""Restores the APIs that TensorFlow and TFMA removed, for modules that use them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import ModuleType

from ...errors import KerasVersionError
from ...estimator import restore_estimator
from ...estimator.lazy_restoration import EstimatorUse, restored_on_use
from ...estimator.tfma_export import restore_tfma_export
from ...modules.keras_version import version_in_use
from ...modules.source import imports_in
from ...runtime.logs.exceptions import chain
from ..other_settings import ImportWatch
from ..restart import noted
from .dialect import find_estimator_use


def restore_used_apis(files: Sequence[str]) -> None:
    """Restores the APIs that TensorFlow and TFMA removed, if a module's files or the packages they import use them.

    `tf.estimator` is restored for files that use Estimators; `tfma.export` for those that import TFMA, too. Uses that
    the source does not show restore `tf.estimator` when they happen, in `restored_when_used`. With Keras 3 in the
    process nothing is restored: the module may do without its Estimators.
    """
    if version_in_use() != "3" and any(find_estimator_use(file) for file in files):
        restore_estimator()
        packages = {name.partition(".")[0] for file in files for _, name in imports_in(file)}
        if "tensorflow_model_analysis" in packages:
            restore_tfma_export()


@contextlib.contextmanager
def restored_when_used() -> Iterator[None]:
    """Restores `tf.estimator` if the module or a library uses it in the block, and notes that this needs Keras 2."""
    watch = ImportWatch.current()
    with restored_on_use() as use:
        watch.keras_2_reasons.append(lambda: f"{use.place}: tf.estimator" if use.place else "")
        watch.explanations.append(lambda error: _explained(error, use))
        yield


def _explained(error: Exception, use: EstimatorUse) -> KerasVersionError | None:
    """Returns a KerasVersionError if an exception was caused by a use of `tf.estimator` with Keras 3."""
    if not any(_is_missing_estimator(cause, use) for cause in chain(error)):
        return None
    wrong_keras = KerasVersionError(
        f"{use.place or 'The module'} uses tf.estimator, which needs Keras 2, but tf.keras is Keras 3 in this process. "
        'Use --keras 2, or keras="2" of the component.'
    )
    return noted(wrong_keras, {"version": "2", "reason": "the module uses tf.estimator", "is_certain": True})


def _is_missing_estimator(error: BaseException, use: EstimatorUse) -> bool:
    """Returns whether `tf.estimator` is missing, or `tf.keras.estimator`, which Keras 3 does not have."""
    if not isinstance(error, (AttributeError, ImportError)) or "estimator" not in str(error):
        return False
    owner = getattr(error, "obj", None)
    return use.is_refused or (isinstance(owner, ModuleType) and owner.__name__.startswith("keras."))
