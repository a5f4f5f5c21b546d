"""Sixty-four made-up people: what the rows train on, as arrays, as datasets and as serialized tf.Examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

COUNT = 64
BATCH = 16
_random = np.random.RandomState(0)
FEATURES: dict[str, Any] = {
    "age": _random.rand(COUNT, 1).astype("float32"),
    "hours": _random.rand(COUNT, 1).astype("float32"),
    "city": _random.choice([b"Kiel", b"Bonn", b"Ulm"], [COUNT, 1]),
}
OLD = (FEATURES["age"] > 0.5).astype("int64")
AGE_GROUP = np.floor(FEATURES["age"] * 3).astype("int64")
INCOME = (2 * FEATURES["age"] + FEATURES["hours"]).astype("float32")
CITIES = ["Kiel", "Bonn", "Ulm"]

SPEC = {
    "age": tf.io.FixedLenFeature([1], tf.float32),
    "hours": tf.io.FixedLenFeature([1], tf.float32),
    "city": tf.io.FixedLenFeature([1], tf.string),
}


def batches(labels: Any, features: dict[str, Any] | None = None, epochs: int | None = None) -> Callable[[], Any]:
    """Returns an input_fn over all the people in order; endless unless `epochs` is given."""
    rows = FEATURES if features is None else features
    return lambda: tf.data.Dataset.from_tensor_slices((rows, labels)).repeat(epochs).batch(BATCH)


def serialized() -> list[bytes]:
    """Returns the people as tf.Examples."""

    def example(i: int) -> bytes:
        floats = {
            name: tf.train.Feature(float_list=tf.train.FloatList(value=FEATURES[name][i])) for name in ("age", "hours")
        }
        city = {"city": tf.train.Feature(bytes_list=tf.train.BytesList(value=FEATURES["city"][i]))}
        return tf.train.Example(features=tf.train.Features(feature={**floats, **city})).SerializeToString()

    return [example(i) for i in range(COUNT)]


def receiver() -> Callable[[], Any]:
    """Returns the serving_input_receiver_fn that parses them."""
    return tf.estimator.export.build_parsing_serving_input_receiver_fn(SPEC)


def numeric() -> list[Any]:
    return [tf.feature_column.numeric_column(name) for name in ("age", "hours")]


def city() -> Any:
    return tf.feature_column.categorical_column_with_vocabulary_list("city", CITIES)
