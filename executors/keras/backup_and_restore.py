"""Backs up a Keras training, and goes on in the middle of an epoch: the callback that `callbacks(fn_args)` begins with.

Keras 3's own BackupAndRestore writes over its only backup, so that a kill meanwhile loses it, and begins the epoch
again with the weights that it has left; tf-keras's begins the data again. This one's checkpoints are whole or not
there, are written while training goes on (`AsyncCheckpoints`), and hold how many batches of the epoch were trained.
After a restart these are read again and dropped: `fit` counts them, callbacks are called for them with the logs of the
checkpoint, the model is not. So the training has the steps that it would have had. Which batches were dropped is right
where the dataset gives the same order each time.

Not in it: the state of other callbacks, such as EarlyStopping's patience, and of metrics: those of the epoch that broke
off are over its batches since.
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
from ..checkpoints.directory import FITS
from ..compat.keras import begin_at, is_keras_2
from ..compat.tensorflow import has_coordinator
from ..errors import ModuleError
from ..monitoring.metrics import numbers_in
from ..monitoring.progress import report_progress
from ..runtime.process.preemption import asked
from .model_state import state_of
from .resume import Dropping

if TYPE_CHECKING:
    from ..fn_args import FnArgs

_LAST = "end"  # what the last checkpoint of a fit is called; its step may have one already, with other weights
_KEPT = 2


class BackUp(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Saves the training now and then, and restores it when `fit` begins.

    Attributes:
      end: The checkpoint of the weights in which the last fit ended.

    Args:
      fn_args: Tells the folder, and whose part this worker has.
      save_seconds: How often is saved; None for not by time.
      save_steps: The same in steps; where both are set, what comes first.
      save_epochs: Whether each epoch's end is saved.
      endless_data: Whether `fit` takes its epochs one after the other from a dataset without end.
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
        self.reports_progress = True
        self._supports_tf_logs = True  # tf-keras would otherwise wait for the logs after every batch
        self._chief_worker_only = False  # variables of several workers are read by all of them together
        self._fn_args = fn_args
        self._seconds, self._every, self._save_epochs = save_seconds, save_steps, save_epochs
        self._endless = endless_data
        self.end = ""
        self._folder = ""
        self._before = 0  # steps of the fits before
        self._position = _Position()
        self._state: tf.train.Checkpoint | None = None
        self._checkpoints: Any = None
        self._saved_at, self._saved_step = 0.0, -1
        self._epoch_length: int | None = None
        self._left = 0  # batches of the epoch to be dropped
        self._resumed = False

    def on_train_begin(self, logs: Mapping[str, object] | None = None) -> None:
        """Restores the last checkpoint of this fit, if there is one.

        Raises:
          ModuleError: When the model has no variables yet.
          CheckpointError: When the checkpoint is of another model.
        """
        if not self.model.built:
            raise ModuleError(
                f"callbacks(fn_args): the model {self.model.name!r} has no variables yet when fit begins, so nothing "
                "could be restored. Begin it with keras.Input, or call it on a batch before fit."
            )
        if self._has_coordinator:
            # Of parameter servers, an epoch's end is the only moment when all that was asked for has been done.
            self._seconds, self._every, self._save_epochs = None, None, True
        self._before = self._fn_args.get("keras_steps", 0)
        number = vars(self._fn_args)["keras_fits"] = self._fn_args.get("keras_fits", 0) + 1
        self._folder = os.path.join(self._fn_args.checkpoint_dir, FITS, str(number))
        self._position = _Position()
        self._state = state_of(self.model, position=self._position)
        self._checkpoints = AsyncCheckpoints(self._state, self._folder, _KEPT)
        self._saved_at, self._saved_step, self._left = time.monotonic(), -1, 0
        self._epoch_length = self.params.get("steps")
        # Keras's last callback: those before it may change weights at the end, as EarlyStopping restores the best.
        self.model.history.on_train_end = self._finish
        if latest := self._checkpoints.restore():
            self._go_on(latest)
        else:
            self._position.epoch_length = self._epoch_length

    @property
    def _has_coordinator(self) -> bool:
        return has_coordinator(self.model.distribute_strategy)

    def _go_on(self, latest: str) -> None:
        position = self._position
        self._saved_step = position.steps
        position.count_in_epochs_of(self._epoch_length)
        is_learned = self._epoch_length is None
        self._epoch_length = position.epoch_length
        epochs = self.params["epochs"]
        epoch = epochs if position.stopped else min(position.epoch, epochs)
        logging.info(
            "Going on from %s: step %d, epoch %d, after %d of its batches.",
            latest, position.steps, epoch + 1, position.batch,
        )  # fmt: skip
        self.model.history.history.update({name: list(values) for name, values in position.history.items()})
        begin_at(self.model, epoch)
        self._left = position.batch if epoch < epochs else 0
        ahead = position.steps - position.batch if self._endless and not self._has_coordinator else 0
        # At the end of the epoch in which Keras 2 learns how long they are, it runs a step for which there is no batch.
        is_counted = is_learned and self._epoch_length and epoch and is_keras_2(self.model)
        if self._left or ahead or is_counted:
            rest = self._epoch_length - position.batch if is_counted and self._epoch_length else None
            self.model.train_function = Dropping(self.model, ahead, self._left, position.logs, rest)
        self._resumed = True

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
        """Notes the epoch; the one that a resumed training begins with has batches behind it."""
        begin_at(self.model, None)
        if not self._resumed:
            self._position.epoch, self._position.batch = epoch, 0
        self._resumed = False
        report_progress(self._before + self._position.steps)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
        """Saves, if that is due.

        Raises:
          Preempted: When SIGTERM has come and this is the only worker, after it has saved.
        """
        if batch < self._left:
            return  # it was dropped
        position = self._position
        position.steps += batch + 1 - position.batch
        position.batch = batch + 1
        self._left = 0
        report_progress(self._before + position.steps)
        if position.batch == self._epoch_length:
            return
        if asked():
            position.logs = numbers_in(logs)
        self._checkpoints.end_if_asked(position.steps)
        if self._is_due():
            position.logs = numbers_in(logs)
            self._save()

    def on_epoch_end(self, epoch: int, logs: dict[str, object] | None = None) -> None:
        """Saves, if that is due; the history of the metrics is saved with it."""
        position = self._position
        if self._left and logs is not None:  # all of the epoch was trained before
            logs.update({**position.logs, **{name: value for name, value in logs.items() if name.startswith("val_")}})
        self._epoch_length = position.epoch_length = position.batch
        self._left = 0
        position.epoch, position.batch, position.logs = epoch + 1, 0, {}
        for name, value in numbers_in(logs).items():
            position.history.setdefault(name, []).append(value)
        if self._save_epochs or self._is_due():
            self._save()

    @property
    def steps(self) -> int:
        """Steps of this fit, those before it was resumed included."""
        return self._position.steps

    def passed_over(self, steps: int) -> None:
        """Counts a fit that is not run again, because it ended in an earlier try."""
        vars(self._fn_args)["keras_fits"] = self._fn_args.get("keras_fits", 0) + 1
        vars(self._fn_args)["keras_steps"] = self._fn_args.get("keras_steps", 0) + steps

    def _finish(self, logs: Mapping[str, object] | None = None) -> None:
        """Saves the end, so that a run that breaks off later does not train again."""
        del logs
        vars(self._fn_args)["keras_steps"] = self._before + self._position.steps
        begin_at(self.model, None)
        self._checkpoints.close()  # `end` is the last one
        self.end = os.path.join(self._folder, f"{_LAST}-{self._position.steps}")
        if os.path.basename(self._checkpoints.latest or "") == os.path.basename(self.end):
            return  # nothing was trained
        self._position.stopped |= bool(self.model.stop_training)
        with AsyncCheckpoints(self._state, self._folder, _KEPT, _LAST) as checkpoints:
            checkpoints.save(self._position.steps)

    def _is_due(self) -> bool:
        by_steps = self._every is not None and self._position.steps - max(0, self._saved_step) >= self._every
        return by_steps or (self._seconds is not None and time.monotonic() - self._saved_at >= self._seconds)

    def _save(self) -> None:
        if self._saved_step == self._position.steps:
            return
        self._checkpoints.save(self._position.steps)
        self._saved_at, self._saved_step = time.monotonic(), self._position.steps


class _Position(tf.train.experimental.PythonState):  # type: ignore[misc]
    """How far a training is; stands in the checkpoint.

    Attributes:
      epoch: The epoch, from 0.
      batch: Its batches that were trained.
      steps: All batches that were trained.
      epoch_length: Batches in an epoch, if that is known.
      logs: What the last batch's logs were.
      history: The metrics of the epochs before.
      stopped: Whether the training was ended before its last epoch.
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
        """Counts epochs anew where they are longer or shorter than they were, as with another number of steps."""
        if length and self.epoch_length and length != self.epoch_length:
            self.epoch, self.batch = divmod(self.steps, length)
        self.epoch_length = length or self.epoch_length
