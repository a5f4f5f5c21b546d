"""Runs several steps of an ElasticDL job in one call, where nothing is due between them.

For a small model Keras's own Python between two steps takes longer than the step. Keras's `steps_per_execution` does
the same with a number that stays; here each group's size depends on what is due next: an evaluation, a checkpoint, a
log line, the last step. A callback that looks at the model after each batch would find it ahead: see
`batch_watchers.py`.

Usage, for a compiled model:

    grouped = GroupedSteps(model, room=lambda: 20 - step % 20)
    with grouped.in_fit():
        model.fit(dataset, callbacks=[grouped.epochs(), …])
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ...compat.keras import STEPS_PER_EXECUTION, train_counter
from .shim.tensor_values import Tensors

_SECONDS = 0.1  # that a group may take, so that nothing has to wait long for its end
_MOST = 64  # steps of a group; more were no faster (benchmarks/training_loops.py)


class GroupedSteps:
    """A train function that runs several steps at a time: more, the shorter a step is.

    Attributes:
      size: Steps of the next group, if there is room for as many.
    """

    def __init__(self, model: tf.keras.Model, room: Callable[[], int]) -> None:
        """Makes the function; nothing is traced yet.

        Args:
          model: Compiled; of Keras 2 or 3.
          room: Says before each group how many steps it may have at most.
        """
        self.size = 1
        self._model = model
        self._room = room
        self._run = _function(model)
        self._instead: Any = None
        self._logs: Mapping[str, tf.Tensor] | None = None
        self._left = 0  # steps of the group that fit has not asked for
        self._steps = 0  # of the group
        self._seconds = 0.0  # that the group has taken so far
        self._returned: float | None = None  # when fit was last given a step of this epoch
        self._asked = 0  # for steps, in this epoch
        self._known: int | None = None  # steps in an epoch

    def __call__(self, iterator: tf.data.Iterator) -> Mapping[str, tf.Tensor] | None:
        """Does for one step what `fit` expects of a train function.

        Raises:
          OutOfRangeError: When the data is at its end.
        """
        begin = time.perf_counter()
        if self._returned is not None:
            self._seconds += begin - self._returned
        if not self._left:
            self._resize()
            if self._instead is not None or not self._can_be_traced(iterator):
                logs: Mapping[str, tf.Tensor] = self._instead(iterator)
                return logs
            self._run_group(iterator)
        self._left -= 1
        self._asked += 1
        self._returned = time.perf_counter()
        self._seconds += self._returned - begin
        return self._logs

    @contextlib.contextmanager
    def in_fit(self) -> Iterator[None]:
        """Takes the place of the model's train function, for a block that fits it."""
        attributes = vars(self._model)  # set here, for the model would take a variable for one of its weights
        known = attributes.get(STEPS_PER_EXECUTION)  # a variable that Keras 2 reads at each step
        one = _One(1)
        self._model.train_function = self
        if hasattr(known, "assign"):
            attributes[STEPS_PER_EXECUTION] = one
        try:
            yield
        finally:
            self._model.train_function = None
            if attributes.get(STEPS_PER_EXECUTION) is one:
                attributes[STEPS_PER_EXECUTION] = known

    def epochs(self) -> tf.keras.callbacks.Callback:
        """Returns the callback that `fit` has to have: no group may reach into the next epoch."""
        grouped = self

        class Epochs(tf.keras.callbacks.Callback):  # type: ignore[misc]
            """Tells the groups where epochs begin, and how long they are once one has been seen."""

            def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                grouped._resize()
                grouped._asked = grouped._left = 0
                grouped._returned = None

            def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                if grouped._known is None:  # Keras keeps to the first epoch's number
                    grouped._known = grouped._asked

        return Epochs()

    def _resize(self) -> None:
        """Doubles the size, or halves it, by what the last group took."""
        if self._seconds > _SECONDS:
            self.size = max(1, self.size // 2)
        elif self._steps == self.size and self._seconds < _SECONDS / 2:  # the last of an epoch may be smaller
            self.size = min(2 * self.size, _MOST)
        self._steps, self._seconds = 0, 0.0

    def _can_be_traced(self, iterator: tf.data.Iterator) -> bool:
        """Returns whether a group can be run at all; else Keras's own function says what is wrong, or does it."""
        try:
            self._run.get_concrete_function(iterator, tf.constant(1))
        except Exception:
            self._model.train_function = None
            self._instead = self._model.make_train_function() or self._model.train_function
            return False
        return True

    def _run_group(self, iterator: tf.data.Iterator) -> None:
        most = min(self.size, self._room())
        if self._known is not None:
            most = min(most, self._known - self._asked)
        count, self._logs = self._run(iterator, tf.constant(max(1, most)))
        self._left = self._steps = int(count)
        if not self._left:
            iterator.get_next()  # raises OutOfRangeError


class _One(int):
    """Stands in for a variable that is 1, for to read one takes as long as a twentieth of a small model's step."""

    def numpy(self) -> np.int64:
        """Returns the value."""
        value: np.int64 = np.int64(self)
        return value

    def assign(self, value: int) -> None:
        """Does nothing: Keras 2 would put back what was there, or another value for an epoch without a step."""


def _function(model: tf.keras.Model) -> tf.types.experimental.PolymorphicFunction:
    """Returns a function that trains on as many batches of an iterator as it is told, or as there are.

    It returns how many these were, and the logs of the last one.
    """
    counter = train_counter(model)

    def train(data: Sequence[Tensors]) -> Mapping[str, tf.Tensor]:
        # Keras 3 has an Optional in its data for a sample weight that is not there.
        data = tf.nest.map_structure(lambda one: None if isinstance(one, tf.experimental.Optional) else one, data)
        logs: Mapping[str, tf.Tensor] = model.train_step(data)
        if counter is not None:
            with tf.control_dependencies(tf.nest.flatten(logs)):
                counter.assign_add(1)
        return logs

    # AutoGraph is left to what is called: a step of a user's is converted by Keras, as ever.
    plain = tf.autograph.experimental.do_not_convert
    jit_compile = getattr(model, "jit_compile", None) or None
    step = tf.function(plain(train), reduce_retracing=True, jit_compile=jit_compile)

    def run(iterator: tf.data.Iterator, most: tf.Tensor) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
        logs = step.get_concrete_function(iterator.element_spec).structured_outputs
        blank = tf.nest.map_structure(lambda log: tf.zeros([size or 0 for size in log.shape], log.dtype), logs)

        def is_due(count: tf.Tensor, batch: tf.experimental.Optional, logs: Mapping[str, tf.Tensor]) -> tf.Tensor:
            del logs
            return tf.logical_and(count < most, batch.has_value())

        def do(
            count: tf.Tensor, batch: tf.experimental.Optional, logs: Mapping[str, tf.Tensor]
        ) -> tuple[tf.Tensor, tf.experimental.Optional, Mapping[str, tf.Tensor]]:
            logs = step(batch.get_value())
            count += 1
            return count, tf.cond(count < most, iterator.get_next_as_optional, lambda: batch), logs

        begin = (tf.constant(0), iterator.get_next_as_optional(), blank)
        count, _, logs = tf.while_loop(is_due, do, begin)
        return count, logs

    return tf.function(plain(run), reduce_retracing=True)
