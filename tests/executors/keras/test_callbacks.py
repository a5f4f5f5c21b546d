"""callbacks(fn_args): a training killed in the middle of an epoch resumes there, with Keras 3 and Keras 2."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from generic_trainer.executors.modules.keras_version import _tensorflow_release
from generic_trainer.executors.monitoring import progress_reports

KERAS = ["3", "2"] if _tensorflow_release() >= (2, 16) else ["2"]

# Counts in a weight how often each number from 0 to 99 is trained on, in batches of 4: first in epochs cut from endless
# data, then in passes over data of unknown length. Kills itself in a step of the second fit on request. Prints the
# results at the end.
PROGRAM = """
import json, os, signal, sys
import tensorflow as tf
from generic_trainer import CheckpointError, FnArgs, ModuleError, callbacks
from generic_trainer.executors.keras.fit_progress import fit_progress_reported
from generic_trainer.executors.keras.step_count import EpochLog

folder, kill_at = sys.argv[1], int(sys.argv[2])
keras = tf.keras

def new_run():
    return FnArgs(checkpoint_dir=folder + "/checkpoints", model_run_dir=folder + "/model_run")

class Counting(keras.Model):
    def train_step(self, data):
        numbers, targets = data
        table = self.get_layer("seen").table
        table = getattr(table, "_value", table)  # of Keras 3
        table.scatter_add(tf.IndexedSlices(tf.ones([tf.shape(numbers)[0]]), numbers[:, 0]))
        return super().train_step((tf.cast(numbers, tf.float32) / 100, targets))

class Seen(keras.layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(100,), initializer="zeros", trainable=False, name="table")
    def call(self, inputs):
        return inputs

def make(units=3):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((1,))
    hidden = keras.layers.Dense(units, activation="relu")(Seen(name="seen")(inputs))
    model = Counting(inputs, keras.layers.Dense(1)(keras.layers.Dropout(0.5)(hidden)))
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return model

class Kill(keras.callbacks.Callback):
    steps = 0
    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if self.steps == kill_at:
            backup._checkpoints.wait()
            os.kill(os.getpid(), signal.SIGKILL)

class Best(keras.callbacks.Callback):
    def on_train_end(self, logs=None):
        # As EarlyStopping restores the best weights.
        self.model.layers[-1].set_weights([tf.ones([3, 1]).numpy(), tf.constant([7.0]).numpy()])

numbers = tf.data.Dataset.range(100).batch(4).map(lambda x: (x[:, None], tf.ones([4, 1])))
ENDLESS = {"x": numbers.repeat(), "steps_per_epoch": 20, "epochs": 5}
UNKNOWN = {"x": numbers.filter(lambda x, y: True), "epochs": 3}

found = {"seen": [], "history": []}
fn_args = new_run()
for fit, more in ((ENDLESS, [Best()]), (UNKNOWN, [Kill()])):
    model = make()
    backup, *others = callbacks(fn_args, save_seconds=None, save_steps=4, endless_data=fit is ENDLESS)
    found["callbacks"] = [type(one).__name__ for one in (backup, *others)]
    with fit_progress_reported([], EpochLog(folder + "/epochs.jsonl")):
        history = model.fit(callbacks=[backup, *others, *more], verbose=0, **fit).history
    found["seen"].append(sorted(set(model.get_layer("seen").table.numpy().tolist())))
    found["history"].append(len(history["loss"]))
    found.setdefault("bias", float(model.get_weights()[-1][0]))

whole = make()
whole.fit(verbose=0, **UNKNOWN)
found["updates"] = [int(one.optimizer.iterations.numpy()) for one in (whole, model)]
found["same"] = all((one == other).all() for one, other in zip(whole.get_weights(), model.get_weights()))
unbuilt = keras.Sequential([keras.layers.Dense(1)])
unbuilt.compile("sgd", "mse")
for name, other, kind in (("shape", make(5), CheckpointError), ("unbuilt", unbuilt, ModuleError)):
    try:
        other.fit(numbers, callbacks=callbacks(new_run()), verbose=0)
    except kind as error:
        found[name] = str(error)
found["logs"] = sorted(os.listdir(folder + "/model_run"))
print(json.dumps(found))
"""


def reported(folder: pathlib.Path) -> tuple[float, float]:
    """Returns the first and the last step that a run has reported, over all of its fits."""
    found = progress_reports.read(str(folder / "progress"))
    assert found is not None
    return found.first, found.step


def run(folder: pathlib.Path, keras: str, kill_at: int, code: int = 0) -> str:
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        progress_reports.VARIABLE: progress_reports.create_progress_file(str(folder)),
    }
    if KERAS != ["2"]:
        environment["TF_USE_LEGACY_KERAS"] = "1" if keras == "2" else ""
    line = [sys.executable, "-c", PROGRAM, str(folder), str(kill_at)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=200, env=environment)
    assert done.returncode == code, done.stderr[-3000:]
    return done.stdout


@pytest.mark.thorough_but("3")
@pytest.mark.legacy
@pytest.mark.slow
@pytest.mark.parametrize("keras", KERAS)
def test_a_killed_training_resumes_in_the_middle_of_its_epoch(tmp_path: pathlib.Path, keras: str) -> None:
    run(tmp_path, keras, kill_at=35, code=-signal.SIGKILL)
    [last] = (tmp_path / "checkpoints" / "keras_fits" / "2").glob("ckpt-3*.index")
    assert last.stem == "ckpt-32"  # seven steps into the second epoch
    assert reported(tmp_path) == (0, 100 + 35)
    found = json.loads(run(tmp_path, keras, kill_at=0).splitlines()[-1])
    assert reported(tmp_path) == (100 + 32, 100 + 75)
    assert found["callbacks"] == ["BackUp", "TensorBoard"]
    assert found["seen"] == [[4.0], [3.0]]  # every number once per pass
    assert found["history"] == [5, 3]
    assert found["bias"] == 7.0
    assert found["updates"][0] == found["updates"][1]
    assert found["same"] is (keras == "3")  # Keras 2 cannot save the state of its generators
    assert "checkpoints/keras_fits/1/end-100 cannot be restored: " in found["shape"]
    assert re.search(
        r"\(dense_\d+/\w+\) has the shape \[(1, )?3\] in the checkpoint and \[(1, )?5\] in this", found["shape"]
    )
    assert "the model 'sequential' has no variables yet when fit begins" in found["unbuilt"]
    assert "train" in found["logs"]
