"""Several training steps in one call of a `tf.function`, while Keras goes on counting them one by one.

Between two steps Keras's `fit` returns to Python, which takes as long as the step of a small model. Its own
`steps_per_execution` avoids that but changes results: Keras 3 runs past `steps_per_epoch` when that is no multiple, and
Keras 2 wants to know the number of batches. `GroupedSteps` stands in for a model's train function. When `fit` asks for
a step it runs a group of them, and answers the next calls with what that returned. So epochs, callbacks and the end of
the data are where they were, and the weights are the same to the last bit.

A callback that looks at the model after each batch would find it ahead: see `batch_watchers.py`.

Usage, for a compiled model of Keras 2 or 3:

    grouped = GroupedSteps(model, Brief(Way.of(model)))
    with grouped.in_fit():
        model.fit(dataset, callbacks=[grouped.epochs(), …])
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

import numpy as np
import tensorflow as tf

from ..compat.keras import STEPS_PER_EXECUTION, layers_of, operation_of, train_counter
from ..modules.keras_version import KERAS_PACKAGES

MIXED_POLICY = "mixed_bfloat16"  # has float32's range, so that no loss has to be scaled


@dataclasses.dataclass(frozen=True)
class Way:
    """How a step is computed.

    Attributes:
      jit_compile: Whether XLA compiles it.
      mixed: Whether it is computed in bfloat16, with variables and the model's outputs in float32; Keras 3 only.
    """

    jit_compile: bool = False
    mixed: bool = False

    @classmethod
    def of(cls, model: Any) -> Way:
        """Returns the way that a compiled model has of its own."""
        return cls(bool(getattr(model, "jit_compile", False)))


class Plan(Protocol):
    """Decides on each group of steps."""

    def next_group(self) -> tuple[Way, int]:
        """Returns how the next group is to be computed, and how many steps it may have."""

    def took(self, steps: int, seconds: float) -> None:
        """Takes note of what that group took, from its first step asked for to what comes after its last one."""

    def refused(self, way: Way, error: Exception) -> None:
        """Takes note that a step cannot be computed that way; it was computed in the model's own."""


