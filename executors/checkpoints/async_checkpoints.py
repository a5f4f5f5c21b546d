"""Checkpoints that are written while training goes on, for training loops of all kinds.

    state = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    with AsyncCheckpoints(state, fn_args.checkpoint_dir, max_to_keep=2) as checkpoints:
        checkpoints.restore()  # the last one, if there is one
        for batch in batches.skip(int(step)):
            train_step(batch)
            checkpoints.end_if_asked(int(step))
            if int(step) % 100 == 0:
                checkpoints.save(int(step))

`save` notes what every variable is at that moment, all of one step, and returns; a thread writes it. The folder's
state file, which `tf.train.latest_checkpoint` reads, names a checkpoint only when it is whole, and those it makes room
for are deleted after that: whenever the process is killed, the last good one is found. The files, and the names in
them, are those of `tf.train.Checkpoint.save`. One more copy of the variables is held in memory; where that would be
more than half of what is free, saving is synchronous, as it is for what is not in this process, such as a parameter
server's variables.

TensorFlow's own `experimental_enable_async_checkpoint` is not used: its second save fails with Keras 3's variables
(TensorFlow 2.21: "tf.function only supports singleton tf.Variables"), it leaves out what it cannot copy with no more
than a warning, and its copies are made in memory that is new each time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING

import tensorflow as tf
from absl import logging

from ..compat.tensorflow import ManagedCheckpoint, gathered_tensors
from ..distributed.tf_config import task_from_environment
from ..errors import CheckpointError, StorageError
from ..monitoring.progress import report_checkpoint
from ..runtime.files.retry import retried
from ..runtime.process import preemption
from . import background_writer
from . import restore as checkpoint_restoring
from .background_writer import BackgroundWriter, Value

if TYPE_CHECKING:
    from ..compat.tensorflow import Saved


class AsyncCheckpoints:
    """The checkpoints of a training, in one folder.

    Where several workers train, all of them restore and save at the same steps, for reading some kinds of variables
    takes all of them; the chief alone writes.

    Args:
      state: All that changes. Position in the data included, where it is a variable.
      folder: Where they are.
      max_to_keep: How many are kept; None for all.
      name: What their names begin with; the step's number follows.
      background: False to have `save` return when the checkpoint is written.
    """

    def __init__(
        self,
        state: tf.train.Checkpoint,
        folder: str,
        max_to_keep: int | None = 5,
        name: str = "ckpt",
        background: bool = True,
    ) -> None:
        self._state = state
        _ = state.save_counter  # made now, by all workers, who take part in making a variable under a strategy
        self._name = name
        task = task_from_environment()
        self._is_chief = task is None or task.is_chief
        self._is_alone = task is None or task.num_workers == 1
        self._in_background = _InBackground(state, self._is_alone)
        self._heeds = False
        self._seen = self._saved = -1  # steps of `end_if_asked` and `save`
        self._until_exit = contextlib.ExitStack()
        self._manager = tf.train.CheckpointManager(
            self._in_background if background else state, folder, max_to_keep, checkpoint_name=name
        )

    @property
    def latest(self) -> str | None:
        """The last one that is whole; of the folder, or of this training if it has saved one."""
        path: str | None = self._manager.latest_checkpoint
        return path

    @property
    def is_writing(self) -> bool:
        """Whether a checkpoint is being written at this moment."""
        return self._in_background.writer.is_busy

    def restore(self) -> str | None:
        """Restores the last checkpoint; returns its path, or None when there is none.

        Raises:
          CheckpointError: When a variable has another shape in it, or is not in it.
        """
        self.wait()
        if self.latest is not None:
            checkpoint_restoring.restore(self._state, self.latest)
        return self.latest

    def save(self, step: int) -> str:
        """Saves all variables as they are now, and goes on while they are written.

        A write that has not ended since the save before is waited for.

        Args:
          step: Numbers the checkpoint.

        Returns:
          The path that it will have.

        Raises:
          CheckpointError: When the checkpoint before this one could not be written.
        """
        self._saved = int(step)
        with background_writer.pause():
            if not self._is_chief:
                _values(self._state)
                return os.path.join(self._manager.directory, f"{self._name}-{int(step)}")
            self._in_background.step = int(step)
            path: str = self._manager.save(checkpoint_number=int(step))
            return path

    def end_if_asked(self, step: int) -> None:
        """Saves and ends the training when SIGTERM has come, by which platforms take a machine back.

        For a loop to call after each step; from the first call on SIGTERM waits for the next one. One of several
        workers ends at once, and all of them go back to the last checkpoint.

        Args:
          step: Numbers the checkpoint.

        Raises:
          Preempted: After the checkpoint is whole; let it end the process.
        """
        self._seen = int(step)
        if not self._heeds and self._is_alone:
            self._heeds = True
            self._until_exit.enter_context(preemption.heeded())
        if preemption.asked():
            path = self.save(step)
            self.wait()
            raise preemption.Preempted(path)

    def wait(self) -> None:
        """Waits until the last checkpoint is whole.

        Raises:
          CheckpointError: When it could not be written.
        """
        with background_writer.pause():
            self._in_background.writer.wait()

    def close(self) -> None:
        """Waits for the last write, and heeds SIGTERM no longer."""
        with self._until_exit:
            self.wait()

    def __enter__(self) -> AsyncCheckpoints:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Waits for the last write. Its error is only logged when another one is on its way.

        A loop that ended well, and called `end_if_asked` after each step, is saved at its last step, so that a run that
        fails later on does not train again.
        """
        try:
            with self._until_exit:
                self.wait()
                if error is None and self._seen > self._saved:
                    self._save_the_end()
        except Exception as failed:
            if error is None:
                raise
            logging.error("%s", failed)

    def _save_the_end(self) -> None:
        try:
            self.save(self._seen)
            self.wait()
        except CheckpointError as error:  # what was trained can be exported all the same
            logging.warning("A run that fails from here on trains some steps again. %s", error)


