"""Each pass over a dataset reads it anew, and evaluations with one iterator give the same metrics as Keras's."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.elasticdl.end_marks import with_end_marks
from generic_trainer.executors.dialects.elasticdl.job import Job
from generic_trainer.executors.dialects.elasticdl.metrics import EvalMetrics
from generic_trainer.executors.dialects.elasticdl.options import ElasticDLOptions
from generic_trainer.executors.dialects.elasticdl.parts import Parts
from generic_trainer.executors.dialects.elasticdl.repeated_evaluation import RepeatedEvaluation


def values(iterator: tf.data.Iterator) -> list[Any]:
    """Returns the elements of the next pass."""
    elements = []
    while (element := iterator.get_next()).has_value():
        elements.append(tf.nest.map_structure(lambda value: value.numpy().tolist(), element.get_value()))
    return elements


def test_each_pass_reads_the_dataset_anew() -> None:
    count = tf.Variable(2, dtype=tf.int64)
    dataset = tf.data.Dataset.from_tensors(0).flat_map(lambda _: tf.data.Dataset.range(count)).batch(2)
    passes = iter(with_end_marks(dataset))
    assert values(passes) == [[0, 1]]
    count.assign(3)
    assert values(passes) == [[0, 1], [2]]
    count.assign(0)
    assert values(passes) == []
    count.assign(4)
    assert values(passes) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("element", [3, (3,), (3, {"x": 4}), {"x": 3}], ids=["value", "1-tuple", "tuple", "dict"])
def test_elements_have_their_structure(element: Any) -> None:
    assert values(iter(with_end_marks(tf.data.Dataset.from_tensors(element)))) == [element]


def test_a_pass_has_the_next_order_of_a_shuffled_dataset() -> None:
    passes = iter(with_end_marks(tf.data.Dataset.range(9).shuffle(9, seed=1)))
    expected = tf.data.Dataset.range(9).shuffle(9, seed=1)
    assert [values(passes) for _ in range(3)] == [[*map(int, expected.as_numpy_iterator())] for _ in range(3)]


def job_of(metrics: Any) -> Job:
    module = ModuleType("model_file")
    module.loss = lambda labels, predictions: tf.reduce_mean(tf.square(labels - predictions))  # type: ignore[attr-defined]
    inner = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    example = tf.zeros([2, 1])
    job = Job(inner, Parts(module, None, ElasticDLOptions()), EvalMetrics(metrics, example, inner(example)))
    job.compile()
    return job


def mean_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.abs(labels - predictions))


def in_python(labels: tf.Tensor, predictions: tf.Tensor) -> float:
    return float(labels[0, 0])  # a graph has no such value


def data(fails_at: Any = None) -> tf.data.Dataset:
    x = tf.reshape(tf.range(5.0), [5, 1])
    dataset = tf.data.Dataset.from_tensor_slices((x, 3 * x))
    if fails_at is not None:
        dataset = dataset.map(lambda x, y: (tf.ensure_shape(x[: tf.where(x[0] < fails_at, 1, 0)], [1]), y))
    return dataset.batch(2)


def test_metrics_are_those_of_evaluate() -> None:
    job = job_of(lambda: {"error": mean_error, "mse": tf.keras.metrics.MeanSquaredError()})
    evaluate = RepeatedEvaluation(job, data())
    for weight in (0.5, 2.0):
        job.inner.set_weights([np.array([[weight]]), np.array([1.0])])
        expected = job.evaluate(data(), verbose=0, return_dict=True)
        assert evaluate() == expected
        assert evaluate() == expected
        assert set(expected) == {"loss", "error", "mse"}


def test_an_evaluation_after_a_failed_one_begins_a_new_pass() -> None:
    job = job_of(lambda: {"error": mean_error})
    limit = tf.Variable(3.0)
    evaluate = RepeatedEvaluation(job, data(fails_at=limit))
    with pytest.raises(tf.errors.InvalidArgumentError):
        evaluate()
    limit.assign(9.0)
    assert evaluate() == job.evaluate(data(), verbose=0, return_dict=True)


def test_an_error_of_a_metric_is_that_of_evaluate() -> None:
    job = job_of(lambda: {"error": mean_error})
    job._eval_metrics._updates.append(lambda labels, outputs: in_python(labels, outputs))  # type: ignore[arg-type]
    with pytest.raises(TypeError) as expected:
        job.evaluate(data(), verbose=0, return_dict=True)
    with pytest.raises(TypeError) as error:
        RepeatedEvaluation(job, data())()
    assert str(error.value) in str(expected.value)  # Keras 2 adds lines of its traceback
