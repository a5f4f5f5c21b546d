"""Trains an ElasticDL job, with as many steps in a call as until the next due event.

For a small model, the Python overhead between two steps exceeds the time of a step. Keras's `steps_per_execution` has a
fixed size, and for data of unknown length Keras 2 drops the logs of an epoch's last group and truncates later epochs.
Here, a call ends at the next log line, checkpoint or evaluation, at the end of the epoch, or after a tenth of a second.
If a callback acts on each batch, a call has one step; see `batch_callbacks.py`.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import tensorflow as tf

from ...compat.keras import train_counter
from ...keras.interception import observed_fit
from ...runtime.process.preemption import deferred_sigterm
from .batch_callbacks import find_batch_callback
from .checkpoints import Checkpoints
from .end_marks import with_end_marks
from .job import Job
from .schedule import ENDLESS, Schedule
from .shared_batches import share
from .shim.tensor_values import Tensors

if TYPE_CHECKING:
    import keras

_TARGET_SECONDS = 0.1  # target maximum duration of a call, which bounds the wait for its end
_MAX_STEPS = 64  # steps of a call; more were no faster (benchmarks/training_loops.py)


class Steps(Protocol):
    """Trains a job on the batches of an epoch.

    Attributes:
      at_once: Number of batches that are trained at the same time.
    """

    at_once: int

    def begin_epoch(self, dataset: tf.data.Dataset) -> None:
        """Begins a pass over the batches of a dataset; a pass over the same one as before has its next order."""

    def run(self, limit: int, announce: Callable[[], None]) -> tuple[int, float]:
        """Trains on the next batches.

        Args:
          limit: Maximum number of batches.
          announce: Called before each batch, as far as batches are trained one by one.

        Returns:
          The number of batches, 0 at the end of the epoch, and the epoch's mean loss so far.
        """


class LocalSteps:
    """Trains with a graph of several steps; their number adapts to their duration.

    A training uses the same graph from its first to its last step, since Keras 2's dropout has a sequence of masks for
    each graph: after a change of graphs, the first masks would be repeated.

    Args:
      job: The compiled job.
      one_by_one: Whether each batch is announced before its step; each call must then have one step.

    Attributes:
      at_once: See `Steps`.
      size: Maximum number of steps of the next call, 1 to 64.
    """

    at_once = 1

    def __init__(self, job: Job, one_by_one: bool = False) -> None:
        self.size = 1
        self._one_by_one = one_by_one
        self._step = _make_step(job)
        self._run = _make_steps(self._step)
        self._dataset: tf.data.Dataset | None = None
        self._iterator: tf.data.Iterator | None = None
        self._is_over = False

    def begin_epoch(self, dataset: tf.data.Dataset) -> None:
        """Implements `Steps`."""
        if dataset is not self._dataset or not self._is_over:
            # Traced here, so that errors of the file are not those of a converted loop.
            self._step.get_concrete_function(dataset.element_spec)
            iter(dataset)  # takes the first order of a shuffled one, as Keras 2's `fit` does in the case of replicas
            self._dataset, self._iterator = dataset, iter(with_end_marks(dataset))
        self._is_over = False

    def run(self, limit: int, announce: Callable[[], None]) -> tuple[int, float]:
        """Implements `Steps`."""
        if self._is_over:
            return 0, 0.0
        start, limit = time.perf_counter(), min(limit, self.size)
        trained, loss = self._run_one(announce) if self._one_by_one else self._run_several(limit, announce)
        self._is_over = trained < limit
        self.resize(trained, time.perf_counter() - start)
        return trained, float(loss)

    def _run_one(self, announce: Callable[[], None]) -> tuple[int, tf.Tensor]:
        """Runs a step, which is announced when there is a batch for it."""
        assert self._iterator is not None
        batch = self._iterator.get_next()
        if not batch.has_value():
            return 0, tf.constant(0.0)
        announce()
        return 1, self._step(batch.get_value())

    def _run_several(self, limit: int, announce: Callable[[], None]) -> tuple[int, tf.Tensor]:
        """Runs steps in one graph, and announces them afterwards: no callback of the file acts on each batch."""
        count, loss = self._run(self._iterator, tf.constant(limit))
        for _ in range(int(count)):
            announce()
        return int(count), loss

    def resize(self, count: int, seconds: float) -> None:
        """Doubles or halves `size` by the duration of the last call; only full calls double it."""
        if seconds > _TARGET_SECONDS:
            self.size = max(1, self.size // 2)
        elif count == self.size and seconds < _TARGET_SECONDS / 2:
            self.size = min(2 * self.size, _MAX_STEPS)


def _make_step(job: Job) -> tf.types.experimental.PolymorphicFunction:
    """Returns a `tf.function` that trains on a batch and returns the epoch's mean loss so far."""
    counter = train_counter(job)

    def train(batch: tuple[Tensors, Tensors]) -> tf.Tensor:
        loss = job.train_step(batch)["loss"]
        if counter is not None:
            with tf.control_dependencies([loss]):
                counter.assign_add(1)
        return loss

    # As in Keras, AutoGraph does not convert the file's loss.
    plain = tf.autograph.experimental.do_not_convert(train)
    return tf.function(plain, reduce_retracing=True, jit_compile=getattr(job, "jit_compile", None) or None)


