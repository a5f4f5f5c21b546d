"""Trains an ElasticDL model with Keras's `fit`, and ElasticDL's evaluation and checkpoint intervals and step limits.

Between these events, steps run in groups (`grouped_steps.py`), or one by one if one of the file's callbacks watches
each batch.
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
from ...checkpoints.damage import set_aside
from ...checkpoints.fallback import damage_of, search_newest
from ...checkpoints.restore import restore
from ...errors import InputError
from ...keras.weight_fingerprints import of_weights
from ...monitoring.progress import report_progress
from ...runtime.process.preemption import Preempted, deferred_sigterm, is_preempted
from .batch_callbacks import find_batch_callback
from .best_weights import BestWeights
from .grouped_steps import GroupedSteps
from .job import Job
from .options import ElasticDLOptions
from .shared_batches import share

CHECKPOINT_NAME = "version"
ENDLESS = 2**31  # epochs; max_step ends training before


class Checkpoints:
    """The checkpoints of a job: weights, optimizer, step, and position in the data.

    The position is counted in records, since the global batch size depends on the number of workers.

    Attributes:
      epoch: The 0-based epoch, an int64 variable.
      records: The number of the epoch's records that have been trained on, an int64 variable.
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
        """Waits until the last checkpoint is written."""
        self._saved.__exit__(*error)

    @property
    def latest(self) -> str | None:
        """The path of the latest complete checkpoint, or None."""
        return self._saved.latest

    def resume(self, unpublished: str | None = None) -> bool:
        """Restores an unfinished job from its latest checkpoint; after a finished job, training starts from scratch.

        Args:
          unpublished: The base name of the last checkpoint of a finished job whose model was not published. If it is
            the latest checkpoint, that job is restored.

        Returns:
          Whether a finished job was restored, so that no training is left to do.
        """
        latest = self._saved.latest
        if latest is None:
            return False
        finished = tf.train.load_checkpoint(latest).get_tensor("finished/.ATTRIBUTES/VARIABLE_VALUE")
        if finished and os.path.basename(latest) != unpublished:
            logging.info("The job of %s is complete; starting a new one.", latest)
            return False
        restore(self._state, latest).expect_partial()
        logging.info("Resuming from %s, at step %d.", latest, self._job.step.numpy())
        return bool(finished)

    def save(self, epoch: int, records: int, finished: bool = False) -> None:
        """Saves a snapshot of the job; it is written in the background."""
        self.epoch.assign(epoch)
        self.records.assign(records)
        self._finished.assign(finished)
        self._saved.save(int(self._job.step.numpy()))


def load_weights(model: tf.keras.Model, folder: str) -> str:
    """Restores a model's weights from a checkpoint, or from the latest one in a directory.

    Args:
      model: The built model.
      folder: A checkpoint directory, or the path prefix of a checkpoint.

    Returns:
      The checkpoint's path prefix.

    Raises:
      InputError: When there is no complete checkpoint, or when its weights do not match the model.
    """
    path: str | None = folder
    if tf.io.gfile.isdir(folder):
        path = search_newest(folder).newest  # another job's folder, which is not repaired
    elif tf.io.gfile.glob(f"{folder}.index") and (problem := damage_of(folder)):
        raise InputError(f"checkpoint_dir_for_init={folder}: {problem}. Choose another checkpoint.")
    if path is None or not tf.io.gfile.glob(f"{path}.index"):
        raise InputError(
            f"checkpoint_dir_for_init={folder}: there is no complete checkpoint. Set it to the checkpoint_dir of a job."
        )
    try:
        tf.train.Checkpoint(model=model).restore(path).expect_partial().assert_existing_objects_matched()
    except (AssertionError, ValueError) as error:
        raise InputError(f"{path} contains the weights of a different model: {error}") from error
    logging.info("Loaded the weights from %s.", path)
    return str(path)


