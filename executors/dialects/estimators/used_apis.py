"""Restores the APIs that TensorFlow and TFMA removed, for modules that use them."""

from __future__ import annotations

from collections.abc import Sequence

from ...estimator import restore_estimator
from ...estimator.tfma_export import restore_tfma_export
from ...modules.keras_version import version_in_use
from ...modules.source import imports_in
from .detection import find_estimator_use


def restore_used_apis(files: Sequence[str]) -> None:
    """Restores the APIs that TensorFlow and TFMA removed, if a module's files or the packages they import use them.

    `tf.estimator` is restored for files that use Estimators; `tfma.export` for those that import TFMA, too. Uses that
    the source does not show restore `tf.estimator` when they happen; see `estimator/lazy_restoration.py`. With Keras 3
    in the process nothing is restored: the module may do without its Estimators.
    """
    if version_in_use() != "3" and any(find_estimator_use(file) for file in files):
        restore_estimator()
        packages = {name.partition(".")[0] for file in files for _, name in imports_in(file)}
        if "tensorflow_model_analysis" in packages:
            restore_tfma_export()
