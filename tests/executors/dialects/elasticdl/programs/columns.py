"""Rows on the feature columns."""

from __future__ import annotations

import copy
import pathlib

import pytest
import tensorflow as tf
from elasticdl.python.elasticdl.feature_column import feature_column as elastic
from elasticdl_preprocessing.feature_column.feature_column import concatenated_categorical_column


def concatenated(unused: pathlib.Path) -> None:
    users = tf.feature_column.categorical_column_with_identity("user_id", num_buckets=32)
    items = tf.feature_column.categorical_column_with_identity("item_id", num_buckets=128)
    column = concatenated_categorical_column([users, items])
    assert (column.name, column.num_buckets) == ("item_id_C_user_id", 160)
    assert copy.deepcopy(column) == column == type(column).from_config(column.get_config())
    features = tf.keras.layers.DenseFeatures([tf.feature_column.indicator_column(column)])
    dense = features({"user_id": tf.constant([[10], [20]]), "item_id": tf.constant([[1], [120]])})
    assert tf.where(dense > 0).numpy().tolist() == [[0, 10], [0, 1 + 32], [1, 20], [1, 120 + 32]]
    with pytest.raises(ValueError, match="at least one column"):
        concatenated_categorical_column([])
    with pytest.raises(ValueError, match="categorical_column_with_"):
        concatenated_categorical_column([tf.feature_column.numeric_column("age")])


def concatenated_parses_what_its_columns_parse(unused: pathlib.Path) -> None:
    words = tf.feature_column.categorical_column_with_hash_bucket("word", 1024)
    ages = tf.feature_column.bucketized_column(tf.feature_column.numeric_column("age"), [1, 2])
    column = concatenated_categorical_column([words, ages])
    assert column.parse_example_spec == {
        "word": tf.io.VarLenFeature(tf.string),
        "age": tf.io.FixedLenFeature((1,), tf.float32),
    }
    assert column.num_buckets == 1024 + 3


def a_model_of_columns_is_saved(folder: pathlib.Path) -> None:
    words = tf.feature_column.categorical_column_with_hash_bucket("word", 8)
    ages = tf.feature_column.bucketized_column(tf.feature_column.numeric_column("age"), [18.0, 65.0])
    both = tf.feature_column.embedding_column(concatenated_categorical_column([words, ages]), 2)
    own = elastic.embedding_column(words, dimension=3)
    assert isinstance(own, elastic.EmbeddingColumn)
    own.set_lookup_embedding_func(lambda name, ids: pytest.fail("it was called"))
    inputs = {"word": tf.keras.Input((1,), dtype=tf.string, name="word"), "age": tf.keras.Input((1,), name="age")}
    model = tf.keras.Model(inputs, tf.keras.layers.DenseFeatures([both, own])(inputs))
    features = {"word": tf.constant([["a"], ["b"]]), "age": tf.constant([[1.0], [70.0]])}
    expected = model(features).numpy()
    assert expected.shape == (2, 2 + 3)
    tf.saved_model.save(model, str(folder / "model"))
    (served,) = tf.saved_model.load(str(folder / "model")).signatures["serving_default"](**features).values()
    assert served.numpy().tolist() == expected.tolist()
