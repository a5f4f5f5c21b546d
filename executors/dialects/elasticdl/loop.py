"""Trains an ElasticDL model file by Keras's `fit`, with ElasticDL's evaluations, checkpoints and limits.

Between two of these, steps are run in groups (`grouped_steps.py`), or one by one if a callback of the
file's looks at each batch.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import tensorflow as tf
from absl import logging

from ...checkpoints.async_checkpoints import AsyncCheckpoints
from ...checkpoints.restore import restore
from ...errors import InputError
from ...keras.weight_fingerprints import of_weights
from ...monitoring.progress import report_progress
from ...runtime.process.preemption import Preempted, asked, heeded
from .batch_watchers import batch_watcher
from .grouped_steps import GroupedSteps
from .job import Job
from .options import ElasticDLOptions

CHECKPOINT_NAME = "version"
ENDLESS = 2**31  # epochs, which max_step cuts off


class Checkpoints:
    """The checkpoints of a job: weights, optimizer, step, and how far it was.

    How far is told in records, as a batch has others when there are more or fewer workers.

    Attributes:
      epoch: Number of the epoch, from 0.
      records: How many of its records have been trained.
    """

    def __init__(self, job: Job, optimizer: tf.keras.optimizers.Optimizer, options: ElasticDLOptions) -> None:
        self.epoch = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.records = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._finished = tf.Variable(False, trainable=False)
        self._state = tf.train.Checkpoint(
            model=job.inner, optimizer=optimizer, step=job.step,
            epoch=self.epoch, records=self.records, finished=self._finished,
        )  # fmt: skip
        self._job = job
        self._saved = AsyncCheckpoints(
            self._state, options.checkpoint_dir, options.keep_checkpoint_max or None, CHECKPOINT_NAME
        )

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *error: Any) -> None:
        """Waits until the last one is written."""
        self._saved.__exit__(*error)

    @property
    def latest(self) -> str | None:
        """The last one that is whole."""
        return self._saved.latest

    def resume(self, unpublished: str | None = None) -> bool:
        """Resumes an unfinished job from its last checkpoint; a finished one is trained anew.

        Args:
          unpublished: The last checkpoint of a finished job whose model was not published. That job is restored.

        Returns:
          Whether that is the job that was restored, so that nothing is left to train.
        """
        latest = self._saved.latest
        if latest is None:
            return False
        finished = tf.train.load_checkpoint(latest).get_tensor("finished/.ATTRIBUTES/VARIABLE_VALUE")
        if finished and os.path.basename(latest) != unpublished:
            logging.info("The job of %s had finished; this one starts anew.", latest)
            return False
        restore(self._state, latest).expect_partial()
        logging.info("Resuming from %s, at step %d.", latest, self._job.step.numpy())
        return bool(finished)

    def save(self, epoch: int, records: int, finished: bool = False) -> None:
        """Saves the job as it is now; it is written while training goes on."""
        self.epoch.assign(epoch)
        self.records.assign(records)
        self._finished.assign(finished)
        self._saved.save(int(self._job.step.numpy()))


def load_weights(model: tf.keras.Model, folder: str) -> str:
    """Restores a model's weights from a folder of checkpoints, or from one of them.

    Returns:
      The checkpoint.

    Raises:
      InputError: When there is none, or when its weights are another model's.
    """
    path = tf.train.latest_checkpoint(folder) if tf.io.gfile.isdir(folder) else folder
    if path is None or not tf.io.gfile.glob(f"{path}.index"):
        raise InputError(f"checkpoint_dir_for_init={folder}: there is no checkpoint. Give a job's checkpoint_dir.")
    try:
        tf.train.Checkpoint(model=model).restore(path).expect_partial().assert_existing_objects_matched()
    except (AssertionError, ValueError) as error:
        raise InputError(f"{path} holds the weights of another model: {error}") from error
    logging.info("Weights from %s.", path)
    return str(path)


class Schedule(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Between batches: evaluates, saves, logs, and ends where the options say so."""

    def __init__(
        self, job: Job, checkpoints: Checkpoints, options: ElasticDLOptions, evaluation: Evaluation, batch_size: int
    ) -> None:
        super().__init__()
        self._supports_tf_logs = True  # Keras would otherwise wait for the loss after every batch
        self._job = job
        self._checkpoints = checkpoints
        self._options = options
        self._evaluation = evaluation
        self._step = int(job.step.numpy())
        self._epoch = int(checkpoints.epoch.numpy())
        self._records = int(checkpoints.records.numpy())
        self._batch_size = batch_size
        self._logged = self._step

    def room(self) -> int:
        """Returns how many steps there are until something is due."""
        options = self._options
        periods = (options.log_loss_steps, options.checkpoint_steps, options.evaluation_steps)
        rest = [period - self._step % period for period in periods if period > 0]
        return min([*rest, options.max_step - self._step] if options.max_step > 0 else rest, default=ENDLESS)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Notes the epoch; the one that a resumed job begins with has batches behind it."""
        if epoch != self._epoch:
            self._epoch, self._records = epoch, 0
        report_progress(self._step)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Does what is due at this step."""
        options = self._options
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
        elif asked() and int(self._job.step.numpy()) == self._step:  # else a group of steps has run, and is counted yet
            self._checkpoints.save(self._epoch, self._records)
            raise Preempted(f"step {self._step}")

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Evaluates, unless that has just been done; the file's callbacks find the metrics as Keras's `val_…`."""
        self._epoch, self._records = epoch + 1, 0
        self._log(logs)
        self._evaluation.run(self._step)
        if logs is not None:
            logs.update({f"val_{name}": value for name, value in self._evaluation.results.items()})

    def finish(self) -> None:
        """Saves the finished job. Not at Keras's end of training, which a resumed job comes to twice."""
        self._checkpoints.save(self._epoch, self._records, finished=True)

    def _log(self, logs: Mapping[str, float] | None) -> None:
        if self._logged == self._step:
            return
        self._logged = self._step
        if (nan_step := int(self._job.nan_step.numpy())) >= 0:
            raise FloatingPointError(
                f"The loss is NaN at step {nan_step}. Look for a logarithm or a division of zero in loss and model, "
                "for NaN in the data, or lower the learning rate."
            )
        self._evaluation.log("train", self._step, {"loss": float((logs or {}).get("loss", math.nan))})


