"""The checkpoints of an ElasticDL job, and weights from those of other jobs."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf
from absl import logging

from ...checkpoints.async_checkpoints import AsyncCheckpoints
from ...checkpoints.fallback import damage_of, search_newest
from ...checkpoints.restore import restore
from ...errors import InputError
from .job import Job
from .options import ElasticDLOptions

CHECKPOINT_NAME = "version"


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
