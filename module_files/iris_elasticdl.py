r"""Iris classification with an ElasticDL model file, on a CSV file.

    generic-trainer elasticdl train --model_zoo=module_files --model_def=iris_elasticdl.custom_model \
        --training_data=iris.csv --validation_data=iris.csv --num_epochs=30 --minibatch_size=16 --output=iris_model \
        --data_reader_params="columns=['sepal.length', 'sepal.width', 'petal.length', 'petal.width', 'variety']"

ElasticDL finds the functions by their names. The reader passes each row to `feed` as a vector of strings, in the order
of the columns above; the last one is the species, a number from 0 to 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from elasticdl.python.common.constants import Mode

MEASURES = 4
SPECIES = 3


def custom_model() -> tf.keras.Model:
    """Returns logits of shape [batch, 3] for four measures in centimetres."""
    measures = tf.keras.Input((MEASURES,), name="measures")
    hidden = tf.keras.layers.Dense(16, activation="relu")(measures)
    return tf.keras.Model(measures, tf.keras.layers.Dense(SPECIES)(hidden))


def feed(dataset: tf.data.Dataset, mode: str, metadata: Any) -> tf.data.Dataset:
    """Parses rows into features and labels, and shuffles them for training.

    Args:
        dataset: Rows, each a vector of strings.
        mode: One of Mode; in PREDICTION mode rows may have no label.
        metadata: The column names, unused here.
    """
    del metadata

    def parse(row: tf.Tensor) -> Any:
        features = {"measures": tf.strings.to_number(row[:MEASURES])}
        if mode == Mode.PREDICTION:
            return features
        return features, tf.strings.to_number(row[MEASURES], tf.int32)

    dataset = dataset.map(parse)
    return dataset.shuffle(1024, seed=1) if mode == Mode.TRAINING else dataset


def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """Returns the mean cross entropy of a batch."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, predictions))


def optimizer(lr: float = 0.02) -> tf.keras.optimizers.Optimizer:
    """Returns the optimizer; ElasticDL calls it without arguments."""
    return tf.keras.optimizers.Adam(lr)


def eval_metrics_fn() -> dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]]:
    """Returns the metrics by name, each a function of labels and predictions."""

    def accuracy(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.equal(tf.argmax(predictions, 1, tf.int32), labels), tf.float32)

    return {"accuracy": accuracy}
