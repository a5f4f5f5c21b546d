"""TensorFlow's files for Arrow to read, so that both know the same file systems."""

from __future__ import annotations

import tensorflow as tf


class ArrowFile(tf.io.gfile.GFile):  # type: ignore[misc]
    """A GFile with the one attribute that Arrow needs besides; without it Arrow takes the file for closed."""

    closed = False
