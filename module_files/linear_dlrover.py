"""Linear regression with a conf for DLRover's TensorFlow trainer: a reader, an Estimator, and training options.

    cd module_files
    generic-trainer dlrover --conf=linear_dlrover.TrainConf

A conf is a class that is given as `module.Class`; missing attributes have defaults. The same file runs with DLRover
itself, which however ignores `max_steps` and trains on all rows.

The reader returns each row as a line of text with one field per column of the set. It returns the number of rows, and
the rows of a given range. Ranges may be requested in any order and concurrently, so a row must depend on its index
only. Here the index seeds the noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from dlrover.trainer.tensorflow.reader.base_reader import ElasticReader
from dlrover.trainer.tensorflow.util.column_info import Column

v1 = tf.compat.v1
Modes = tf.estimator.ModeKeys

MAX_X = 1000


class LineReader(ElasticReader):
    """Generates rows "x,y" with y = 2 x + noise; the noise is an integer from 1 to 4."""

    def __init__(self, path: str, rows: int, seed: int) -> None:
        """Constructs the reader.

        Args:
            path: Name of the rows, which distinguishes them from those of other readers.
            rows: Number of rows.
            seed: Seed of the rows' random numbers.
        """
        self.rows = rows
        self.seed = seed
        super().__init__(path=path)

    def count_data(self) -> None:
        """Sets the number of rows; called before the first read."""
        self._data_nums = self.rows

    def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str]:
        """Returns the rows from `start_index` to `end_index`, exclusive."""
        rows = []
        for index in range(start_index, end_index):
            random = np.random.default_rng([self.seed, index])
            x = random.integers(1, MAX_X)
            y = 2 * x + random.integers(1, 5)
            rows.append(f"{x},{y}")
        return rows


class LineEstimator(tf.estimator.Estimator):
    """Fits a line by least squares."""

    def __init__(
        self, model_dir: str, config: tf.estimator.RunConfig | None = None, params: dict[str, Any] | None = None
    ) -> None:
        """Constructs the Estimator; the trainer passes all three arguments by position.

        Args:
            model_dir: Folder for checkpoints and exports.
            config: The RunConfig.
            params: The conf's `params`: `learning_rate`.
        """
        super().__init__(self.model_fn, model_dir=model_dir, config=config, params=params)

    def model_fn(
        self, features: dict[str, tf.Tensor], labels: tf.Tensor | None, mode: str, params: dict[str, Any]
    ) -> tf.estimator.EstimatorSpec:
        """Builds the graph for one mode.

        Args:
            features: `x`, [batch].
            labels: `y`, [batch]; None in PREDICT mode.
            mode: A key of `tf.estimator.ModeKeys`.
            params: `learning_rate`.
        """
        # Scaled to -1 to 1, so that one learning rate suits both the slope and the bias.
        x = tf.reshape(features["x"], [-1, 1]) / (MAX_X / 2) - 1
        scaled = v1.layers.dense(x, 1)
        predictions = scaled[:, 0] * MAX_X
        if mode == Modes.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=predictions)

        labels = tf.reshape(labels, [-1])
        loss = v1.losses.mean_squared_error(labels / MAX_X, scaled[:, 0])
        if mode == Modes.EVAL:
            # The lower bound is the standard deviation of the noise, about 1.12.
            metrics = {"rmse": v1.metrics.root_mean_squared_error(labels, predictions)}
            return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

        optimizer = v1.train.GradientDescentOptimizer(params["learning_rate"])
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


COLUMNS = (
    Column.create(name="x", dtype="float32", is_label=False),
    Column.create(name="y", dtype="float32", is_label=True),
)


class TrainConf:
    """The conf: Estimator, datasets and training options."""

    classifier_class = LineEstimator
    params = {"learning_rate": 0.5}  # noqa: RUF012 (a conf's attributes are plain ones)
    model_dir = "linear_model"

    batch_size = 64
    max_steps = 300
    log_steps = 50
    save_steps = 100  # steps between checkpoints, each followed by an evaluation
    eval_steps = 10

    train_set = {"reader": LineReader("train", rows=4000, seed=1), "columns": COLUMNS, "epoch": 10}  # noqa: RUF012
    eval_set = {"reader": LineReader("eval", rows=640, seed=2), "columns": COLUMNS}  # noqa: RUF012
