"""Adapter for reading TensorFlow's `tf.io.gfile` files with Arrow, so that all of its file systems are supported."""

from __future__ import annotations

import tensorflow as tf


class ArrowFile(tf.io.gfile.GFile):  # type: ignore[misc]
    """A GFile with the attribute `closed`, without which Arrow treats the file as closed."""

    closed = False
