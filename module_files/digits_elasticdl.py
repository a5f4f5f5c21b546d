r"""Digit classification with an ElasticDL model file, on TFRecord files of images.

    generic-trainer elasticdl train --model_zoo=module_files --model_def=digits_elasticdl.custom_model \
        --training_data=digits/train --validation_data=digits/eval --num_epochs=10 --minibatch_size=32 \
        --evaluation_steps=100 --checkpoint_steps=100 --checkpoint_dir=checkpoints --output=digits_model

or, in a pipeline, `generic-trainer run --data digits --module-file module_files/digits_elasticdl.py`. Each record is a
serialized tf.Example with `image` (64 gray values from 0 to 16) and `label`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from elasticdl.callbacks import LearningRateScheduler
from elasticdl.python.common.constants import Mode

SIDE = 8
WHITE = 16.0


def custom_model() -> tf.keras.Model:
    """Returns logits of shape [batch, 10] for images of shape [batch, 8, 8]."""
    image = tf.keras.Input((SIDE, SIDE), name="image")
    x = tf.keras.layers.Reshape((SIDE, SIDE, 1))(image)
    x = tf.keras.layers.Conv2D(32, 3, activation="relu")(x)
    x = tf.keras.layers.BatchNormalization()(x)
    x = tf.keras.layers.MaxPooling2D()(x)
    x = tf.keras.layers.Flatten()(x)
    x = tf.keras.layers.Dropout(0.25)(x)
    return tf.keras.Model(image, tf.keras.layers.Dense(10)(x))


def feed(dataset: tf.data.Dataset, mode: str, _: Any) -> tf.data.Dataset:
    """Parses records into features and labels, and shuffles them for training."""
    spec = {"image": tf.io.FixedLenFeature([SIDE, SIDE], tf.float32)}
    if mode != Mode.PREDICTION:
        spec["label"] = tf.io.FixedLenFeature([], tf.int64)

    def parse(record: tf.Tensor) -> Any:
        example = tf.io.parse_single_example(record, spec)
        features = {"image": example["image"] / WHITE}
        return features if mode == Mode.PREDICTION else (features, example["label"])

    dataset = dataset.map(parse)
    return dataset.shuffle(2048, seed=1) if mode == Mode.TRAINING else dataset


def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """Returns the mean cross entropy of a batch."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, predictions))


def optimizer(lr: float = 0.01) -> tf.keras.optimizers.Optimizer:
    """Returns the optimizer; ElasticDL calls it without arguments."""
    return tf.keras.optimizers.Adam(lr)


def eval_metrics_fn() -> dict[str, Any]:
    """Returns the metrics by name."""
    return {"accuracy": tf.keras.metrics.SparseCategoricalAccuracy()}


def callbacks() -> list[Any]:
    """Returns the callbacks: a schedule that halves the learning rate every 200 steps."""
    return [LearningRateScheduler(lambda step: 0.01 * 0.5 ** (step // 200))]
