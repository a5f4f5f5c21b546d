"""Steps that are run in groups change nothing: the weights are the same to the last bit."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.elasticdl import grouped_steps
from generic_trainer.executors.dialects.elasticdl.batch_callbacks import find_batch_callback
from generic_trainer.executors.dialects.elasticdl.grouped_steps import GroupedSteps

pytestmark = pytest.mark.legacy
BATCHES = 260  # in an epoch


def data(known_size: bool = True) -> tf.data.Dataset:
    random = np.random.default_rng(0)
    x = random.normal(size=(4 * BATCHES - 1, 3)).astype("float32")
    is_keras_2 = not hasattr(tf.keras, "ops")  # Keras 3 skips orders of a shuffled dataset
    dataset = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True)))
    dataset = dataset.shuffle(100, seed=1, reshuffle_each_iteration=is_keras_2)
    return (dataset if known_size else dataset.filter(lambda x, y: True)).batch(4)


def compiled(dropout: float = 0.3) -> Any:
    tf.keras.utils.set_random_seed(1)
    layers = [tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dropout(dropout), tf.keras.layers.BatchNormalization()]
    model = tf.keras.Sequential([tf.keras.Input((3,)), *layers, tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(0.01), "mse", metrics=["mae"])
    return model


def no_limit() -> int:
    return 2**31


@pytest.mark.thorough_but("size unknown")
@pytest.mark.parametrize("known_size", [True, False], ids=["size known", "size unknown"])
def test_no_bit_changes(known_size: bool) -> None:
    def fit(grouped: bool) -> tuple[list[Any], Any]:
        # At the end of data of unknown size Keras runs a step without a batch, which draws for the dropout.
        model = compiled(dropout=0.3 if known_size else 0.0)
        original = data(known_size)
        steps = GroupedSteps(model, original, no_limit)
        with steps.in_fit(4) if grouped else contextlib.nullcontext(original) as batches:
            callbacks = [steps.epochs()] if grouped else []
            history = model.fit(batches, epochs=3, callbacks=callbacks, verbose=0)
        assert (steps.size > 1) == grouped
        return model.get_weights(), history.history

    (expected, expected_history), (weights, history) = fit(False), fit(True)
    for one, other in zip(expected, weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert history == expected_history


def test_a_group_ends_where_the_loop_has_something_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_steps, "_MAX_STEPS", 16)
    monkeypatch.setattr(grouped_steps, "_TARGET_SECONDS", 1e9)
    model, ends = compiled(), set()

    class Noting(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            ends.add(int(model.optimizer.iterations.numpy()))

    grouped = GroupedSteps(model, data().take(50), lambda: 20 - int(model.optimizer.iterations.numpy()) % 20)
    grouped.size = 16
    with grouped.in_fit(4) as batches:
        model.fit(batches, epochs=2, callbacks=[grouped.epochs(), Noting()], verbose=0)
    model.fit(data().take(3), verbose=0)

    # Something is due after 20, 40, 60 and 80 steps, an epoch has 50.
    assert ends == {16, 20, 36, 40, 50, 60, 76, 80, 96, 100}


def test_groups_grow_as_long_as_they_are_brief() -> None:
    grouped = GroupedSteps(compiled(), data(), no_limit)
    sizes = []
    for seconds in (9.0, *[0.001] * 8, 0.07, 0.2, 0.2, 0.01):  # the first compiles
        grouped._steps, grouped._seconds = grouped.size, seconds
        grouped._resize()
        sizes.append(grouped.size)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 32, 16, 32]
    grouped._steps, grouped._seconds = 3, 0.001  # the last group of an epoch says nothing of larger ones
    grouped._resize()
    assert grouped.size == 32


def test_callbacks_that_look_at_each_batch_are_known(tmp_path: Any) -> None:
    callbacks = tf.keras.callbacks
    harmless = [callbacks.ModelCheckpoint(str(tmp_path / "model.keras")), callbacks.History()]
    assert find_batch_callback(harmless) == ""
    assert find_batch_callback([*harmless, callbacks.TerminateOnNaN()]) == "TerminateOnNaN"
    assert find_batch_callback([callbacks.LambdaCallback(on_train_batch_end=print)]) == "LambdaCallback"
    assert find_batch_callback([callbacks.LambdaCallback(on_epoch_end=print)]) == ""
