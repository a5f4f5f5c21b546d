"""Runs several training steps of an ElasticDL job per call of the train function.

For a small model, Keras's Python overhead between two steps exceeds the time of a step. Keras's `steps_per_execution`
solves this with a fixed number of steps; here, a group ends at the next due event: an evaluation, a checkpoint, a log
line or the last step. Callbacks that inspect the model after each batch would find it ahead of that batch; see
`batch_callbacks.py`.

Usage, for a compiled model:

    grouped = GroupedSteps(model, dataset, max_steps=lambda: 20 - step % 20)
    with grouped.in_fit(batch_size) as data:
        model.fit(data, callbacks=[grouped.epochs(), …])
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ...compat.keras import STEPS_PER_EXECUTION, train_counter
from .passes import Passes, endless_stand_in, next_optional
from .shim.tensor_values import Tensors

_TARGET_SECONDS = 0.1  # target maximum duration of a group, which bounds the wait for its end
_MAX_STEPS = 64  # steps of a group; larger groups were no faster (benchmarks/training_loops.py)


class GroupedSteps:
    """A train function that runs several steps per call; the group size adapts to the step time.

    Attributes:
      size: The number of steps of the next group, unless `max_steps` or the epoch limits it; 1 to 64.
    """

    def __init__(self, model: tf.keras.Model, dataset: tf.data.Dataset, max_steps: Callable[[], int]) -> None:
        """Creates the train function; it is traced at its first call.

        Args:
          model: A compiled Keras 2 or Keras 3 model.
          dataset: The batches of an epoch; each epoch reads it again.
          max_steps: Called before each group; returns the maximum number of steps for it.
        """
        self.size = 1
        self._model = model
        self._dataset = dataset
        self._passes = Passes(dataset)
        self._iterator: tf.data.Iterator | None = None  # of the current epoch
        self._is_pass_over = True
        self._max_steps = max_steps
        self._run = _make_train_function(model, dataset.element_spec)
        self._is_traced = False
        self._fallback: Any = None
        self._logs: Mapping[str, tf.Tensor] | None = None
        self._remaining = 0  # steps of the group that have run, but that fit has not requested yet
        self._steps = 0  # steps of the current group
        self._seconds = 0.0  # duration of the current group so far
        self._returned: float | None = None  # time of the last return to fit in this epoch
        self._requested = 0  # steps that fit has requested in this epoch
        self._steps_per_epoch: int | None = None  # steps per epoch

    def __call__(self, iterator: tf.data.Iterator) -> Mapping[str, tf.Tensor] | None:
        """Implements Keras's train function for one step: runs a group, or returns the logs of the current one.

        Args:
          iterator: The iterator over the stand-in of `in_fit`; ignored.

        Raises:
          OutOfRangeError: At the end of an epoch's data.
        """
        begin = time.perf_counter()
        if self._returned is not None:
            self._seconds += begin - self._returned
        if not self._remaining:
            self._resize()
            if self._fallback is not None or not self._can_be_traced():
                logs: Mapping[str, tf.Tensor] = self._fallback(self._iterator)
                return logs
            self._run_group()
        self._remaining -= 1
        self._requested += 1
        self._returned = time.perf_counter()
        self._seconds += self._returned - begin
        return self._logs

    @contextlib.contextmanager
    def in_fit(self, batch_size: int) -> Iterator[tf.data.Dataset]:
        """Replaces the model's train function for the duration of a block that calls `fit` with the yielded dataset.

        Args:
          batch_size: Number of examples in a step, for observers of `fit`.
        """
        attributes = vars(self._model)  # bypasses Keras, which would track a variable as a weight
        steps_per_execution = attributes.get(STEPS_PER_EXECUTION)  # a variable that Keras 2 reads at each step
        one = _ConstantOne(1)
        self._model.train_function = self
        if hasattr(steps_per_execution, "assign"):
            attributes[STEPS_PER_EXECUTION] = one
        iter(self._dataset)  # a shuffled dataset's next order: Keras 2 skips one, and so did resumed jobs
        try:
            yield endless_stand_in(batch_size)
        finally:
            self._model.train_function = None
            if attributes.get(STEPS_PER_EXECUTION) is one:
                attributes[STEPS_PER_EXECUTION] = steps_per_execution

    def epochs(self) -> tf.keras.callbacks.Callback:
        """Returns a callback that must be passed to `fit`; it prevents groups from crossing epoch boundaries."""
        grouped = self

        class Epochs(tf.keras.callbacks.Callback):  # type: ignore[misc]
            """Resets the group at the start of each epoch, and records the number of steps of the first epoch."""

            def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                grouped._resize()
                grouped._begin_pass()
                grouped._requested = grouped._remaining = 0
                grouped._returned = None

            def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                if grouped._steps_per_epoch is None:  # Keras uses the first epoch's number for all epochs
                    grouped._steps_per_epoch = grouped._requested

        return Epochs()

    def _resize(self) -> None:
        """Doubles or halves the group size depending on the duration of the last group."""
        if self._seconds > _TARGET_SECONDS:
            self.size = max(1, self.size // 2)
        elif self._steps == self.size and self._seconds < _TARGET_SECONDS / 2:  # only for full groups
            self.size = min(2 * self.size, _MAX_STEPS)
        self._steps, self._seconds = 0, 0.0

    def _begin_pass(self) -> None:
        """Moves to the start of a pass. Keras does not request the end of the data after the first epoch."""
        if not self._is_pass_over and next_optional(self._iterator).has_value():
            self._passes.restart()  # this pass has more batches than the first epoch
        self._iterator = self._passes.begin(None if self._fallback is not None else self._steps_per_epoch)
        self._is_pass_over = False

    def _can_be_traced(self) -> bool:
        """Returns whether the train function can be traced.

        If not, Keras's own train function is used instead, which raises the original error or works.
        """
        if self._is_traced:
            return True
        try:
            self._run.get_concrete_function(self._iterator, tf.constant(1))
        except Exception:
            self._model.train_function = None
            self._fallback = self._model.make_train_function() or self._model.train_function
            return False
        self._is_traced = True
        return True

    def _run_group(self) -> None:
        limit = min(self.size, self._max_steps())
        if self._steps_per_epoch is not None:
            limit = min(limit, self._steps_per_epoch - self._requested)
        limit = max(1, limit)
        if not self._is_pass_over:
            count, self._logs = self._run(self._iterator, tf.constant(limit))
            self._remaining = self._steps = int(count)
            self._is_pass_over = self._remaining < limit
        if not self._remaining:
            raise tf.errors.OutOfRangeError(None, None, "End of sequence")


class _ConstantOne(int):
    """Replacement for a variable of value 1; reading a variable takes a twentieth of a small model's step."""

    def numpy(self) -> np.int64:
        """Returns the value."""
        value: np.int64 = np.int64(self)
        return value

    def assign(self, value: int) -> None:
        """No-op; Keras 2 assigns the original value, or another one for an epoch without a step."""


