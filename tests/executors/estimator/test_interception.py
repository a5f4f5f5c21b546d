"""Observers see the calls of an Estimator, in one list with those of Keras, and what they change holds."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
from collections.abc import Callable

import pytest

from generic_trainer.executors.modules.keras_version import choose

from ...world.modules import ESTIMATOR_PARTS

pytestmark = pytest.mark.legacy

PROGRAM = """
import json, sys
import tensorflow as tf
from generic_trainer.executors.estimator import restore_estimator
from generic_trainer.executors.estimator.interception import EstimatorObserver
from generic_trainer.executors.keras.interception import KerasObserver
from generic_trainer.executors.runtime.observers import observed_by

restore_estimator()
calls = []


class Recorder(EstimatorObserver, KerasObserver):
    def __init__(self, name):
        self.name = name

    def train_and_evaluate(self, call, proceed):
        calls.append([self.name, "train_and_evaluate", call.arguments["train_spec"].max_steps])
        call.arguments["train_spec"] = call.arguments["train_spec"]._replace(max_steps=2)
        proceed()

    def train(self, call, proceed):
        calls.append([self.name, "train", call.arguments["max_steps"]])
        return proceed()

    def training_loop(self, call, proceed):
        loss = proceed()
        calls.append([self.name, "training_loop", float(loss) >= 0])
        return loss

    def evaluate(self, call, proceed):
        results = proceed()
        calls.append([self.name, "evaluate", int(results["global_step"])])
        return results

    def call_model_fn(self, call, proceed):
        spec = proceed()
        calls.append([self.name, "call_model_fn", spec.mode])
        return spec

    def export(self, call, proceed):
        calls.append([self.name, "export", call.estimator is estimator])
        return proceed()

    def fit(self, call, proceed):
        calls.append([self.name, "fit", call.is_nested])
        return proceed()


estimator = tf.estimator.Estimator(model_fn, sys.argv[1])
train = tf.estimator.Estimator.train
with observed_by(Recorder("outer")), observed_by(Recorder("inner")):
    assert tf.estimator.Estimator.train is not train
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(input_fn, max_steps=50),
        tf.estimator.EvalSpec(input_fn, steps=1, exporters=tf.estimator.FinalExporter("final", receiver_fn)),
    )
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    model.fit(tf.ones([2, 1]), tf.ones([2, 1]), verbose=0)
assert tf.estimator.Estimator.train is train
print(json.dumps(calls))
"""


@pytest.mark.skipif(importlib.util.find_spec("tensorflow_estimator") is None, reason="needs tensorflow-estimator")
def test_each_call_passes_all_observers_from_the_outermost_inwards(
    program: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    env = {**os.environ, **choose("2", []).environment()}
    calls = json.loads(program(ESTIMATOR_PARTS + PROGRAM, tmp_path / "run", env=env).splitlines()[-1])
    assert [(method, value) for name, method, value in calls if name == "outer"] == [
        ("train_and_evaluate", 50),
        ("train", 2),
        ("call_model_fn", "train"),
        ("call_model_fn", "eval"),
        ("evaluate", 2),
        ("export", True),
        ("call_model_fn", "infer"),
        ("training_loop", True),  # the evaluation is made within the loop, after the last checkpoint
        ("fit", False),
    ]
    first = {method: name for name, method, _ in reversed(calls)}
    assert first == {
        "train_and_evaluate": "outer",
        "train": "outer",
        "call_model_fn": "inner",  # recorded after `proceed`
        "training_loop": "inner",
        "evaluate": "inner",
        "export": "outer",
        "fit": "outer",
    }
