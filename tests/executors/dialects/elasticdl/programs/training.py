"""Rows on the callbacks, in a `fit` of two epochs of four steps."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from elasticdl.python.elasticdl.callbacks import LearningRateScheduler, MaxStepsStopping, SavedModelExporter

SGD = (tf.keras.optimizers.SGD, tf.keras.optimizers.legacy.SGD)


def fitted(optimizer: Any, *callbacks: Any) -> tuple[Any, list[float]]:
    """Returns a model that was trained, and the rate after each step. Each step moves the weight by its rate."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
    model.compile(optimizer, lambda labels, outputs: tf.reduce_mean(-outputs))
    rates: list[float] = []

    class Rates(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            rates.append(round(float(model.optimizer.learning_rate), 6))

    model.fit(np.ones((8, 1)), np.ones(8), batch_size=2, epochs=2, verbose=0, callbacks=[*callbacks, Rates()])
    return model, rates


def rate_follows_the_step_over_epochs(unused: pathlib.Path) -> None:
    for optimizer in SGD:
        model, rates = fitted(optimizer(0.5), LearningRateScheduler(lambda step: 0.1 if step < 6 else np.float32(0.01)))
        assert rates == [0.1] * 6 + [0.01] * 2
        # the gradient is -1: 6 x 0.1 + 2 x 0.01
        assert float(model.get_weights()[0][0, 0]) == pytest.approx(0.62)


def rate_is_set_by_a_loop_that_counts_steps(unused: pathlib.Path) -> None:
    # As in ElasticDL's own test: nothing is trained, the loop passes the step.
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(0.1))
    scheduler = LearningRateScheduler(lambda step: 0.2 if step < 2 else tf.constant(0.1))
    scheduler.set_model(model)
    for step, rate in ((1, 0.2), (2, 0.1)):
        scheduler.on_train_batch_begin(step)
        assert float(model.optimizer.learning_rate) == pytest.approx(rate)


def what_cannot_be_a_rate_is_said(unused: pathlib.Path) -> None:
    for wrong in (None, "0.1", True):
        with pytest.raises(ValueError, match="for step 0; it must return the learning rate"):
            fitted(SGD[0](0.5), LearningRateScheduler(lambda step, wrong=wrong: wrong))
    decay = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    with pytest.raises(ValueError, match="Create the optimizer with a number as its learning rate"):
        fitted(SGD[0](decay), LearningRateScheduler(lambda step: 0.1))


def training_stops_after_max_steps(unused: pathlib.Path) -> None:
    assert len(fitted(SGD[0](0.5), MaxStepsStopping(max_steps=6), SavedModelExporter(None, None, None))[1]) == 6
    assert len(fitted(SGD[0](0.5), MaxStepsStopping(max_steps=100))[1]) == 8
    resumed = MaxStepsStopping(max_steps=9)
    resumed.set_completed_steps(3)
    assert len(fitted(SGD[0](0.5), resumed)[1]) == 6