def _make_steps(step: tf.types.experimental.PolymorphicFunction) -> tf.types.experimental.PolymorphicFunction:
    """Returns a `tf.function` that runs a step for the next batches of an iterator over `with_end_marks`.

    It takes the iterator and the maximum number of batches, and returns their number and the epoch's mean loss so far.
    """

    def run(batches: tf.data.Iterator, limit: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        count, loss = tf.constant(0), tf.constant(0.0)
        for _ in tf.range(limit):
            batch = batches.get_next()
            if not batch.has_value():
                break
            loss = step(batch.get_value())
            count += 1
        return count, loss

    return tf.function(run, reduce_retracing=True)


def fit(
    job: Job,
    training: Callable[[int, int], tf.data.Dataset],
    checkpoints: Checkpoints,
    schedule: Schedule,
    callbacks: Sequence[keras.callbacks.Callback],
    steps: Steps | None = None,
) -> None:
    """Trains from the job's current position: the rest of an interrupted epoch, then the remaining epochs.

    Args:
      job: The compiled job.
      training: A function (epoch, records to skip) that returns the batches of (features, labels) of that epoch;
        further iterations of the dataset give the following epochs.
      checkpoints: Provides the epoch and the record to start from.
      schedule: The callback for logging, checkpoints and evaluations, with the options.
      callbacks: The file's Keras callbacks.
      steps: Trains on the batches; by default in this process.
    """
    options = schedule.options
    if 0 < options.max_step <= int(job.step.numpy()):
        return
    first, skip = int(checkpoints.epoch.numpy()), int(checkpoints.records.numpy())
    if skip and next(iter(training(first, skip).take(1)), None) is None:  # saved at the epoch's last step
        first, skip = first + 1, 0
    epochs = options.num_epochs if options.num_epochs > 0 else ENDLESS
    replicas = job.distribute_strategy.num_replicas_in_sync
    if replicas > 1:
        data = (share(dataset, replicas, options.minibatch_size) for dataset in _epochs(training, first, skip))
        _fit_replicas(job, data, [schedule, *callbacks], first, epochs, is_partial=skip > 0)
        return
    one_by_one = bool(find_batch_callback(callbacks))
    chosen = steps or LocalSteps(job, one_by_one)
    most = chosen.at_once if one_by_one else ENDLESS

    def limit() -> int:
        return min(most, schedule.steps_until_due())

    def loop(
        model: Job, *, callbacks: Sequence[keras.callbacks.Callback], initial_epoch: int, epochs: int, batch_size: int
    ) -> object:
        del batch_size  # for observers
        data = _epochs(training, first, skip)
        return _train(model, range(initial_epoch, epochs), data, callbacks, chosen, limit)

    with deferred_sigterm():
        observed_fit(
            loop, job, callbacks=[schedule, *callbacks], initial_epoch=first, epochs=epochs,
            batch_size=options.minibatch_size,
        )  # fmt: skip


def _epochs(training: Callable[[int, int], tf.data.Dataset], first: int, skip: int) -> Iterator[tf.data.Dataset]:
    """Yields the dataset of each epoch from `first` on: the same one, except for an epoch without its first records."""
    if skip:
        yield training(first, skip)
        first += 1
    yield from itertools.repeat(training(first, 0))


def _train(
    job: Job,
    epochs: range,
    data: Iterable[tf.data.Dataset],
    callbacks: Sequence[keras.callbacks.Callback],
    steps: Steps,
    limit: Callable[[], int],
) -> object:
    """Trains on a dataset for each epoch, like `fit`; `limit` returns the maximum number of steps of the next call."""
    hooks = tf.keras.callbacks.CallbackList(callbacks, add_history=True, model=job, epochs=epochs.stop, verbose=0)
    job.stop_training = False
    hooks.on_train_begin()
    for epoch, dataset in zip(epochs, data, strict=False):
        hooks.on_epoch_begin(epoch)
        job.reset_metrics()
        steps.begin_epoch(dataset)
        done = 0
        logs: dict[str, float] = {}
        announce = functools.partial(_announce, hooks, itertools.count())
        while not job.stop_training:
            count, loss = steps.run(limit(), announce)
            if not count:
                break
            logs = {"loss": loss}
            for number in range(done, done + count):
                hooks.on_train_batch_end(number, logs)
            done += count
        hooks.on_epoch_end(epoch, logs)
        if job.stop_training:
            break
    hooks.on_train_end()
    return job.history


def _announce(hooks: keras.callbacks.CallbackList, numbers: Iterator[int]) -> None:
    hooks.on_train_batch_begin(next(numbers))


def _fit_replicas(
    job: Job,
    data: Iterator[tf.data.Dataset],
    callbacks: Sequence[keras.callbacks.Callback],
    first: int,
    epochs: int,
    is_partial: bool,
) -> None:
    """Trains with Keras's `fit`, on several replicas. They do not save on preemption, but resume from a checkpoint."""
    if is_partial:
        job.fit(next(data), initial_epoch=first, epochs=first + 1, callbacks=callbacks, verbose=0)
        first += 1
    if first < epochs and not job.stop_training:
        job.fit(next(data), initial_epoch=first, epochs=epochs, callbacks=callbacks, verbose=0)
