"""`tf.estimator` on TensorFlow releases that no longer ship it (2.16 and later).

    from generic_trainer.executors.estimator import restore_estimator

    restore_estimator()
    tf.estimator.DNNClassifier(…)          # as on TensorFlow 2.15

The Estimators themselves are those of `tensorflow-estimator` 2.15.0, the last release. This package replaces the parts
of TensorFlow that it imports and that TensorFlow 2.16 removed. Install both with `generic-trainer[estimator]`.
"""

from __future__ import annotations

from .runtime import restore_estimator

__all__ = ["restore_estimator"]
