"""`tf.estimator` on TensorFlow releases that no longer ship it (2.16 and later).

    from generic_trainer.executors.estimator import restore_estimator

    restore_estimator()
    tf.estimator.DNNClassifier(…)          # as on TensorFlow 2.15

The Estimators themselves are those of the wheel `tensorflow-estimator` 2.15.0, the last one. What is in here is the
part that TensorFlow 2.16 took away from under it. Install both with `generic-trainer[estimator]`.
"""

from __future__ import annotations

from .runtime import restore_estimator

__all__ = ["restore_estimator"]
