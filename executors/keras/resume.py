"""Starts Keras's `fit` at a later epoch, and skips the batches of that epoch that were already trained.

Usage, in a callback's `on_train_begin`:

    set_first_epoch(model, 3)                                              # start with the fourth epoch
    model.train_function = DroppingTrainFunction(model, 0, 7, logs, None)  # and with its eighth batch
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ..compat.keras import steps_per_execution

if TYPE_CHECKING:
    import keras


class DroppingTrainFunction:
    """Replaces a model's train function until the batches that were already trained have been dropped.

    Attributes:
      original: The model's original train function.
    """

    def __init__(self, model: keras.Model, ahead: int, batches: int, logs: dict[str, float], rest: int | None) -> None:
        """Stores the model's current train function.

        Args:
          model: The model, at the beginning of a fit.
          ahead: Number of batches to drop that `fit` does not count.
          batches: Number of batches to drop that `fit` counts.
          logs: Logs to return for the dropped batches.
          rest: Number of remaining batches of the epoch, to end it without reading further; None to read until the
            data ends.
        """
        self.original: Callable[[Iterator[object]], Mapping[str, object]] = model.train_function
        self._model = model
        self._ahead, self._left, self._logs, self._rest = ahead, batches, logs, rest

    def __call__(self, iterator: Iterator[object]) -> Mapping[str, object]:
        """Drops the batches of a step, or trains on them.

        Raises:
          OutOfRangeError: If the epoch has ended.
        """
        # The TensorBoard callback of tf-keras reads the function's graph at the first batch.
        traced: Any = getattr(self._model, "train_tf_function", None)
        if hasattr(traced, "get_concrete_function"):
            traced.get_concrete_function(iterator)
        for _ in range(self._ahead):
            next(iterator)
        self._ahead = 0
        if self._left > 0:
            self._drop(iterator, _steps_per_execution(self._model))
            return dict(self._logs)
        if self._rest is None or self._rest <= 0:
            self._model.train_function = self.original
        if self._rest is not None:
            if self._rest <= 0:
                raise tf.errors.OutOfRangeError(
                    None, None, "End of the epoch, which has as many batches as the earlier ones."
                )
            self._rest -= _steps_per_execution(self._model)
        return self.original(iterator)

    def _drop(self, iterator: Iterator[object], steps: int) -> None:
        for _ in range(steps):
            next(iterator)
        self._left -= steps


def _steps_per_execution(model: keras.Model) -> int:
    known: Any = getattr(model, "steps_per_execution", None) or steps_per_execution(model)
    return int(known.numpy()) if hasattr(known, "numpy") else int(known or 1)
