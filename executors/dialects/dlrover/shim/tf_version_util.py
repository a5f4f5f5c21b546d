"""TensorFlow version checks, as used by DLRover's model files."""

from __future__ import annotations


def get_tf_version() -> list[str]:
    """Returns the parts of TensorFlow's version, such as ["2", "15", "1"]."""
    import tensorflow as tf

    return str(tf.__version__).split(".")


def is_tf_1() -> bool:
    """Returns whether this is TensorFlow 1."""
    return int(get_tf_version()[0]) == 1


def is_tf_2() -> bool:
    """Returns whether this is TensorFlow 2 or later."""
    return int(get_tf_version()[0]) > 1


def is_tf_113() -> bool:
    """Returns whether this is TensorFlow 1.13."""
    return get_tf_version()[:2] == ["1", "13"]


def is_tf_115() -> bool:
    """Returns whether this is TensorFlow 1.15."""
    return get_tf_version()[:2] == ["1", "15"]
