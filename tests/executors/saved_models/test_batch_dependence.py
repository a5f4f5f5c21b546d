"""An answer that depends on the other examples of a batch is found; rounding, randomness, padding and ties are not."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from generic_trainer import check_saved_model
from generic_trainer.executors.saved_models.batch_dependence import BatchComparison, compare_in_batch

from ...world.models import save_model

_GENERATOR = np.random.default_rng(1)
ROWS = _GENERATOR.normal(size=(8, 4)).astype(np.float32)
WORDS = ["a bc", "d", "e fg h", "", "i", "jk", "l", "m"]
VECTOR = tf.TensorSpec([None, 4], tf.float32, name="x")
TEXT = tf.TensorSpec([None], tf.string, name="x")
Outputs = dict[str, tf.Tensor]


def _layers(*layers: keras.Layer) -> keras.Sequential:
    return keras.Sequential(
        [keras.Input([4]), keras.layers.Dense(16, activation="relu"), *layers, keras.layers.Dense(3)]
    )


class Models(tf.Module):
    """A function for each kind of model."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = tf.Variable(_GENERATOR.normal(size=(4, 500)).astype(np.float32))
        self.deep = tf.Variable(_GENERATOR.normal(size=(500, 3)).astype(np.float32))
        self.count = tf.Variable(0.0)
        self.normalized = _layers(keras.layers.BatchNormalization())

    def training_mode(self, x: tf.Tensor) -> Outputs:
        return {"y": self.normalized(x, training=True)}

    def inference_mode(self, x: tf.Tensor) -> Outputs:
        return {"y": self.normalized(x, training=False)}

    def noise_and_training_mode(self, x: tf.Tensor) -> Outputs:
        return {"y": self.normalized(x + 0.1 * tf.random.normal(tf.shape(x)), training=True)}

    def dropout(self, x: tf.Tensor) -> Outputs:
        return {"y": tf.nn.dropout(x @ self.wide, 0.5) @ self.deep}

    def samples(self, x: tf.Tensor) -> Outputs:
        return {"y": tf.as_string(tf.random.categorical(x, 3))}

    def state(self, x: tf.Tensor) -> Outputs:
        return {"y": x[:, 0] + self.count.assign_add(1.0)}

    def half_precision(self, x: tf.Tensor) -> Outputs:
        hidden = tf.cast(x, tf.bfloat16) @ tf.cast(self.wide, tf.bfloat16)
        return {"y": tf.cast(hidden @ tf.cast(self.deep, tf.bfloat16), tf.float32)}

    def half_precision_in_batch(self, x: tf.Tensor) -> Outputs:
        centered = tf.cast(x, tf.bfloat16) - 0.1 * tf.reduce_mean(tf.cast(x, tf.bfloat16), axis=0)
        return {"y": tf.nn.softmax(tf.cast(centered, tf.float32))}

    def ties(self, x: tf.Tensor) -> Outputs:
        scores = x @ tf.concat([self.wide, self.wide], axis=1)
        return {"y": tf.math.top_k(scores, 20).indices}

    def classes_in_batch(self, x: tf.Tensor) -> Outputs:
        return {"y": tf.where(x[:, 0] > tf.reduce_mean(x[:, 0]), "high", "low")}

    def ranks(self, x: tf.Tensor) -> Outputs:
        return {"y": tf.argsort(tf.argsort(-tf.abs(x[:, 0])))}

    def softmax_in_batch(self, x: tf.Tensor) -> Outputs:
        return {"y": tf.nn.softmax(x @ tf.transpose(x))}

    def share_of_batch(self, x: tf.Tensor) -> Outputs:
        return {"y": x / tf.cast(tf.shape(x)[0], tf.float32)}

    def added_size(self, x: tf.Tensor) -> Outputs:
        return {"y": tf.nn.sigmoid(x + 0.05 * tf.cast(tf.shape(x)[0], tf.float32))}

    def noise_by_place(self, x: tf.Tensor) -> Outputs:
        return {"y": x + tf.random.stateless_normal(tf.shape(x), [1, 2])}

    def noise_by_example(self, x: tf.Tensor) -> Outputs:
        seeds = tf.bitcast(x[:, :2], tf.int32)
        return {
            "y": tf.map_fn(lambda seed: tf.random.stateless_normal([3], seed), seeds, fn_output_signature=tf.float32)
        }

    def cumulative(self, x: tf.Tensor) -> Outputs:
        return {"y": tf.cumsum(x)}

    def first_of_equal(self, x: tf.Tensor) -> Outputs:
        return {"y": tf.unique(tf.cast(x[:, 0] > 0, tf.int32)).idx}

    def similarities(self, x: tf.Tensor) -> Outputs:
        return {"y": x @ tf.transpose(x)}

    def share_of_largest(self, x: tf.Tensor) -> Outputs:
        return {"y": x / tf.reduce_max(tf.abs(x))}

    def one_of_two(self, x: tf.Tensor) -> Outputs:
        return {"a": tf.random.normal(tf.shape(x)), "y": x - tf.reduce_mean(x, axis=0)}

    def mean_with_padding(self, x: tf.Tensor) -> Outputs:
        return {"y": tf.reduce_mean(tf.cast(tf.strings.unicode_decode(x, "UTF-8").to_tensor(), tf.float32), axis=1)}

    def padded(self, x: tf.Tensor) -> Outputs:
        characters = tf.strings.unicode_decode(x, "UTF-8")
        return {"y": characters.to_tensor(), "sum": tf.reduce_sum(characters, axis=1)}

    def not_by_example(self, x: tf.Tensor) -> Outputs:
        return {"loss": tf.reduce_mean(x), "classes": tf.constant(["a", "b", "c"])}

    def beside_others(self, x: tf.Tensor) -> Outputs:
        return {**self.not_by_example(x), "y": 2.0 * x}

    def one_at_a_time(self, x: tf.Tensor) -> Outputs:
        return {"y": tf.ensure_shape(x, [1, 4])}


