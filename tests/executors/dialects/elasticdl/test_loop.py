"""Several steps in a call change nothing: weights and history are the same to the last bit as those of `fit`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.elasticdl import loop
from generic_trainer.executors.dialects.elasticdl.batch_callbacks import find_batch_callback
from generic_trainer.executors.dialects.elasticdl.checkpoints import Checkpoints
from generic_trainer.executors.dialects.elasticdl.evaluation import Evaluation
from generic_trainer.executors.dialects.elasticdl.job import Job
from generic_trainer.executors.dialects.elasticdl.loop import LocalSteps
from generic_trainer.executors.dialects.elasticdl.metrics import EvalMetrics
from generic_trainer.executors.dialects.elasticdl.options import ElasticDLOptions
from generic_trainer.executors.dialects.elasticdl.parts import Parts
from generic_trainer.executors.dialects.elasticdl.schedule import Schedule

pytestmark = pytest.mark.legacy
BATCHES = 260  # in an epoch


def data(known_size: bool = True) -> tf.data.Dataset:
    random = np.random.default_rng(0)
    x = random.normal(size=(4 * BATCHES - 1, 3)).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).shuffle(100, seed=1)
    return (dataset if known_size else dataset.filter(lambda x, y: True)).batch(4)


def compiled(loss: Callable[..., object] | None = None) -> Job:
    tf.keras.utils.set_random_seed(1)
    layers = [tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dropout(0.3), tf.keras.layers.BatchNormalization()]
    inner = tf.keras.Sequential([tf.keras.Input((3,)), *layers, tf.keras.layers.Dense(1)])
    module = ModuleType("model_file")
    module.loss = loss or (lambda labels, predictions: tf.reduce_mean(tf.square(labels - predictions)))  # type: ignore[attr-defined]
    example = tf.zeros([2, 1])
    job = Job(
        inner,
        Parts(module, None, ElasticDLOptions()),
        EvalMetrics(lambda: {"mse": tf.keras.metrics.MeanSquaredError()}, example, inner(tf.zeros([2, 3]))),
    )
    job.compile(tf.keras.optimizers.SGD(0.01))
    job.optimizer.build(inner.trainable_variables)
    return job


def train(
    job: Job, dataset: tf.data.Dataset, epochs: int, limit: Callable[[], int], *callbacks: Any, one_by_one: bool = False
) -> LocalSteps:
    steps = LocalSteps(job, one_by_one)
    most = (lambda: 1) if one_by_one else limit
    loop._train(job, range(epochs), itertools.repeat(dataset), callbacks, steps, most)
    return steps


def no_limit() -> int:
    return 2**31


@pytest.mark.thorough_but("size unknown-grouped")
@pytest.mark.parametrize("one_by_one", [False, True], ids=["grouped", "one by one"])
@pytest.mark.parametrize("known_size", [True, False], ids=["size known", "size unknown"])
def test_no_bit_changes(known_size: bool, one_by_one: bool) -> None:
    expected = compiled()
    dataset = data(known_size)
    step = tf.function(expected.train_step, input_signature=[dataset.element_spec])
    iter(dataset)  # Keras 2's `fit` does not use the first order of a shuffled dataset
    losses = []
    for _ in range(3):
        expected.reset_metrics()
        for batch in dataset:
            logs = step(batch)
        losses.append(float(logs["loss"]))

    job = compiled()
    steps = train(job, data(known_size), 3, no_limit, one_by_one=one_by_one)
    assert one_by_one or steps.size > 1
    for weights, expected_weights in zip(job.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(weights, expected_weights)
    assert job.history.history["loss"] == losses
    assert int(job.step) == 3 * BATCHES


def test_a_call_ends_where_something_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_MAX_STEPS", 16)
    monkeypatch.setattr(loop, "_TARGET_SECONDS", 1e9)
    job, ends, batches = compiled(), set(), []

    class Noting(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            ends.add(int(job.step))
            batches.append(batch)

    steps = LocalSteps(job)
    steps.size = 16
    data_of_epochs = itertools.repeat(data().take(50))
    loop._train(job, range(2), data_of_epochs, [Noting()], steps, lambda: 20 - int(job.step) % 20)
    # Something is due after 20, 40, 60 and 80 steps, an epoch has 50.
    assert ends == {16, 20, 36, 40, 50, 60, 76, 80, 96, 100}
    assert batches == [*range(50), *range(50)]


def test_training_stops_within_an_epoch() -> None:
    job = compiled()

    class Stopping(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            job.stop_training = int(job.step) >= 7

    train(job, data(), 2, lambda: 1, Stopping())
    assert int(job.step) == 7
    assert len(job.history.history["loss"]) == 1


def test_a_training_after_an_error_of_the_data_begins_a_new_pass() -> None:
    limit = tf.Variable(2.0)
    x = tf.reshape(tf.range(12.0), [4, 3])
    dataset = tf.data.Dataset.from_tensor_slices((x, x[:, :1]))
    dataset = dataset.map(lambda x, y: (tf.ensure_shape(x[: tf.where(x[0] < limit, 3, 2)], [3]), y)).batch(1)
    job = compiled()
    steps = LocalSteps(job)
    with pytest.raises(tf.errors.InvalidArgumentError):
        loop._train(job, range(1), [dataset], [], steps, no_limit)
    limit.assign(99.0)
    before = int(job.step)
    loop._train(job, range(1), [dataset], [], steps, no_limit)
    assert int(job.step) == before + 4


def test_each_step_has_one_begin_and_one_end() -> None:
    seen: list[tuple[str, int]] = []

    class Noting(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            seen.append(("begin", int(job.step)))

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(("end", int(job.step)))

    job = compiled()
    train(job, data().take(3), 2, no_limit, Noting(), one_by_one=True)
    assert seen == [event for step in range(6) for event in (("begin", step), ("end", step + 1))]


def test_a_job_that_was_saved_at_the_last_step_of_an_epoch_resumes_with_the_next(tmp_path: Any) -> None:
    job, begun = compiled(), []
    options = ElasticDLOptions(checkpoint_dir=str(tmp_path / "checkpoints"), num_epochs=2, minibatch_size=4)
    checkpoints = Checkpoints(job, job.optimizer, options)
    checkpoints.records.assign(12)
    schedule = Schedule(job, checkpoints, options, Evaluation(job, str(tmp_path), None), 4)

    class Noting(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            begun.append(epoch)

    def training(epoch: int, skip: int) -> tf.data.Dataset:
        return data().take(3).unbatch().skip(skip).batch(4)

    loop.fit(job, training, checkpoints, schedule, [Noting()])
    assert begun == [1]
    assert int(job.step) == 3


def test_an_error_of_the_loss_is_its_own() -> None:
    def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        raise ValueError("three labels are missing")

    with pytest.raises(ValueError, match=r"^three labels are missing$"):
        train(compiled(loss), data().take(3), 1, no_limit)


def test_calls_grow_as_long_as_they_are_brief() -> None:
    steps = LocalSteps(compiled())
    sizes = []
    for seconds in (9.0, *[0.001] * 8, 0.07, 0.2, 0.2, 0.01):  # the first compiles
        steps.resize(steps.size, seconds)
        sizes.append(steps.size)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 32, 16, 32]
    steps.resize(3, 0.001)  # the last call of an epoch shows nothing about larger ones
    assert steps.size == 32


def test_callbacks_that_look_at_each_batch_are_known(tmp_path: Any) -> None:
    callbacks = tf.keras.callbacks
    harmless = [callbacks.ModelCheckpoint(str(tmp_path / "model.keras")), callbacks.History()]
    assert find_batch_callback(harmless) == ""
    assert find_batch_callback([*harmless, callbacks.TerminateOnNaN()]) == "TerminateOnNaN"
    assert find_batch_callback([callbacks.LambdaCallback(on_train_batch_end=print)]) == "LambdaCallback"
    assert find_batch_callback([callbacks.LambdaCallback(on_epoch_end=print)]) == ""
