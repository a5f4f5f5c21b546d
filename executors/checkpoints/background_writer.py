"""Background writing of checkpoints, shared by `AsyncCheckpoints` and the Estimators' checkpoint hook.

A snapshot is a list of `Value`s. Taking it is free, because TensorFlow's variables are copy-on-write: a tensor that is
still referenced keeps its value, and the step that updates the variable must copy it first. The writing thread
therefore copies the values to its own buffers before it writes, and releases them. Training waits for this copy only if
steps are so short that the next update would find the values still referenced. The buffers are kept between
checkpoints, since allocating memory takes several times as long as copying; the price is the memory for one more copy
of the variables.

The file format is that of `tf.train.Checkpoint` and `tf.compat.v1.train.Saver`.
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
from ..monitoring.progress import report_checkpoint, report_details
from ..runtime.files import file_io, storage_errors
from ..runtime.files.retry import retry_call
from .synced import sync_checkpoint

OPERATION = "Writing the checkpoint"  # for messages
PAUSE, _WRITE = "checkpoint", "checkpoint/write"  # names in profiles
_MIN_KEPT_BYTES = 1 << 20  # minimum size in bytes of values that are copied to a buffer
_LONG_STEP = 4  # ratio of step time to copy time from which values are released before the variables are updated
_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of a checkpoint.

    Attributes:
      key: Name in the checkpoint.
      slice_spec: TensorFlow's slice specification if this is a part of a partitioned variable; "" for a whole tensor.
      tensor: An eager tensor or an array, which must not be modified.
    """

    key: str
    slice_spec: str
    tensor: tf.Tensor | np.ndarray


class BackgroundWriter:
    """Writes one checkpoint at a time in a thread; the next call of `begin` or `wait` raises an error of the thread."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: CheckpointError | None = None
        self._kept: dict[tuple[str, str], tf.Tensor] = {}
        self._held = 0  # size of the last snapshot in bytes
        self._copied = threading.Event()
        self._copying = 0.0  # seconds that the last copy took
        self._begun: tuple[int, float] | None = None  # step and time of the last snapshot

    def begin(self, prefix: str, step: int, values: list[Value], on_done: Callable[[], None]) -> None:
        """Starts writing a checkpoint; first waits for the previous write.

        Args:
          prefix: Path of the checkpoint.
          step: Its step number, used for progress reports and to measure the duration of a step.
          values: Content of the checkpoint. The list is emptied to release the tensors.
          on_done: Called in the writing thread after the files are complete, to update the directory's state file.

        Raises:
          CheckpointError: If the previous write failed.
        """
        self.wait()
        has_long_steps = self._has_long_steps(step)
        self._held = size(values)
        self._copied.clear()
        # Not a daemon thread, so that the interpreter waits for it on exit.
        self._thread = threading.Thread(target=self._run, args=(prefix, step, values, on_done), name="checkpoint")
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
        """Returns whether a copy of `size` bytes fits into the existing buffers or into half of the free memory."""
        free = _free_memory()
        return self._held >= size or free is None or 2 * size <= free

    @property
    def is_busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Waits for the current write.

        Raises:
          CheckpointError: If it failed.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self, prefix: str, step: int, values: list[Value], on_done: Callable[[], None]) -> None:
        try:
            with tf.profiler.experimental.Trace(_WRITE):
                begin = time.perf_counter()
                mine = self._snapshot(values)
                self._copying = time.perf_counter() - begin
                self._copied.set()
                report_details(writing=step)
                retry_call(lambda: write(prefix, mine), OPERATION, prefix)
                retry_call(on_done, OPERATION, prefix)
            report_checkpoint(step)
        except Exception as error:
            self._error = write_error(prefix, error)
            logging.error("%s The error is raised at the next checkpoint, or at the end of training.", self._error)
        finally:
            self._copied.set()
            report_details(writing=None)

    def _snapshot(self, values: list[Value]) -> list[Value]:
        """Copies the values to the writer's buffers; releases each one as soon as it is copied."""
        mine = []
        for place, value in enumerate(values):
            values[place] = dataclasses.replace(value, tensor=None)
            mine.append(dataclasses.replace(value, tensor=self._copy(value)))
            del value
        values.clear()
        return mine

    def _copy(self, value: Value) -> tf.Tensor | np.ndarray:
        source = np.asarray(value.tensor)
        if source.nbytes < _MIN_KEPT_BYTES or source.dtype == object:
            return value.tensor
        place = (value.key, value.slice_spec)
        kept = self._kept.get(place)
        if kept is None or kept.shape != source.shape or kept.dtype != tf.as_dtype(source.dtype):
            with eager_mode():
                kept = self._kept[place] = tf.raw_ops.Empty(shape=source.shape, dtype=source.dtype)
        np.copyto(memory_of(kept), source)
        return kept


def pause() -> tf.profiler.experimental.Trace:
    """Marks the block as a pause of the training in the profile that `--profile` records."""
    return tf.profiler.experimental.Trace(PAUSE)


def write(prefix: str, values: Sequence[Value]) -> None:
    """Writes and syncs a checkpoint's files.

    They have a temporary name first, so that `prefix` never matches an incomplete checkpoint.
    """
    # Same names as in tf.train.Checkpoint: an object store has no directories that could be renamed.
    part = f"{prefix}{'.part' if prefix.startswith('s3://') else '_temp/part'}-00000-of-00001"
    with eager_mode():
        tf.raw_ops.SaveV2(
            prefix=part,
            tensor_names=[value.key for value in values],
            shape_and_slices=[value.slice_spec for value in values],
            tensors=[tf.convert_to_tensor(value.tensor) for value in values],
        )
        tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[part], destination_prefix=prefix, delete_old_dirs=True)
    sync_checkpoint(prefix)


def write_error(prefix: str, error: Exception) -> CheckpointError:
    """Returns the error for a checkpoint that could not be written; deletes its partial files to free disk space."""
    if not prefix.startswith("s3://"):
        with contextlib.suppress(Exception):  # must not mask the original error
            file_io.rmtree(f"{prefix}_temp")
    storage_error = storage_errors.explain(error, OPERATION, prefix)
    why = str(storage_error) if storage_error else f"The checkpoint {prefix} could not be written: {error}."
    raised = CheckpointError(f"{why} The last complete checkpoint is kept; the next run resumes from it.")
    raised.__cause__ = (
        None if storage_error else error
    )  # TensorFlow's traceback adds nothing to an explained storage error
    return raised


def size(values: Sequence[Value]) -> int:
    """Returns the size of a copy of the values in bytes; the characters of strings are not counted."""
    return sum(np.asarray(value.tensor).nbytes for value in values)


def _free_memory() -> int | None:
    """Returns the free memory of the machine or container (cgroup v2) in bytes; None if it is unknown."""
    known = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        with open("/proc/meminfo", encoding="ascii") as file:
            known.append(next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable")))
    with contextlib.suppress(OSError, ValueError):  # the file contains "max" if there is no limit
        with open(_CONTAINER[0], encoding="ascii") as most, open(_CONTAINER[1], encoding="ascii") as now:
            known.append(int(most.read()) - int(now.read()))
    return min(known, default=None)
