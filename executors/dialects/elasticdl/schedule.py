"""ElasticDL's intervals of log lines, checkpoints and evaluations, and its step limit, as a Keras callback."""

from __future__ import annotations

import math
from collections.abc import Mapping

import tensorflow as tf

from ...monitoring.progress import report_progress
from ...runtime.process.preemption import Preempted, is_preempted
from .checkpoints import Checkpoints
from .evaluation import Evaluation
from .job import Job
from .options import ElasticDLOptions

ENDLESS = 2**31  # steps or epochs


class Schedule(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Callback that evaluates, saves checkpoints, logs the loss and ends training at the steps set in the options.

    On a preemption request, it saves a checkpoint and raises `Preempted`.

    Attributes:
      options: The job's options.
    """

    def __init__(
        self, job: Job, checkpoints: Checkpoints, options: ElasticDLOptions, evaluation: Evaluation, batch_size: int
    ) -> None:
        super().__init__()
        self._supports_tf_logs = True  # otherwise Keras fetches the loss after every batch
        self._job = job
        self._checkpoints = checkpoints
        self.options = options
        self._evaluation = evaluation
        self._step = int(job.step.numpy())
        self._epoch = int(checkpoints.epoch.numpy())
        self._records = int(checkpoints.records.numpy())
        self._batch_size = batch_size
        self._logged = self._step

    def steps_until_due(self) -> int:
        """Returns the number of steps until the next log line, checkpoint, evaluation or the step limit."""
        options = self.options
        periods = (options.log_loss_steps, options.checkpoint_steps, options.evaluation_steps)
        rest = [period - self._step % period for period in periods if period > 0]
        return min([*rest, options.max_step - self._step] if options.max_step > 0 else rest, default=ENDLESS)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Resets the record count, except in the epoch in which a resumed job starts."""
        if epoch != self._epoch:
            self._epoch, self._records = epoch, 0
        report_progress(self._step)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Logs, saves and evaluates if due at this step.

        Raises:
          Preempted: When preemption was requested; the checkpoint is being saved.
          FloatingPointError: When the loss became NaN.
        """
        options = self.options
        self._step += 1
        self._records += self._batch_size
        report_progress(self._step, options.minibatch_size)
        if options.log_loss_steps > 0 and self._step % options.log_loss_steps == 0:
            self._log(logs)
        if options.checkpoint_steps > 0 and self._step % options.checkpoint_steps == 0:
            self._checkpoints.save(self._epoch, self._records)
        if options.evaluation_steps > 0 and self._step % options.evaluation_steps == 0:
            self._evaluation.run(self._step)
        if 0 < options.max_step <= self._step:
            self._job.stop_training = True
        elif is_preempted() and int(self._job.step.numpy()) == self._step:  # not within a group of steps
            self._checkpoints.save(self._epoch, self._records)
            raise Preempted(f"step {self._step}")

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Evaluates, unless just done; adds the metrics to `logs` as `val_…` for the file's callbacks."""
        self._epoch, self._records = epoch + 1, 0
        self._log(logs)
        self._evaluation.run(self._step)
        if logs is not None:
            logs.update({f"val_{name}": value for name, value in self._evaluation.results.items()})

    def finish(self) -> None:
        """Saves a checkpoint of the finished job.

        This is not `on_train_end`, since a resumed job may call `fit` twice.
        """
        self._checkpoints.save(self._epoch, self._records, finished=True)

    def _log(self, logs: Mapping[str, float] | None) -> None:
        if self._logged == self._step:
            return
        self._logged = self._step
        if (nan_step := int(self._job.nan_step.numpy())) >= 0:
            raise FloatingPointError(
                f"The loss is NaN at step {nan_step}. Look for a logarithm of zero or a division by zero in loss and "
                "model, or for NaN in the data, or reduce the learning rate."
            )
        self._evaluation.log("train", self._step, {"loss": float((logs or {}).get("loss", math.nan))})
