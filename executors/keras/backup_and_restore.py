"""Checkpoints a Keras training and resumes in the middle of an epoch: the first callback of `callbacks(fn_args)`.

Keras 3's BackupAndRestore overwrites its only backup, so a kill during the write loses it, and it restarts the epoch
with the weights saved within it; tf-keras's restarts the data. The checkpoints of this callback are atomic, are written
in the background (`AsyncCheckpoints`), and contain the number of trained batches of the epoch. On resume, these batches
are read again and dropped: `fit` counts them, and callbacks are called with the logs of the checkpoint, but the model
is not trained on them. The total number of steps is therefore the same as without an interruption. The dropped batches
are the trained ones only if the dataset has a deterministic order.

Not saved: the state of other callbacks, such as EarlyStopping's patience, and the state of metrics. The metrics of the
interrupted epoch cover only the batches after the restart.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from absl import logging

from ..checkpoints.async_checkpoints import AsyncCheckpoints
from ..checkpoints.contents import FITS
from ..compat.keras import is_keras_2, set_first_epoch
from ..compat.tensorflow import has_coordinator
from ..errors import ModuleError
from ..monitoring.metrics import numbers_in
from ..runtime.process.preemption import is_preempted
from .model_state import state_of
from .resume import DroppingTrainFunction

if TYPE_CHECKING:
    from ..fn_args import FnArgs

_LAST = "end"  # name of a fit's last checkpoint; the same step may already have one with other weights
_MAX_CHECKPOINTS = 2


class BackUp(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Saves checkpoints of the training, and restores the latest one when `fit` begins.

    Attributes:
      end: Path of the checkpoint with the weights at the end of the last fit.

    Args:
      fn_args: Arguments of the run, with the checkpoint folder and this worker's role.
      save_seconds: Interval between checkpoints in seconds; None to not save by time.
      save_steps: Interval in steps; None to not save by steps. If both are set, the one that is due first applies.
      save_epochs: Whether to save at the end of each epoch.
      endless_data: Whether `fit` reads consecutive epochs from one infinite dataset.
    """

    def __init__(
        self,
        fn_args: FnArgs,
        save_seconds: float | None,
        save_steps: int | None,
        save_epochs: bool,
        endless_data: bool,
    ) -> None:
        super().__init__()
        self._supports_tf_logs = True  # otherwise tf-keras waits for the logs after every batch
        self._chief_worker_only = False  # all workers must take part in reading distributed variables
        self._fn_args = fn_args
        self._save_seconds, self._save_steps, self._save_epochs = save_seconds, save_steps, save_epochs
        self._endless = endless_data
        self.end = ""
        self._folder = ""
        self._position = _Position()
        self._state: tf.train.Checkpoint | None = None
        self._checkpoints: Any = None
        self._saved_at, self._saved_step = 0.0, -1
        self._epoch_length: int | None = None
        self._left = 0  # batches of the epoch that are still to be dropped
        self._resumed = False

    def on_train_begin(self, logs: Mapping[str, object] | None = None) -> None:
        """Restores the latest checkpoint of this fit, if there is one.

        Raises:
          ModuleError: If the model is not built.
          CheckpointError: If the checkpoint is of a different model.
        """
        if not self.model.built:
            raise ModuleError(
                f"callbacks(fn_args): the model {self.model.name!r} has no variables yet when fit begins, so no "
                "checkpoint can be restored. Start it with keras.Input, or call it on a batch before fit."
            )
        if self._has_coordinator:
            # With parameter servers, all scheduled steps are finished only at the end of an epoch.
            self._save_seconds, self._save_steps, self._save_epochs = None, None, True
        number = vars(self._fn_args)["keras_fits"] = self._fn_args.get("keras_fits", 0) + 1
        self._folder = os.path.join(self._fn_args.checkpoint_dir, FITS, str(number))
        self._position = _Position()
        self._state = state_of(self.model, position=self._position)
        self._checkpoints = AsyncCheckpoints(self._state, self._folder, _MAX_CHECKPOINTS)
        self._saved_at, self._saved_step, self._left = time.monotonic(), -1, 0
        self._epoch_length = self.params.get("steps")
        # History is Keras's last callback. Callbacks before it may still change weights, as EarlyStopping does.
        self.model.history.on_train_end = self._finish
        if latest := self._checkpoints.restore():
            self._resume(latest)
        else:
            self._position.epoch_length = self._epoch_length

    @property
    def _has_coordinator(self) -> bool:
        return has_coordinator(self.model.distribute_strategy)

    def _resume(self, latest: str) -> None:
        position = self._position
        self._saved_step = position.steps
        position.count_in_epochs_of(self._epoch_length)
        is_learned = self._epoch_length is None
        self._epoch_length = position.epoch_length
        epochs = self.params["epochs"]
        epoch = epochs if position.stopped else min(position.epoch, epochs)
        logging.info(
            "Resuming from %s: step %d, epoch %d, after %d of its batches.",
            latest, position.steps, epoch + 1, position.batch,
        )  # fmt: skip
        self.model.history.history.update({name: list(values) for name, values in position.history.items()})
        set_first_epoch(self.model, epoch)
        self._left = position.batch if epoch < epochs else 0
        ahead = position.steps - position.batch if self._endless and not self._has_coordinator else 0
        # At the end of the epoch in which Keras 2 learns the number of batches, it runs a step without a batch.
        is_counted = is_learned and self._epoch_length and epoch and is_keras_2(self.model)
        if self._left or ahead or is_counted:
            rest = self._epoch_length - position.batch if is_counted and self._epoch_length else None
            self.model.train_function = DroppingTrainFunction(self.model, ahead, self._left, position.logs, rest)
        self._resumed = True

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
        """Updates the position; the first epoch after a resume keeps its number of trained batches."""
        set_first_epoch(self.model, None)
        if not self._resumed:
            self._position.epoch, self._position.batch = epoch, 0
        self._resumed = False

    def on_train_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
        """Saves a checkpoint if one is due.

        Raises:
          Preempted: If SIGTERM was received and this is the only worker, after saving a checkpoint.
        """
        if batch < self._left:
            return  # the batch was dropped
        position = self._position
        position.steps += batch + 1 - position.batch
        position.batch = batch + 1
        self._left = 0
        if position.batch == self._epoch_length:
            return
        if is_preempted():
            position.logs = numbers_in(logs)
        self._checkpoints.end_if_asked(position.steps)
        if self._is_due():
            position.logs = numbers_in(logs)
            self._save()

    def on_epoch_end(self, epoch: int, logs: dict[str, object] | None = None) -> None:
        """Saves a checkpoint with the history of metrics if one is due."""
        position = self._position
        if self._left and logs is not None:  # the whole epoch was trained before the interruption
            logs.update({**position.logs, **{name: value for name, value in logs.items() if name.startswith("val_")}})
        self._epoch_length = position.epoch_length = position.batch
        self._left = 0
        position.epoch, position.batch, position.logs = epoch + 1, 0, {}
        for name, value in numbers_in(logs).items():
            position.history.setdefault(name, []).append(value)
        if self._save_epochs or self._is_due():
            self._save()

    @property
    def trained_steps(self) -> int:
        """Number of trained steps of this fit, including those before it was resumed."""
        return self._position.steps

    @property
    def trained_batches(self) -> int:
        """Number of trained batches of this epoch; after a resume, they are dropped."""
        return self._position.batch

    def skip_completed_fit(self) -> None:
        """Counts a fit that is restored instead of run, because it ended in an earlier attempt."""
        vars(self._fn_args)["keras_fits"] = self._fn_args.get("keras_fits", 0) + 1

    def _finish(self, logs: Mapping[str, object] | None = None) -> None:
        """Saves the final state, so that a run that fails later does not train this fit again."""
        del logs
        set_first_epoch(self.model, None)
        self._checkpoints.close()  # the "end" checkpoint below is written separately
        self.end = os.path.join(self._folder, f"{_LAST}-{self._position.steps}")
        if os.path.basename(self._checkpoints.latest or "") == os.path.basename(self.end):
            return  # no new steps were trained
        self._position.stopped |= bool(self.model.stop_training)
        with AsyncCheckpoints(self._state, self._folder, _MAX_CHECKPOINTS, _LAST) as checkpoints:
            checkpoints.save(self._position.steps)

    def _is_due(self) -> bool:
        by_steps = self._save_steps is not None and self._position.steps - max(0, self._saved_step) >= self._save_steps
        return by_steps or (self._save_seconds is not None and time.monotonic() - self._saved_at >= self._save_seconds)

    def _save(self) -> None:
        if self._saved_step == self._position.steps:
            return
        self._checkpoints.save(self._position.steps)
        self._saved_at, self._saved_step = time.monotonic(), self._position.steps