@dataclasses.dataclass
class Brief:
    """The plan of groups that are larger the shorter a step is, so that nothing has to wait long for a group's end.

    Attributes:
      way: How all are computed.
      size: Steps of the next one.
    """

    _SECONDS: ClassVar[float] = 0.1  # that a group may take
    _MOST: ClassVar[int] = 64  # steps; more were no faster (benchmarks/training_loops.py)

    way: Way
    size: int = 1

    def next_group(self) -> tuple[Way, int]:
        """Returns the way and the size."""
        return self.way, self.size

    def took(self, steps: int, seconds: float) -> None:
        """Doubles the size, or halves it."""
        if seconds > self._SECONDS:
            self.size = max(1, self.size // 2)
        elif steps == self.size and seconds < self._SECONDS / 2:
            self.size = min(2 * self.size, self._MOST)

    def refused(self, way: Way, error: Exception) -> None:
        """Cannot be."""


class GroupedSteps:
    """A train function that runs several steps at a time."""

    def __init__(self, model: Any, plan: Plan, room: Callable[[], int] | None = None, counts_end: bool = True) -> None:
        """Makes the function; nothing is traced yet.

        Args:
          model: Compiled; of Keras 2 or 3.
          plan: Decides on the groups.
          room: Says before each group how many steps it may have at most, for reasons of the loop.
          counts_end: Whether a step is run at the end of the data, too, as Keras does. It gets no batch, but what in it
            needs none is done: Adam counts it.
        """
        self._model = model
        self._plan = plan
        self._room = room
        self._counts_end = counts_end
        self._own = Way.of(model)
        self._functions = {self._own: _Functions(model, self._own)}
        self._instead: Any = None
        self._logs: Any = None
        self._left = 0  # steps of the group that fit has not asked for
        self._steps = 0  # of the group
        self._seconds = 0.0  # that the group has taken so far
        self._returned: float | None = None  # when fit was last given a step of this epoch
        self._asked = 0  # for steps, in this epoch
        self._known: int | None = None  # steps in an epoch

    def __call__(self, iterator: Any) -> Any:
        """Does for one step what `fit` expects of a train function.

        Raises:
          OutOfRangeError: When the data is at its end.
        """
        begin = time.perf_counter()
        if self._returned is not None:
            self._seconds += begin - self._returned
        if not self._left:
            self._report()
            if self._instead is not None or not self._can_be_traced(iterator):
                return self._instead(iterator)
            self._run_group(iterator)
        self._left -= 1
        self._asked += 1
        self._returned = time.perf_counter()
        self._seconds += self._returned - begin
        return self._logs

    @property
    def is_ahead(self) -> bool:
        """Whether the model has been trained on batches that `fit` has not counted yet."""
        return self._left > 0

    def passed_over(self, steps: int) -> None:
        """Takes note of steps that `fit` has counted and that were not run."""
        self._asked += steps

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

    def epochs(self, steps_per_epoch: int | None = None) -> Any:
        """Returns the callback that `fit` has to have: no group may reach into the next epoch.

        Args:
          steps_per_epoch: The argument of `fit`.
        """
        grouped, learns = self, steps_per_epoch is None
        self._known = steps_per_epoch

        class Epochs(keras_of(self._model).callbacks.Callback):  # type: ignore[misc]
            """Tells the groups where epochs begin, and how long they are once one has been seen."""

            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                grouped._report()
                grouped._asked = grouped._left = 0
                grouped._returned = None

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                if learns and grouped._known is None:  # Keras keeps to the first epoch's number
                    grouped._known = grouped._asked

        return Epochs()

    def _report(self) -> None:
        if self._steps:
            self._plan.took(self._steps, self._seconds)
        self._steps, self._seconds = 0, 0.0

    def _can_be_traced(self, iterator: Any) -> bool:
        """Returns whether a group can be run at all; else Keras's own function says what is wrong, or does it."""
        try:
            self._functions[self._own].run.get_concrete_function(iterator, tf.constant(1))
        except Exception:
            self._model.train_function = None
            self._instead = self._model.make_train_function() or self._model.train_function
            return False
        return True

    def _run_group(self, iterator: Any) -> None:
        way, most = self._plan.next_group()
        if self._room is not None:
            most = min(most, self._room())
        if self._known is not None:
            most = min(most, self._known - self._asked)
        if way not in self._functions:
            self._left = self._steps = self._prove(way, iterator)
        else:
            count, self._logs = self._functions[way].run(iterator, tf.constant(max(1, most)))
            self._left = self._steps = int(count)
        if not self._left:
            self._logs = self._functions[self._own].single(iterator) if self._counts_end else iterator.get_next()
            self._left = self._steps = 1

    def _prove(self, way: Way, iterator: Any) -> int:
        """Runs one step in a way that may not be possible, such as XLA's, without losing its batch if it is not."""
        batch = iterator.get_next_as_optional()
        if not batch.has_value():
            return 0
        data = batch.get_value()
        functions = _Functions(self._model, way)
        try:
            self._logs = functions.step(data)
        except Exception as error:
            self._plan.refused(way, error)
            self._logs = self._functions[self._own].step(data)
        else:
            self._functions[way] = functions
        return 1


class _One(int):
    """Stands in for a variable that is 1, for to read one takes as long as a twentieth of a small model's step."""

    def numpy(self) -> Any:
        """Returns the value."""
        return np.int64(self)

    def assign(self, value: int) -> None:
        """Does nothing: Keras 2 would put back what was there, or another value for an epoch without a step."""


def keras_of(model: Any) -> Any:
    """Returns the Keras package that a model is of, which need not be the one that `tf.keras` is."""
    packages = (kind.__module__.partition(".")[0] for kind in type(model).__mro__)
    return importlib.import_module(next(package for package in packages if package in KERAS_PACKAGES))


class _Functions:
    """The functions of one way.

    Attributes:
      step: Trains on a batch.
      run: Trains on as many batches of an iterator as it is told, or as there are; returns how many, and the logs.
      single: Trains on the next batch of an iterator.
    """

    def __init__(self, model: Any, way: Way) -> None:
        counter = train_counter(model)

        def train(data: Any) -> Any:
            # Keras 3 has an Optional in its data for a sample weight that is not there.
            data = tf.nest.map_structure(lambda one: None if isinstance(one, tf.experimental.Optional) else one, data)
            with _mixed(model) if way.mixed else contextlib.nullcontext():
                logs = model.train_step(data)
            if counter is not None:
                with tf.control_dependencies(tf.nest.flatten(logs)):
                    counter.assign_add(1)
            return logs

        # AutoGraph is left to what is called: a step of a user's is converted by Keras, as ever.
        plain = tf.autograph.experimental.do_not_convert
        step = tf.function(plain(train), reduce_retracing=True, jit_compile=way.jit_compile or None)

        def run(iterator: Any, most: Any) -> Any:
            logs = step.get_concrete_function(iterator.element_spec).structured_outputs
            blank = tf.nest.map_structure(lambda log: tf.zeros([size or 0 for size in log.shape], log.dtype), logs)

            def is_due(count: Any, batch: Any, logs: Any) -> Any:
                del logs
                return tf.logical_and(count < most, batch.has_value())

            def do(count: Any, batch: Any, logs: Any) -> Any:
                logs = step(batch.get_value())
                count += 1
                return count, tf.cond(count < most, iterator.get_next_as_optional, lambda: batch), logs

            begin = (tf.constant(0), iterator.get_next_as_optional(), blank)
            count, _, logs = tf.while_loop(is_due, do, begin)
            return count, logs

        self.step = step
        self.run = tf.function(plain(run), reduce_retracing=True)
        self.single = tf.function(plain(lambda iterator: step(iterator.get_next())), reduce_retracing=True)


@contextlib.contextmanager
def _mixed(model: Any) -> Iterator[None]:
    """Has the layers of a Keras 3 model compute in bfloat16 while a step is traced, except those that give outputs."""
    outputs = {id(operation_of(tensor)) for tensor in getattr(model, "outputs", None) or ()}
    layers = [layer for layer in layers_of(model) if id(layer) not in outputs]
    policies = [(layer, layer.dtype_policy) for layer in layers if layer.dtype_policy.name == "float32"]
    try:
        for layer, _ in policies:
            layer.dtype_policy = MIXED_POLICY
        yield
    finally:
        for layer, policy in policies:
            layer.dtype_policy = policy
