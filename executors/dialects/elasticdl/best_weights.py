"""Keeps the weights of the best evaluation; small ones are in memory until they are needed.

    best = BestWeights(model, "run/best/weights")
    best.keep()     # after each evaluation that is better than all before
    best.save()     # "run/best/weights"

Writing a checkpoint takes 10 ms or more even for a few weights, as long as a small evaluation.
"""

from __future__ import annotations

import os

import tensorflow as tf

from ...checkpoints import background_writer
from ...checkpoints.async_checkpoints import current_values

_MAX_BYTES = 16 << 20  # of weights in memory; larger ones take long to train anyway


class BestWeights:
    """The weights of a model at the last call of `keep`.

    Args:
      model: The model.
      path: The path prefix of the checkpoint for them.
    """

    def __init__(self, model: tf.keras.Model, path: str) -> None:
        self._state = tf.train.Checkpoint(model=model)
        self._path = path
        self._values: list[background_writer.Value] = []

    def keep(self) -> None:
        """Replaces the kept weights by the current ones; on several replicas, all of them must call it."""
        self._values = []
        values = current_values(self._state) if tf.distribute.get_strategy().num_replicas_in_sync == 1 else None
        if values is None or background_writer.size(values) > _MAX_BYTES:
            self._state.write(self._path)
        else:
            self._values = values

    def save(self) -> str:
        """Writes the kept weights, unless they are written; returns the checkpoint's path prefix."""
        if self._values:
            tf.io.gfile.makedirs(os.path.dirname(self._path))
            background_writer.write(self._path, self._values)
            self._values = []
        return self._path