class Schedule(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Callback that evaluates, saves checkpoints, logs the loss and ends training at the steps set in the options.

    On a preemption request, it saves a checkpoint and raises `Preempted`.
    """

    def __init__(
        self, job: Job, checkpoints: Checkpoints, options: ElasticDLOptions, evaluation: Evaluation, batch_size: int
    ) -> None:
        super().__init__()
        self._supports_tf_logs = True  # otherwise Keras fetches the loss after every batch
        self._job = job
        self._checkpoints = checkpoints
        self._options = options
        self._evaluation = evaluation
        self._step = int(job.step.numpy())
        self._epoch = int(checkpoints.epoch.numpy())
        self._records = int(checkpoints.records.numpy())
        self._batch_size = batch_size
        self._logged = self._step

    def steps_until_due(self) -> int:
        """Returns the number of steps until the next log line, checkpoint, evaluation or the step limit."""
        options = self._options
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


class EvaluationState(TypedDict):
    """The best weights so far: their evaluation loss and the path of their checkpoint."""

    lowest: float
    best: str | None


class Evaluation:
    """Evaluates the job, saves the best weights and writes TensorBoard summaries.

    Args:
      job: The job.
      folder: See the attribute.
      evaluate: Evaluates the current weights and returns the metrics by name; None without validation data.

    Attributes:
      results: The metrics of the last evaluation by name.
      folder: The directory for the best weights and the summaries.
    """

    def __init__(self, job: Job, folder: str, evaluate: Callable[[], Mapping[str, float]] | None) -> None:
        self.results: dict[str, float] = {}
        self._job = job
        self._best = BestWeights(job.inner, os.path.join(folder, "best", "weights"))
        self._earlier_best: str | None = None  # of an earlier attempt
        self._evaluate = evaluate
        self._lowest = math.inf
        self._done: tuple[int, tuple[str, ...]] = -1, ()
        self.folder = folder
        self._writers: dict[str, tf.summary.SummaryWriter] = {}

    def to_json(self) -> EvaluationState:
        """Returns the state for `resume`."""
        return {"lowest": self._lowest, "best": self.save_best()}

    def resume(self, state: EvaluationState) -> None:
        """Restores the best loss and path from an earlier attempt; a damaged checkpoint is moved aside."""
        path = state["best"]
        if path and (problem := damage_of(path)):
            set_aside(path, problem, "the last weights are evaluated and exported as the best")
        elif path:
            self._lowest, self._earlier_best = state["lowest"], path

    def run(self, step: int) -> None:
        """Evaluates the current weights, unless the same weights were evaluated at this step."""
        if self._evaluate is None:
            return
        weights = of_weights(self._job.inner.weights)
        if (step, weights) == self._done:  # a callback may have changed the weights since
            return
        self._done = step, weights
        values = self._evaluate()
        self.results = {name: float(value) for name, value in values.items()}
        self.log("eval", step, self.results)
        if self.results["loss"] < self._lowest:
            self._lowest, self._earlier_best = self.results["loss"], None
            self._best.keep()

    def save_best(self) -> str | None:
        """Writes the weights with the lowest loss; returns the path of the checkpoint, or None without evaluations."""
        if self._earlier_best is not None or math.isinf(self._lowest):
            return self._earlier_best
        return self._best.save()

    def log(self, split: str, step: int, values: dict[str, float]) -> None:
        """Writes values to the log and to the TensorBoard summaries of a split ("train" or "eval")."""
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
    """Trains from the job's current position: the rest of an interrupted epoch, then the remaining epochs.

    Args:
      job: The compiled job.
      training: A function (epoch, records to skip) that returns the batches of (features, labels) of that epoch;
        further iterations of the dataset give the following epochs.
      checkpoints: Provides the epoch and the record to start from.
      options: Provides `num_epochs` and `max_step`.
      schedule: The callback for logging, checkpoints and evaluations.
      callbacks: The file's Keras callbacks.
    """
    epoch, records = int(checkpoints.epoch.numpy()), int(checkpoints.records.numpy())
    if 0 < options.max_step <= int(job.step.numpy()):
        return
    max_steps = (lambda: 1) if find_batch_callback(callbacks) else schedule.steps_until_due
    callbacks = [schedule, *callbacks]
    epochs = options.num_epochs if options.num_epochs > 0 else ENDLESS
    is_alone = job.distribute_strategy.num_replicas_in_sync == 1
    # Several workers do not save on preemption; they resume from a checkpoint.
    with deferred_sigterm() if is_alone else contextlib.nullcontext():
        if records:
            # No records are left if the checkpoint was saved at the epoch's last step.
            if next(iter(training(epoch, records).take(1)), None) is not None:
                _fit_epochs(job, training(epoch, records), range(epoch, epoch + 1), options, callbacks, max_steps)
            epoch += 1
        if epoch < epochs and not (0 < options.max_step <= int(job.step.numpy())):
            _fit_epochs(job, training(epoch, 0), range(epoch, epochs), options, callbacks, max_steps)


def _fit_epochs(
    job: Job,
    dataset: tf.data.Dataset,
    epochs: range,
    options: ElasticDLOptions,
    callbacks: list[tf.keras.callbacks.Callback],
    max_steps: Callable[[], int],
) -> None:
    replicas = job.distribute_strategy.num_replicas_in_sync
    if replicas > 1:
        data = share(dataset, replicas, options.minibatch_size)
        job.fit(data, initial_epoch=epochs.start, epochs=epochs.stop, callbacks=callbacks, verbose=0)
        return
    grouped = GroupedSteps(job, dataset, max_steps)
    with grouped.in_fit(options.minibatch_size) as data:
        callbacks = [grouped.epochs(), *callbacks]
        job.fit(data, initial_epoch=epochs.start, epochs=epochs.stop, callbacks=callbacks, verbose=0)