class _InBackground(ManagedCheckpoint):
    """A tf.train.Checkpoint for a CheckpointManager: takes a snapshot where the other writes."""

    def __init__(self, state: tf.train.Checkpoint, is_alone: bool) -> None:
        self.writer = BackgroundWriter()
        self.step = 0
        self._state = state
        self._is_alone = is_alone

    @property
    def save_counter(self) -> tf.Variable:
        """How often was saved, a variable that TensorFlow keeps in every checkpoint."""
        return self._state.save_counter

    def write(self, prefix: str, options: tf.train.CheckpointOptions) -> str:
        """Begins to write, or writes where there is no room for a snapshot."""
        self.writer.wait()  # before the values are read, so that no more than one copy of them is held
        values = _values(self._state)
        if values is None or not self.writer.has_room(background_writer.size(values)):
            logging.log_first_n(logging.INFO, "%s is written while training waits.", 1, prefix)
            written: str = self._written(lambda: self._state.write(prefix, options=options), prefix)
            report_checkpoint(self.step)
            return written
        tf.io.gfile.makedirs(os.path.dirname(prefix))
        self.writer.begin(prefix, self.step, values, lambda: _tell(options.experimental_write_callbacks, prefix))
        return prefix

    def _written(self, write: Callable[[], str], prefix: str) -> str:
        if not self._is_alone:  # the others would wait for a second try that they know nothing of
            return write()
        try:
            return retried(write, background_writer.DOING, prefix)
        except StorageError as error:
            raise background_writer.refused(prefix, error) from None


def _tell(callbacks: Iterable[Callable[[str], object]] | None, prefix: str) -> None:
    """Calls what CheckpointManager wants to be done with a written checkpoint: name it, delete the oldest."""
    for callback in callbacks or ():
        callback(prefix)


def _values(state: tf.train.Checkpoint) -> list[Value] | None:
    """Returns what `state.write` would write, read now; None when it has to write for itself."""
    serialized, is_all = gathered_tensors(state)
    if not is_all:
        return None
    values = []
    for tensors in serialized.values():
        for key, found in tensors.items():
            for slice_spec, one in (found if isinstance(found, dict) else {"": found}).items():
                tensor = _tensor(one)
                if tensor is not None:  # a variable that was not initialized is not saved
                    values.append(Value(key, slice_spec.strip(), tensor))
    places = map(tf.DeviceSpec.from_string, {value.tensor.device for value in values})
    return values if len({(place.job, place.task) for place in places}) == 1 else None


def _tensor(found: Saved) -> tf.Tensor | None:
    """Returns the tensor of what a trackable object gives to be saved: a tensor, or a spec that makes one."""
    return found.tensor if hasattr(found, "slice_spec") else found