class _Position(tf.train.experimental.PythonState):  # type: ignore[misc]
    """The position of a training, saved in the checkpoint.

    Attributes:
      epoch: Index of the epoch, from 0.
      batch: Number of trained batches of the epoch.
      steps: Number of all trained batches.
      epoch_length: Number of batches per epoch, or None if not known.
      logs: Logs of the last batch.
      history: Metrics of the earlier epochs.
      stopped: Whether the training was stopped before its last epoch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.epoch = self.batch = self.steps = 0
        self.epoch_length: int | None = None
        self.logs: dict[str, float] = {}
        self.history: dict[str, list[float]] = {}
        self.stopped = False

    def serialize(self) -> str:
        return json.dumps({name: value for name, value in vars(self).items() if not name.startswith("_")})

    def deserialize(self, string: str) -> None:
        for name, value in json.loads(string).items():
            setattr(self, name, value)

    def count_in_epochs_of(self, length: int | None) -> None:
        """Recomputes epoch and batch if the epoch length has changed, as with another number of steps."""
        if length and self.epoch_length and length != self.epoch_length:
            first = self.epoch - (self.steps - self.batch) // self.epoch_length  # not 0 with an `initial_epoch`
            epochs, self.batch = divmod(self.steps, length)
            self.epoch = first + epochs
        self.epoch_length = length or self.epoch_length
