"""Checkpoints with the position in the data: their content, their readers, and where a restart resumes."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

# Trains, stops, resumes, then uses the checkpoints as a user would. Prints {name: result}.
PROGRAM = """
import json, sys
from generic_trainer.executors.estimator import restore_estimator

restore_estimator()
import numpy as np
import tensorflow.compat.v1 as tf
from generic_trainer.executors.dialects.dlrover import checkpoints

FOLDER = sys.argv[1]
found = {}

class Numbers:
    '''0, 1, 2, … in batches of 4, from a position.'''

    def __init__(self):
        self.began = []

    def input_fn(self):
        self.start = tf.placeholder_with_default(tf.constant(0, tf.int64), [])
        data = tf.data.Dataset.range(1000).skip(self.start).batch(4)
        self.iterator = tf.data.make_initializable_iterator(data)
        numbers = self.iterator.get_next()
        self.records = tf.shape(numbers)[0]
        return {"x": numbers}, numbers

    def begin(self, session, position):
        self.began.append(position)
        self.count = int(position or 0)
        session.run(self.iterator.initializer, {self.start: self.count})

    def trained(self, count):
        self.count += count

    def position(self):
        return str(self.count)

def model_fn(features, labels, mode, params):
    with tf.variable_scope("dense"):
        bias = tf.get_variable("bias", [], initializer=tf.zeros_initializer())
        kernel = tf.get_variable("kernel", [4], partitioner=tf.fixed_size_partitioner(2))
    seen = tf.get_variable("seen", [1000], tf.int32, tf.zeros_initializer(), trainable=False)
    loss = tf.reduce_sum(kernel) ** 2 + tf.square(bias - 1)
    train_op = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, tf.train.get_global_step())
    counted = tf.scatter_add(seen, features["x"], tf.ones_like(features["x"], tf.int32))
    own = tf.train.Saver([bias, seen, tf.train.get_global_step()]) if params.get("own_saver") else None
    return tf.estimator.EstimatorSpec(
        mode, tf.identity(bias), loss, tf.group(train_op, counted), scaffold=tf.train.Scaffold(saver=own)
    )

def train(folder, steps, **params):
    config = tf.estimator.RunConfig(keep_checkpoint_max=2, save_checkpoints_steps=10)
    estimator = tf.estimator.Estimator(model_fn, folder, config, params)
    data = Numbers()
    checkpoints.save_objects(estimator)
    saver = checkpoints.CheckpointHook(estimator, data, 10)
    estimator.train(data.input_fn, max_steps=steps, hooks=[checkpoints.DataPositionHook(data, folder), saver])
    return estimator, data

here = FOLDER + "/first"
_, data = train(here, 25)
found["first"] = data.began
estimator, data = train(here, 40)
found["second"] = data.began
latest = tf.train.latest_checkpoint(here)
found["position"] = checkpoints.read_position(latest)
found["names"] = [name for name, _ in tf.train.list_variables(latest)]
found["seen"] = np.bincount(tf.train.load_variable(latest, "seen/.ATTRIBUTES/VARIABLE_VALUE")).tolist()
found["kept"] = [path.rpartition("-")[2] for path in tf.train.get_checkpoint_state(here).all_model_checkpoint_paths]
numbers = lambda: tf.data.Dataset.range(8).batch(4).map(lambda x: ({"x": x}, x))
found["evaluated at"] = int(estimator.evaluate(numbers, steps=1)["global_step"])

def receiver_fn():
    inputs = {"x": tf.placeholder(tf.int64, [None])}
    return tf.estimator.export.ServingInputReceiver(inputs, inputs)
exported = estimator.export_saved_model(FOLDER + "/export", receiver_fn).decode()
found["exported"] = [name for name, _ in tf.train.list_variables(exported + "/variables/variables")]
same = [
    tf.train.load_variable(exported + "/variables/variables", "dense/kernel"),
    tf.train.load_variable(latest, "dense/kernel/.ATTRIBUTES/VARIABLE_VALUE"),
]
found["same"] = bool((same[0] == same[1]).all())

# An older checkpoint, by the Estimator alone: it trains on, and the data begins at its first record.
old = FOLDER + "/old"
tf.estimator.Estimator(model_fn, old, params={}).train(numbers, steps=2)
estimator, data = train(old, 5)
found["old"] = [data.began, data.count]
found["names in old"] = [name for name, _ in tf.train.list_variables(tf.train.latest_checkpoint(old))]




# The variables that a model function wants to be saved, and no others.
own = FOLDER + "/own"
train(own, 3, own_saver=True)
found["own"] = [name for name, _ in tf.train.list_variables(tf.train.latest_checkpoint(own))]
print(json.dumps(found))
"""
BY_OBJECTS = """
import json, sys
import tensorflow as tf

latest = tf.train.latest_checkpoint(sys.argv[1])
bias, kernel = tf.Variable(0.0), tf.Variable(tf.zeros([4]))
checkpoint = tf.train.Checkpoint(dense=tf.train.Checkpoint(bias=bias, kernel=kernel))
checkpoint.restore(latest).expect_partial()
reader = tf.train.load_checkpoint(latest)
saved = [reader.get_tensor(f"dense/{name}/.ATTRIBUTES/VARIABLE_VALUE") for name in ("bias", "kernel")]
same = [bool((one == other.numpy()).all()) for one, other in zip(saved, (bias, kernel))]
print(json.dumps([same, float(bias.numpy())]))
"""


def run(program: str, *arguments: object) -> Any:
    line = [sys.executable, "-c", program, *map(str, arguments)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def found(folder: pathlib.Path) -> dict[str, Any]:
    return run(PROGRAM, folder)


@pytest.mark.legacy
@pytest.mark.slow
def test_training_resumes_at_the_data_position_of_the_weights(found: dict[str, Any]) -> None:
    assert found["first"] == [None]
    assert found["second"] == ["100"]
    assert found["position"] == "160"
    assert found["seen"] == [840, 160]
    assert found["kept"] == ["35", "40"]


@pytest.mark.legacy
@pytest.mark.slow
def test_variables_are_saved_by_the_object_graph_unless_a_saver_or_the_folder_uses_names(
    found: dict[str, Any],
) -> None:
    weights = ["dense/bias", "dense/bias/Momentum", "dense/kernel", "dense/kernel/Momentum", "global_step", "seen"]
    position = "generic_trainer/data_position"
    objects = [f"{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in weights]
    assert sorted(found["names"]) == sorted([*objects, position, "_CHECKPOINTABLE_OBJECT_GRAPH"])
    assert sorted(found["names in old"]) == sorted([*weights, position])
    assert sorted(found["own"]) == sorted(["dense/bias", "global_step", "seen", position])
    assert found["evaluated at"] == 40
    assert sorted(found["exported"]) == weights  # as TensorFlow 1 reads those of a SavedModel
    assert found["same"] is True


@pytest.mark.legacy
@pytest.mark.slow
def test_training_resumes_from_an_estimators_own_checkpoint(found: dict[str, Any]) -> None:
    assert found["old"] == [[None], 12]


@pytest.mark.legacy
@pytest.mark.slow
def test_objects_are_restored_from_it(found: dict[str, Any], folder: pathlib.Path) -> None:
    same, bias = run(BY_OBJECTS, folder / "first")
    assert same == [True, True]
    assert bias > 0.1