def _make_train_function(model: tf.keras.Model, batch_spec: tf.TypeSpec) -> tf.types.experimental.PolymorphicFunction:
    """Returns a `tf.function` (iterator, maximum number of batches) that trains on that many batches, or all left.

    The iterator is one of `Passes`. The function returns the number of trained batches, and the logs of the last one.
    """
    counter = train_counter(model)

    def train(data: Sequence[Tensors]) -> Mapping[str, tf.Tensor]:
        # Keras 3 represents a missing sample weight in its data by an Optional.
        data = tf.nest.map_structure(lambda one: None if isinstance(one, tf.experimental.Optional) else one, data)
        logs: Mapping[str, tf.Tensor] = model.train_step(data)
        if counter is not None:
            with tf.control_dependencies(tf.nest.flatten(logs)):
                counter.assign_add(1)
        return logs

    # No AutoGraph for these wrappers; Keras converts a user's train step as usual.
    plain = tf.autograph.experimental.do_not_convert
    jit_compile = getattr(model, "jit_compile", None) or None
    step = tf.function(plain(train), reduce_retracing=True, jit_compile=jit_compile)

    def run(iterator: tf.data.Iterator, limit: tf.Tensor) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
        logs = step.get_concrete_function(batch_spec).structured_outputs
        blank = tf.nest.map_structure(lambda log: tf.zeros([size or 0 for size in log.shape], log.dtype), logs)

        def is_due(count: tf.Tensor, batch: tf.experimental.Optional, logs: Mapping[str, tf.Tensor]) -> tf.Tensor:
            del logs
            return tf.logical_and(count < limit, batch.has_value())

        def body(
            count: tf.Tensor, batch: tf.experimental.Optional, logs: Mapping[str, tf.Tensor]
        ) -> tuple[tf.Tensor, tf.experimental.Optional, Mapping[str, tf.Tensor]]:
            logs = step(batch.get_value())
            count += 1
            return count, tf.cond(count < limit, lambda: next_optional(iterator), lambda: batch), logs

        begin = (tf.constant(0), next_optional(iterator), blank)
        count, _, logs = tf.while_loop(is_due, body, begin)
        return count, logs

    return tf.function(plain(run), reduce_retracing=True)
