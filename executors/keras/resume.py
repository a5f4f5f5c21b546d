"""Has Keras's `fit` begin in the middle: with a later epoch, and behind the batches that were trained before.

Usage, in a callback's `on_train_begin`:

    begin_at(model, 3)                                       # the fourth epoch
    model.train_function = Dropping(model, 0, 7, logs, None) # and of that the eighth batch
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ..compat.keras import steps_per_execution

if TYPE_CHECKING:
    import keras


class Dropping:
    """Stands in for a model's train function until the batches that were trained before are through.

    Attributes:
      own: That function.
    """

    def __init__(self, model: keras.Model, ahead: int, batches: int, logs: dict[str, float], rest: int | None) -> None:
        """Takes its place.

        Args:
          model: In a fit that begins.
          ahead: Batches to drop that `fit` is not to count.
          batches: Batches to drop.
          logs: Are returned for these.
          rest: How many batches the epoch has then, if it is not to be tried whether there is one more.
        """
        self.own: Callable[[Iterator[object]], Mapping[str, object]] = model.train_function
        self._model = model
        self._ahead, self._left, self._logs, self._rest = ahead, batches, logs, rest

    def __call__(self, iterator: Iterator[object]) -> Mapping[str, object]:
        """Drops a step's batches, or has the model trained.

        Raises:
          OutOfRangeError: When the epoch is at its end.
        """
        # tf-keras's TensorBoard looks for the function's graph at the first batch.
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
            self._model.train_function = self.own
        if self._rest is not None:
            if self._rest <= 0:
                raise tf.errors.OutOfRangeError(None, None, "The epoch is as long as the ones before.")
            self._rest -= _steps_per_execution(self._model)
        return self.own(iterator)

    def _drop(self, iterator: Iterator[object], steps: int) -> None:
        for _ in range(steps):
            next(iterator)
        self._left -= steps


def _steps_per_execution(model: keras.Model) -> int:
    known: Any = getattr(model, "steps_per_execution", None) or steps_per_execution(model)
    return int(known.numpy()) if hasattr(known, "numpy") else int(known or 1)
