"""Asynchronous checkpoints for custom training loops.

    state = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    with AsyncCheckpoints(state, fn_args.checkpoint_dir, max_to_keep=2) as checkpoints:
        checkpoints.restore()  # the latest one, if there is one
        for batch in batches.skip(int(step)):
            train_step(batch)
            checkpoints.end_if_asked(int(step))
            if int(step) % 100 == 0:
                checkpoints.save(int(step))

`save` takes a consistent snapshot of all variables and returns; a background thread writes it. The directory's
`checkpoint` state file, which `tf.train.latest_checkpoint` reads, lists a checkpoint only after it is complete, and old
checkpoints are deleted after that. If the process is killed at any time, the last complete checkpoint is found. File
format and variable names are those of `tf.train.Checkpoint.save`. The snapshot needs memory for one more copy of the
variables. If that is more than half of the free memory, saving is synchronous, as it is for variables outside of this
process, such as those of a parameter server.

TensorFlow's `experimental_enable_async_checkpoint` is not used: its second save fails with Keras 3's variables
(TensorFlow 2.21: "tf.function only supports singleton tf.Variables"), it skips objects that it cannot copy with only a
warning, and it allocates new memory for each snapshot.
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
from ..monitoring.progress import report_checkpoint, save_timed
from ..runtime.files.retry import retry_call
from ..runtime.process import preemption
from . import background_writer
from . import restore as checkpoint_restoring
from .background_writer import BackgroundWriter, Value
from .fallback import newest_complete

if TYPE_CHECKING:
    from ..compat.tensorflow import Saved


class AsyncCheckpoints:
    """Saves and restores the checkpoints of a training in one directory.

    With several workers, all of them must restore and save at the same steps, because reading some kinds of variables
    is a collective operation. Only the chief writes.

    Args:
      state: All objects whose state changes during training, including the position in the data if it is a variable.
      folder: The checkpoint directory.
      max_to_keep: Number of checkpoints to keep; None to keep all.
      name: Prefix of the checkpoint names, which is followed by the step number.
      background: If False, saving is synchronous: `save` returns after the checkpoint is written.
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
        _ = state.save_counter  # created now by all workers: creating a variable under a strategy is collective
        self._name = name
        task = task_from_environment()
        self._is_chief = task is None or task.is_chief
        self._is_alone = task is None or task.num_workers == 1
        self._in_background = _InBackground(state, self._is_alone)
        self._has_handler = False
        self._last_step = self._last_saved_step = -1  # last steps passed to `end_if_asked` and `save`
        self._until_exit = contextlib.ExitStack()
        self._at_start = newest_complete(folder, self._is_chief)  # before the manager reads the state file
        self._manager = tf.train.CheckpointManager(
            self._in_background if background else state, folder, max_to_keep, checkpoint_name=name
        )

    @property
    def latest(self) -> str | None:
        """Path of the latest complete checkpoint in the directory; None if there is none."""
        path: str | None = self._manager.latest_checkpoint if self._is_chief else self._at_start
        return path

    @property
    def is_writing(self) -> bool:
        """Whether a checkpoint is being written in the background."""
        return self._in_background.writer.is_busy

    def restore(self) -> str | None:
        """Restores the latest complete checkpoint; returns its path, or None if there is none.

        Damaged newer ones were moved to the folder `damaged` when this object was created.

        Raises:
          CheckpointError: If a variable has a different shape in the checkpoint or is missing from it, or if the
            previous write failed.
        """
        self.wait()
        if self.latest is not None:
            checkpoint_restoring.restore(self._state, self.latest)
        return self.latest

    def save(self, step: int) -> str:
        """Takes a snapshot of all variables and starts writing it in the background.

        Blocks until the previous write has finished.

        Args:
          step: Step number, which becomes part of the checkpoint's name.

        Returns:
          The path of the checkpoint, which may not be written yet.

        Raises:
          CheckpointError: If the previous checkpoint could not be written, or this one if it is written synchronously.
        """
        self._last_saved_step = int(step)
        with background_writer.pause():
            if not self._is_chief:
                current_values(self._state)
                return os.path.join(self._manager.directory, f"{self._name}-{int(step)}")
            self._in_background.step = int(step)
            with save_timed():
                path: str = self._manager.save(checkpoint_number=int(step))
            return path

    def end_if_asked(self, step: int) -> None:
        """Handles preemption: after SIGTERM, saves a checkpoint and raises `Preempted`.

        Call it after each step. The first call installs the signal handler; from then on, SIGTERM takes effect at the
        next call. With several workers no handler is installed: SIGTERM ends a worker at once, and all workers resume
        from the last checkpoint.

        Args:
          step: Step number for the checkpoint's name.

        Raises:
          Preempted: After the checkpoint is written. Don't catch it; it must end the process.
        """
        self._last_step = int(step)
        if not self._has_handler and self._is_alone:
            self._has_handler = True
            self._until_exit.enter_context(preemption.deferred_sigterm())
        if preemption.is_preempted():
            path = self.save(step)
            self.wait()
            raise preemption.Preempted(path)

    def wait(self) -> None:
        """Blocks until the last checkpoint is written.

        Raises:
          CheckpointError: If it could not be written.
        """
        with background_writer.pause():
            self._in_background.writer.wait()

    def close(self) -> None:
        """Waits for the last write, and removes the SIGTERM handler."""
        with self._until_exit:
            self.wait()

    def __enter__(self) -> AsyncCheckpoints:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the checkpoints; if the block has raised, an error of the last write is only logged.

        If the block succeeded and called `end_if_asked` after each step, saves the last step unless it is saved
        already, so that a run that fails later, such as in the export, need not train it again.
        """
        try:
            with self._until_exit:
                self.wait()
                if error is None and self._last_step > self._last_saved_step:
                    self._save_last_step()
        except Exception as failed:
            if error is None:
                raise
            logging.error("%s", failed)

    def _save_last_step(self) -> None:
        try:
            self.save(self._last_step)
            self.wait()
        except CheckpointError as error:  # the trained model can still be exported
            logging.warning("If the run fails from here on, its last steps are trained again. %s", error)


class _InBackground(ManagedCheckpoint):
    """Replaces the tf.train.Checkpoint of a CheckpointManager; `write` takes a snapshot and returns."""

    def __init__(self, state: tf.train.Checkpoint, is_alone: bool) -> None:
        self.writer = BackgroundWriter()
        self.step = 0
        self._state = state
        self._is_alone = is_alone

    @property
    def save_counter(self) -> tf.Variable:
        """The number of saves, a variable that TensorFlow stores in every checkpoint."""
        return self._state.save_counter

    def write(self, prefix: str, options: tf.train.CheckpointOptions) -> str:
        """Starts writing in the background; writes synchronously if there is no memory for a snapshot."""
        self.writer.wait()  # before the values are read, so that at most one copy of them exists
        values = current_values(self._state)
        if values is None or not self.writer.has_room(background_writer.size(values)):
            logging.log_first_n(
                logging.INFO, "Training waits while %s is written: there is no memory for a copy.", 1, prefix
            )
            written: str = self._write_synchronously(lambda: self._state.write(prefix, options=options), prefix)
            report_checkpoint(self.step)
            return written
        tf.io.gfile.makedirs(os.path.dirname(prefix))
        self.writer.begin(
            prefix, self.step, values, lambda: _run_callbacks(options.experimental_write_callbacks, prefix)
        )
        return prefix

    def _write_synchronously(self, write: Callable[[], str], prefix: str) -> str:
        if not self._is_alone:  # a retry on one worker would deadlock in collective operations
            return write()
        try:
            return retry_call(write, background_writer.OPERATION, prefix)
        except StorageError as error:
            raise background_writer.write_error(prefix, error) from None


def _run_callbacks(callbacks: Iterable[Callable[[str], object]] | None, prefix: str) -> None:
    """Calls CheckpointManager's callbacks for a written checkpoint: update the state file, delete the oldest one."""
    for callback in callbacks or ():
        callback(prefix)


def current_values(state: tf.train.Checkpoint) -> list[Value] | None:
    """Returns the current values that `state.write` would write; None if only `state.write` can write them."""
    serialized, is_all = gathered_tensors(state)
    if not is_all:
        return None
    values = []
    for tensors in serialized.values():
        for key, found in tensors.items():
            for slice_spec, one in (found if isinstance(found, dict) else {"": found}).items():
                tensor = _tensor(one)
                if tensor is not None:  # uninitialized variables are not saved
                    values.append(Value(key, slice_spec.strip(), tensor))
    places = map(tf.DeviceSpec.from_string, {value.tensor.device for value in values})
    return values if len({(place.job, place.task) for place in places}) == 1 else None


def _tensor(found: Saved) -> tf.Tensor | None:
    """Returns the tensor of an entry of a trackable object: the entry itself, or that of a `SaveSpec`."""
    return found.tensor if hasattr(found, "slice_spec") else found