class EvaluationState(TypedDict):
    """The best weights of a job that is resumed: their loss and their path."""

    lowest: float
    best: str | None


class Evaluation:
    """Evaluates the job on the validation data, keeps the best weights and logs for TensorBoard.

    Attributes:
      results: The last evaluation's metrics.
      folder: Where it keeps the best weights, and writes for TensorBoard.
      best: Where the weights of the lowest loss are, or None.
    """

    def __init__(
        self,
        job: Job,
        dataset: tf.data.Dataset | None,
        folder: str,
        evaluate: Callable[[tf.data.Dataset], Mapping[str, float]],
    ) -> None:
        self.results: dict[str, float] = {}
        self.best: str | None = None
        self._job = job
        self._dataset = dataset
        self._evaluate = evaluate  # a dataset
        self._lowest = math.inf
        self._done: tuple[int, tuple[str, ...]] = -1, ()
        self.folder = folder
        self._writers: dict[str, tf.summary.SummaryWriter] = {}

    def to_json(self) -> EvaluationState:
        """Returns what `resume` takes."""
        return {"lowest": self._lowest, "best": self.best}

    def resume(self, state: EvaluationState) -> None:
        """Takes the best weights from an earlier try, if they are still there."""
        if state["best"] and tf.io.gfile.exists(f"{state['best']}.index"):
            self._lowest, self.best = state["lowest"], state["best"]

    def run(self, step: int) -> None:
        """Evaluates the weights of a step, unless they have just been evaluated."""
        if self._dataset is None:
            return
        weights = of_weights(self._job.inner.weights)
        if (step, weights) == self._done:  # a callback may have changed the weights since
            return
        self._done = step, weights
        values = self._evaluate(self._dataset)
        self.results = {name: float(value) for name, value in values.items()}
        self.log("eval", step, self.results)
        if self.results["loss"] < self._lowest:
            self._lowest = self.results["loss"]
            path = os.path.join(self.folder, "best", "weights")
            self.best = tf.train.Checkpoint(model=self._job.inner).write(path)

    def log(self, split: str, step: int, values: dict[str, float]) -> None:
        """Logs values for people and for TensorBoard."""
        shown = ", ".join(f"{name} {value:.5g}" for name, value in values.items())
        logging.info("Step %d: %s %s", step, split, shown)
        if split not in self._writers:
            self._writers[split] = tf.summary.create_file_writer(os.path.join(self.folder, split))
        with self._writers[split].as_default(step):
            for name, value in values.items():
                tf.summary.scalar(name, value)


def fit(
    job: Job,
    training: Callable[[int, int], tf.data.Dataset],
    checkpoints: Checkpoints,
    options: ElasticDLOptions,
    schedule: Schedule,
    callbacks: list[tf.keras.callbacks.Callback],
) -> None:
    """Trains from where the job is: the rest of the epoch that was interrupted, then the other epochs.

    Args:
      job: Compiled.
      training: Given an epoch and a number of records to leave out, returns the batches of (features, labels) of that
        epoch and, iterated again, of the next ones.
      checkpoints: Tell the epoch and the record to begin at.
      options: Tell how many epochs, and steps.
      schedule: Does what is due.
      callbacks: Keras's, of the file.
    """
    epoch, records = int(checkpoints.epoch.numpy()), int(checkpoints.records.numpy())
    if 0 < options.max_step <= int(job.step.numpy()):
        return
    room = (lambda: 1) if batch_watcher(callbacks) else schedule.room
    callbacks = [schedule, *callbacks]
    with contextlib.ExitStack() as stack:
        if job.distribute_strategy.num_replicas_in_sync == 1:
            grouped = GroupedSteps(job, room)
            callbacks = [grouped.epochs(), *callbacks]
            stack.enter_context(grouped.in_fit())
            stack.enter_context(heeded())  # several workers, of which one is asked to end, all go back to a checkpoint
        epochs = options.num_epochs if options.num_epochs > 0 else ENDLESS
        if records:
            # None are left if the checkpoint is that of an epoch's last step.
            if next(iter(training(epoch, records).take(1)), None) is not None:
                rest = training(epoch, records)
                job.fit(rest, initial_epoch=epoch, epochs=epoch + 1, callbacks=callbacks, verbose=0)
            epoch += 1
        if epoch < epochs and not (0 < options.max_step <= int(job.step.numpy())):
            job.fit(training(epoch, 0), initial_epoch=epoch, epochs=epochs, callbacks=callbacks, verbose=0)
