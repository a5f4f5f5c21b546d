"""Writes a checkpoint in the background: what `checkpoints.AsyncCheckpoints` and the Estimators' hook have in common.

A snapshot is a list of `Value`s. Taking it costs nothing, for TensorFlow's variables are copied on write: a value that
somebody still holds stays what it was, and the step that updates the variable has to copy it first. So the writing
thread moves the values to memory of its own before it writes. Training waits for that only where a step is so short
that it would find values held. That memory is kept from one checkpoint to the next, for the system takes a multiple
of the time to give out new memory as it takes to copy: the price is one more copy of the variables.

Files are in the format of `tf.train.Checkpoint` and `tf.compat.v1.train.Saver`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from ..compat.tensorflow import eager_mode, memory_of
from ..errors import CheckpointError
from ..monitoring.profile_summary import PAUSE, WRITE
from ..monitoring.progress import report_checkpoint
from ..runtime.files import file_io, storage_errors
from ..runtime.files.retry import retried

DOING = "Writing the checkpoint"  # for people
_KEPT_FROM = 1 << 20  # bytes; copying less is not worth memory of its own
_LONG_STEP = 4  # times as long as copying: then the values are free again when the gradients are there
_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of a checkpoint.

    Attributes:
      key: Its name there.
      slice_spec: Which part of it this is, as TensorFlow writes it; "" for all.
      tensor: An eager tensor or an array, which nobody changes.
    """

    key: str
    slice_spec: str
    tensor: tf.Tensor | np.ndarray


class BackgroundWriter:
    """Writes one checkpoint at a time in a thread of its own; what goes wrong there is raised by the next call."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: CheckpointError | None = None
        self._kept: dict[tuple[str, str], tf.Tensor] = {}
        self._held = 0  # bytes of the last snapshot
        self._copied = threading.Event()
        self._copying = 0.0  # seconds that it took the last time
        self._begun: tuple[int, float] | None = None  # the step of the last snapshot, and when

    def begin(self, prefix: str, step: int, values: list[Value], then: Callable[[], None]) -> None:
        """Begins to write, after the write before has ended.

        Args:
          prefix: The checkpoint's path.
          step: Its step, which tells how long a step takes.
          values: What it holds. The list is emptied.
          then: Called in the writing thread when the files are whole: to say so in the folder's state file.

        Raises:
          CheckpointError: When the write before failed.
        """
        self.wait()
        has_long_steps = self._has_long_steps(step)
        self._held = size(values)
        self._copied.clear()
        # Not a daemon: a process that ends waits for it.
        self._thread = threading.Thread(target=self._run, args=(prefix, step, values, then), name="checkpoint")
        self._thread.start()
        if not has_long_steps:
            self._copied.wait()
        self._begun = step, time.perf_counter()

    def _has_long_steps(self, step: int) -> bool:
        if self._begun is None or step <= self._begun[0]:
            return False
        seconds = (time.perf_counter() - self._begun[1]) / (step - self._begun[0])
        return seconds > _LONG_STEP * self._copying

    def has_room(self, size: int) -> bool:
        """Returns whether a copy of so many bytes is held already, or takes at most half of the memory that is free."""
        free = _free_memory()
        return self._held >= size or free is None or 2 * size <= free

    @property
    def is_busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Waits until what has begun is written.

        Raises:
          CheckpointError: When it could not be.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self, prefix: str, step: int, values: list[Value], then: Callable[[], None]) -> None:
        try:
            with tf.profiler.experimental.Trace(WRITE):
                begin = time.perf_counter()
                mine = self._taken(values)
                self._copying = time.perf_counter() - begin
                self._copied.set()
                retried(lambda: write(prefix, mine), DOING, prefix)
                retried(then, DOING, prefix)
            report_checkpoint(step)
        except Exception as error:
            self._error = refused(prefix, error)
            logging.error("%s It is raised when the next checkpoint is due, or at the end.", self._error)
        finally:
            self._copied.set()

    def _taken(self, values: list[Value]) -> list[Value]:
        """Returns the values in memory that the training does not know; lets go of each as soon as it is copied."""
        mine = []
        for place, value in enumerate(values):
            values[place] = dataclasses.replace(value, tensor=None)
            mine.append(dataclasses.replace(value, tensor=self._own(value)))
            del value
        values.clear()
        return mine

    def _own(self, value: Value) -> tf.Tensor | np.ndarray:
        source = np.asarray(value.tensor)
        if source.nbytes < _KEPT_FROM or source.dtype == object:
            return value.tensor
        place = (value.key, value.slice_spec)
        kept = self._kept.get(place)
        if kept is None or kept.shape != source.shape or kept.dtype != tf.as_dtype(source.dtype):
            with eager_mode():
                kept = self._kept[place] = tf.raw_ops.Empty(shape=source.shape, dtype=source.dtype)
        np.copyto(memory_of(kept), source)
        return kept


def pause() -> tf.profiler.experimental.Trace:
    """Marks the block for which training stands still, for the profile of `--profile`."""
    return tf.profiler.experimental.Trace(PAUSE)


def write(prefix: str, values: Sequence[Value]) -> None:
    """Writes a checkpoint's files. Whoever looks for the prefix finds nothing of it before it is whole."""
    # As tf.train.Checkpoint does it; an object store has no folders that could be renamed.
    part = f"{prefix}{'.part' if prefix.startswith('s3://') else '_temp/part'}-00000-of-00001"
    with eager_mode():
        tf.raw_ops.SaveV2(
            prefix=part,
            tensor_names=[value.key for value in values],
            shape_and_slices=[value.slice_spec for value in values],
            tensors=[tf.convert_to_tensor(value.tensor) for value in values],
        )
        tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[part], destination_prefix=prefix, delete_old_dirs=True)


def refused(prefix: str, error: Exception) -> CheckpointError:
    """Returns what to raise for a checkpoint that could not be written; deletes what there is of it.

    That may be all that fills the disk.
    """
    if not prefix.startswith("s3://"):
        with contextlib.suppress(Exception):  # it must not hide what went wrong before
            file_io.rmtree(f"{prefix}_temp")
    told = storage_errors.explained(error, DOING, prefix)
    why = str(told) if told else f"The checkpoint {prefix} could not be written: {error}."
    raised = CheckpointError(f"{why} The last checkpoint that is whole is still there; the next run goes on from it.")
    raised.__cause__ = None if told else error  # TensorFlow's frames say no more than the message
    return raised


def size(values: Sequence[Value]) -> int:
    """Returns how many bytes a copy of the values takes; strings do not count."""
    return sum(np.asarray(value.tensor).nbytes for value in values)


def _free_memory() -> int | None:
    """Returns the bytes that this machine, or this container, has left; None where Linux does not tell."""
    known = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        with open("/proc/meminfo", encoding="ascii") as file:
            known.append(next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable")))
    with contextlib.suppress(OSError, ValueError):  # "max" where there is no limit
        with open(_CONTAINER[0], encoding="ascii") as most, open(_CONTAINER[1], encoding="ascii") as now:
            known.append(int(most.read()) - int(now.read()))
    return min(known, default=None)
