"""`--profile`: where the time of events goes, and where that of real trainings went."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer.executors.features.profiling.summary import Event, shares_of


def test_every_moment_belongs_to_one_of_five_categories() -> None:
    events = [
        Event("train", "python", 0.0, 10.0),
        Event("IteratorGetNextOp::DoCompute", "tf_data_iterator_get_next/1", 0.0, 3.0),
        Event("Iterator::Root", "tf_data_iterator_get_next/1", 0.0, 3.0),
        Event("map/MatMul:MatMul", "tf_data_private_threadpool/1", 0.0, 3.0),  # the input's, not the step's
        Event("dense/MatMul:MatMul", "tf_Compute/1", 2.0, 5.0),  # one second of it while input is waited for
        Event("dense/Relu:Relu", "tf_Compute/2", 4.5, 5.5),
        Event("StatefulPartitionedCall:StatefulPartitionedCall", "tf_Compute/2", 0.0, 9.0),  # waits for others
        Event("ExecutorState::Process", "tf_Compute/2", 0.0, 9.0),
        Event("Add:AddV2", "python", 5.5, 6.0),
        Event("checkpoint", "python", 5.8, 7.0),
        Event("checkpoint/write", "checkpoint", 5.8, 9.0),
        Event("SaveV2:SaveV2", "checkpoint", 6.0, 9.0),
    ]
    # 0 to 2 input, 2 to 5.8 device, 5.8 to 7 checkpoint; 3 s are left. The training thread has used the processor for
    # 1.5 s, half a second of it for its own operation.
    shares = shares_of(events, cpu_seconds=1.5)
    assert shares is not None
    expected = {"input": 2.0, "device": 3.8, "checkpoint": 1.2, "host": 1.0, "idle": 2.0}
    assert shares.seconds == pytest.approx(expected)
    assert (shares.wall, shares.steps) == (10.0, 1)
    assert "1 steps of 1e+04 ms: input 20.0 % (2e+03 ms), host 10.0 %" in str(shares)
    assert shares.to_json()["shares"] == {name: value / 10 for name, value in expected.items()}


def test_where_there_is_a_gpu_it_is_the_device() -> None:
    events = [
        Event("train", "python", 0.0, 4.0),
        Event("dense/MatMul:MatMul", "tf_Compute/1", 0.0, 3.0),
        Event("volta_sgemm_128x64_nn", "stream#14", 1.0, 2.0, on_device=True),
    ]
    shares = shares_of(events, cpu_seconds=9.0)
    assert shares is not None
    assert shares.seconds == {"checkpoint": 0, "device": 1.0, "input": 0, "host": 3.0, "idle": 0.0}
    assert "step_ms" not in shares.to_json()
    assert shares_of([], cpu_seconds=1.0) is None


SLOW_INPUT = """
    import time
    import tensorflow as tf

    def run_fn(fn_args):
        def batches():
            for _ in range(100):
                time.sleep(0.08)
                yield tf.ones([8, 4]), tf.ones([8, 1])
        model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        specs = tf.TensorSpec([8, 4]), tf.TensorSpec([8, 1])
        model.fit(tf.data.Dataset.from_generator(batches, output_signature=specs), verbose=0)
        tf.saved_model.save(model, fn_args.serving_model_dir)
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_fit_that_waits_for_its_input(
    command: Callable[..., subprocess.CompletedProcess[str]],
    module: Callable[..., str],
    iris: Any,
    tmp_path: pathlib.Path,
) -> None:
    done = command("train", module(SLOW_INPUT), "--train-files", iris.train, "--output", tmp_path, "--profile")
    assert done.returncode == 0, done.stderr
    profile = json.loads((tmp_path / "model_run" / "run.json").read_text())["profile"]
    assert max(profile["shares"], key=profile["shares"].get) == "input"
    assert sum(profile["shares"].values()) == pytest.approx(1, abs=0.001)
    assert profile["steps"] >= 10
    assert f"Profile of {profile['steps']} steps of " in done.stderr
    [file] = (tmp_path / "model_run" / "plugins" / "profile").glob("*/*.xplane.pb")
    assert str(file.parent) == profile["folder"]


BUSY_ESTIMATOR = """
import json, sys
from generic_trainer.executors.estimator import restore_estimator

restore_estimator()
import tensorflow.compat.v1 as tf
from generic_trainer.executors.features.profiling.profile import Profile

def model_fn(features, labels, mode):
    weights = tf.get_variable("weights", [1024, 1024], initializer=tf.random_normal_initializer())
    loss = tf.reduce_mean(tf.square(features @ weights))
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

estimator = tf.estimator.Estimator(model_fn, sys.argv[1])
profile = Profile(sys.argv[1])
with profile.taken():
    data = lambda: tf.data.Dataset.from_tensors((tf.ones([512, 1024]), 0)).repeat(1500)
    estimator.train(data)
print(json.dumps(profile.record))
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.legacy
def test_an_estimator_that_computes(tmp_path: pathlib.Path) -> None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    line = [sys.executable, "-c", BUSY_ESTIMATOR, str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    shares = json.loads(done.stdout.splitlines()[-1])["shares"]
    assert max(shares, key=shares.get) == "device"