@pytest.fixture(scope="module")
def compare(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., BatchComparison]:
    folder, models = str(tmp_path_factory.mktemp("models")), Models()
    names = [name for name, method in vars(Models).items() if callable(method) and not name.startswith("_")]
    texts = ("mean_with_padding", "padded")
    signatures = {
        name: tf.function(getattr(models, name), input_signature=[TEXT if name in texts else VECTOR]) for name in names
    }
    signatures["fixed"] = tf.function(
        models.beside_others, input_signature=[tf.TensorSpec([1, 4], tf.float32, name="x")]
    )
    tf.saved_model.save(models, folder, signatures=signatures)
    loaded = tf.saved_model.load(folder)

    def run(name: str, rows: Sequence[Any] | None = None) -> BatchComparison:
        rows = rows if rows is not None else WORDS if name in texts else ROWS
        feeds = {f"row {number}": {"x": tf.constant([row])} for number, row in enumerate(rows, 1)}
        function = loaded.signatures[name]
        return compare_in_batch(function, feeds, function(x=tf.constant(rows[:1])))

    return run


@pytest.mark.parametrize(
    "name",
    [
        "training_mode",
        "noise_and_training_mode",
        "half_precision_in_batch",
        "classes_in_batch",
        "ranks",
        "softmax_in_batch",
        "share_of_batch",
        "added_size",
        "one_of_two",
        "mean_with_padding",
    ],
)
def test_an_answer_that_depends_on_the_batch_is_found(name: str, compare: Callable[..., BatchComparison]) -> None:
    comparison = compare(name)
    assert "depends on the other examples of its batch: y is [" in comparison.outcome
    assert comparison.dependence is not None
    assert (comparison.dependence["output"], comparison.dependence["batch_size"]) == ("y", 8)
    assert comparison.dependence["alone"] != comparison.dependence["together"]
    assert ("on average" in comparison.outcome) == name.startswith("noise")


@pytest.mark.parametrize("name", ["cumulative", "first_of_equal", "similarities", "share_of_largest", "noise_by_place"])
def test_a_first_example_that_is_an_exception_hides_nothing(name: str, compare: Callable[..., BatchComparison]) -> None:
    outcome = compare(name, np.concatenate([10 * np.abs(ROWS[:1]), ROWS[1:]])).outcome
    assert re.match(r"found that the answer for row [2-8] depends on the other examples of its batch: y is \[", outcome)


def test_both_answers_are_recorded(compare: Callable[..., BatchComparison]) -> None:
    dependence = compare("one_of_two").dependence
    assert dependence is not None
    assert dependence["alone"] == [0.0] * 4
    assert dependence["together"] == pytest.approx((ROWS[0] - ROWS.mean(axis=0)).tolist(), abs=1e-6)


@pytest.mark.parametrize(
    "name", ["inference_mode", "half_precision", "ties", "padded", "noise_by_example", "beside_others"]
)
def test_rounding_ties_padding_and_values_of_the_whole_batch_pass(
    name: str, compare: Callable[..., BatchComparison]
) -> None:
    assert compare(name) == BatchComparison("passed")


@pytest.mark.parametrize("name", ["dropout", "samples", "state"])
def test_a_random_model_is_not_taken_for_one_that_depends_on_the_batch(
    name: str, compare: Callable[..., BatchComparison]
) -> None:
    comparison = compare(name)
    assert comparison.outcome.startswith("is inconclusive: the model is random or keeps a state: y for row 1 differs")
    assert comparison.dependence is None


@pytest.mark.parametrize(
    ("name", "rows", "outcome"),
    [
        ("fixed", ROWS[:2], "skipped: the signature takes a fixed number of examples"),
        ("training_mode", ROWS[:1], "skipped: there are no two different examples for a batch"),
        ("training_mode", ROWS[[0, 0]], "skipped: there are no two different examples for a batch"),
        ("not_by_example", ROWS, "skipped: no output has values for each example"),
        ("one_at_a_time", ROWS, "is inconclusive: the signature fails on 8 examples together: InvalidArgumentError"),
    ],
)
def test_what_cannot_be_compared_is_named(
    name: str, rows: np.ndarray, outcome: str, compare: Callable[..., BatchComparison]
) -> None:
    comparison = compare(name, rows)
    assert comparison.outcome.startswith(outcome)
    assert comparison.dependence is None


@pytest.mark.parametrize("skip", [[], ["batches"]])
def test_the_check_of_a_model_reads_several_eval_examples(skip: list[str], tmp_path: pathlib.Path, iris: Any) -> None:
    def centered(features: dict[str, tf.Tensor]) -> Outputs:
        return {"y": features["sepal_length"] - tf.reduce_mean(features["sepal_length"])}

    save_model(centered, tmp_path, {"sepal_length": tf.io.FixedLenFeature([], tf.float32)})
    report = check_saved_model(str(tmp_path), [iris.eval], skip=skip)
    records = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(iris.eval)), "GZIP").take(8)
    examples = [tf.train.Example.FromString(record) for record in records.as_numpy_iterator()]
    lengths = np.array([example.features.feature["sepal_length"].float_list.value[0] for example in examples])
    if skip:
        assert (report.checks["batches"], report.batch_dependence) == ("skipped", None)
    else:
        assert report.warnings["batches"].startswith("found that the answer for the first eval example (")
        assert report.batch_dependence["alone"] == [0.0]
        assert report.batch_dependence["together"] == pytest.approx([lengths[0] - lengths.mean()], abs=1e-5)
