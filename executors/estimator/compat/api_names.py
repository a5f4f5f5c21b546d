"""TensorFlow's registry of API names, which the `estimator_export` decorator of tensorflow-estimator uses."""

from __future__ import annotations

import logging


def restore() -> None:
    """Registers the API "estimator" in `tf_export`, next to "tensorflow" and "keras"."""
    from tensorflow.python.util import tf_export

    tf_export.ESTIMATOR_API_NAME = "estimator"
    make = type(tf_export.API_ATTRS[tf_export.TENSORFLOW_API_NAME])
    tf_export.API_ATTRS["estimator"] = make("_estimator_api_names", "_estimator_api_constants")
    tf_export.API_ATTRS_V1["estimator"] = make("_estimator_api_names_v1", "_estimator_api_constants_v1")
    if "estimator" not in tf_export.SUBPACKAGE_NAMESPACES:
        tf_export.SUBPACKAGE_NAMESPACES.append("estimator")


class one_deprecation_line:
    """Replaces TensorFlow's deprecation warning for each Estimator symbol by a single log message."""

    def __enter__(self) -> None:
        from tensorflow.python.util import deprecation

        self._deprecated = deprecation.deprecated
        deprecation.deprecated = lambda *unused_args, **unused_options: lambda symbol: symbol

    def __exit__(self, *unused: object) -> None:
        from tensorflow.python.util import deprecation

        deprecation.deprecated = self._deprecated
        logging.getLogger("absl").info("tf.estimator is restored; TensorFlow dropped it in release 2.16.")
