"""Checkpoints written in the background: their content, and what remains after a failure."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import pytest

# Saves, changes the saved values at once, and reads the files back. Prints {name: result}.
PROGRAM = """
import json, os, sys
import numpy as np
import tensorflow as tf
from generic_trainer import AsyncCheckpoints, CheckpointError

FOLDER = sys.argv[1]
found = {}

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3)])
optimizer = tf.keras.optimizers.Adam(0.1)
table = tf.Variable(tf.zeros([1 << 17, 4]))  # 2 MB, updated by rows
wide = tf.Variable(tf.zeros([1 << 19]))  # 2 MB, updated as a whole
step = tf.Variable(0, dtype=tf.int64)
words = tf.Variable("none")
note = tf.train.experimental.PythonState

class Position(note):
    value = 0
    def serialize(self):
        return str(self.value)
    def deserialize(self, string):
        self.value = int(string)

position = Position()
state = tf.train.Checkpoint(model=model, optimizer=optimizer, table=table, wide=wide, step=step, words=words,
                            position=position, best=[tf.Variable(1.0), {"deep": tf.Variable([2, 3])}])

@tf.function
def train():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.ones([2, 4])) ** 2)
    weights = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
    table.scatter_add(tf.IndexedSlices(tf.ones([2, 4]), [1, 5]))
    wide.assign_add(tf.ones([1 << 19]))
    words.assign(tf.strings.as_string(step))
    step.assign_add(1)

here = os.path.join(FOLDER, "here")
weights = {}
with AsyncCheckpoints(state, here, max_to_keep=2) as checkpoints:
    found["at first"] = checkpoints.restore()
    for _ in range(4):
        train()
        position.value += 7
        weights[int(step)] = model.weights[0].numpy().tolist()
        path = checkpoints.save(int(step))
        train()  # while it is written
        position.value += 7
found["path"] = os.path.basename(path)
found["latest"] = os.path.basename(tf.train.latest_checkpoint(here))
found["kept"] = sorted(name for name in os.listdir(here))

reader = tf.train.load_checkpoint(here)
value = lambda name: reader.get_tensor(name + "/.ATTRIBUTES/VARIABLE_VALUE")
found["values"] = [int(value("step")), int(value("table")[5, 0]), int(value("wide")[9]), value("words").decode()]
kernels = [reader.get_tensor(name).tolist() for name, shape in reader.get_variable_to_shape_map().items()
           if shape == [4, 3]]
found["weights"] = weights[7] in kernels  # among the optimizer's moments
found["position"] = reader.get_tensor("position/.ATTRIBUTES/py_state").decode()

# The same as TensorFlow's own, in names, shapes, types and bytes.
checkpoints.restore()
own = tf.train.load_checkpoint(state.write(os.path.join(FOLDER, "own")))
names = own.get_variable_to_dtype_map()
found["same names"] = names == reader.get_variable_to_dtype_map()
found["different"] = [name for name in names if not np.array_equal(own.get_tensor(name), reader.get_tensor(name))]
found["restored"] = [int(step), int(wide[3]), position.value]

# Other shapes than the last checkpoint's, and a variable that it lacks.
misfits = {"shape": {"table": tf.Variable(tf.zeros([9, 4]))}, "lacking": {"more": tf.Variable([1.0])}}
for name, others in misfits.items():
    try:
        AsyncCheckpoints(tf.train.Checkpoint(step=step, **others), here).restore()
    except CheckpointError as error:
        found[name] = str(error)

# A write that fails: a file where TensorFlow makes a folder.
open(os.path.join(here, "ckpt-20_temp"), "w").close()
checkpoints.save(20)
for name, action in {"next": lambda: checkpoints.save(21), "after": lambda: checkpoints.save(22)}.items():
    try:
        action()
        found[name] = "saved"
    except CheckpointError as error:
        found[name] = [str(error), type(error.__cause__).__module__.partition(".")[0],
                       os.path.basename(tf.train.latest_checkpoint(here))]
checkpoints.wait()
found["then"] = os.path.basename(tf.train.latest_checkpoint(here))
try:
    with AsyncCheckpoints(state, here) as checkpoints:
        open(os.path.join(here, "ckpt-30_temp"), "w").close()
        checkpoints.save(30)
        raise KeyError("the user's own")
except KeyError as error:
    found["not hidden"] = str(error)
print(json.dumps(found))
"""
# Kills itself while the second checkpoint is half written; first prints what it restored.
KILLED = """
import os, signal, sys
import tensorflow as tf
from generic_trainer import AsyncCheckpoints

state = tf.train.Checkpoint(step=tf.Variable(0), weights=[tf.Variable(tf.zeros([1 << 22])) for _ in range(8)])
with AsyncCheckpoints(state, sys.argv[1], max_to_keep=1) as checkpoints:
    checkpoints.restore()
    print(int(state.step), {float(weight[0]) for weight in state.weights}, flush=True)
    for _ in range(2):
        state.step.assign_add(1)
        for weight in state.weights:
            weight.assign_add(tf.ones_like(weight))
        path = checkpoints.save(int(state.step))
        if len(sys.argv) > 2 and int(state.step) == 2:
            while not os.path.exists(path + "_temp"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
"""
# Trains the same Estimator with its own hook and with ours. Prints the files that both wrote.
ESTIMATOR = """
import hashlib, json, os, sys
from generic_trainer.executors.estimator import restore_estimator

restore_estimator()
import tensorflow.compat.v1 as tf
from generic_trainer.executors.estimator.background_saving import save_in_background

def model_fn(features, labels, mode):
    rows = tf.get_variable("rows", [1 << 17, 4])  # 2 MB, updated by rows
    old = tf.get_variable("old", [1 << 19], use_resource=False)  # changed where it is
    parts = tf.get_variable("parts", [4, 8], partitioner=tf.fixed_size_partitioner(2))
    looked_up = tf.nn.embedding_lookup(rows, features)
    loss = tf.reduce_sum(tf.square(looked_up)) + tf.reduce_sum(tf.square(old)) + tf.reduce_sum(tf.square(parts))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

class Listener(tf.train.CheckpointSaverListener):
    def __init__(self):
        self.heard = []
    def before_save(self, session, step):
        self.heard.append(["before", int(step)])
    def after_save(self, session, step):
        self.heard.append([os.path.basename(tf.train.latest_checkpoint(folder)), int(step)])
    def end(self, session, step):
        self.heard.append([os.path.basename(tf.train.latest_checkpoint(folder)), "end"])

def content(path):
    reader = tf.train.load_checkpoint(path)
    return {name: hashlib.sha256(reader.get_tensor(name).tobytes()).hexdigest()
            for name in sorted(reader.get_variable_to_shape_map())}

found = {}
for name in ("theirs", "ours"):
    for kind in ("alone", "evaluated", "listened to"):
        folder = os.path.join(sys.argv[1], name, kind)
        config = tf.estimator.RunConfig(folder, tf_random_seed=1, save_checkpoints_steps=3, keep_checkpoint_max=2)
        estimator = tf.estimator.Estimator(model_fn, config=config)
        if name == "ours":
            save_in_background(estimator)
        data = lambda: tf.data.Dataset.range(5).batch(1).map(lambda x: (x, x)).repeat()
        listener = Listener()
        if kind == "evaluated":
            spec = tf.estimator.EvalSpec(data, steps=1, throttle_secs=0)
            tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(data, max_steps=8), spec)
        else:
            estimator.train(data, max_steps=8, saving_listeners=[listener] if kind == "listened to" else None)
        state = tf.train.get_checkpoint_state(folder)
        evaluated = [sorted({event.step for event in tf.train.summary_iterator(os.path.join(folder, "eval", file))
                            if event.summary.value}) for file in tf.gfile.ListDirectory(folder + "/eval")
                     ] if kind == "evaluated" else []
        found[f"{kind}, {name}"] = {
            "files": sorted(file for file in os.listdir(folder) if not file.startswith("events")),
            "state": [os.path.basename(path) for path in state.all_model_checkpoint_paths],
            "content": [content(path) for path in state.all_model_checkpoint_paths],
            "heard": listener.heard,
            "evaluated": evaluated,
        }
print(json.dumps(found))
"""


def run(program: str, *arguments: object, code: int = 0) -> str:
    line = [sys.executable, "-c", program, *map(str, arguments)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=200, env=environment)
    assert done.returncode == code, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(PROGRAM, tmp_path_factory.mktemp("checkpoints")).splitlines()[-1])
    return answer


@pytest.mark.legacy
def test_a_checkpoint_holds_one_step_whatever_training_does_meanwhile(found: dict[str, Any]) -> None:
    assert found["at first"] is None
    assert found["path"] == found["latest"] == "ckpt-7"
    assert found["values"] == [7, 7, 7, "6"]  # saved after the seventh step; an eighth followed immediately
    assert found["weights"] is True
    assert found["position"] == "49"


@pytest.mark.legacy
def test_its_files_equal_those_of_tensorflow(found: dict[str, Any]) -> None:
    files = [f"ckpt-{step}.{part}" for step in (5, 7) for part in ("data-00000-of-00001", "index")]
    assert found["kept"] == ["checkpoint", *files]
    assert found["same names"] is True
    assert found["different"] == []
    assert found["restored"] == [7, 7, 49]


@pytest.mark.legacy
def test_a_mismatching_checkpoint_error_names_the_variable(found: dict[str, Any]) -> None:
    shape = "table has the shape [131072, 4] in the checkpoint and [9, 4] in this training"
    assert f"/here/ckpt-7 cannot be restored: {shape}. The check" in found["shape"]
    assert (
        "/here/ckpt-7 cannot be restored: it does not contain more, which has the shape [1] here. The check"
        in found["lacking"]
    )
    assert found["shape"].endswith("to train from the beginning, choose another folder, or move this one away.")


@pytest.mark.legacy
def test_a_failed_write_is_raised_by_the_next_save_and_keeps_the_last_good_checkpoint(found: dict[str, Any]) -> None:
    message, cause, latest = found["next"]
    assert "here/ckpt-20 could not be written: " in message
    assert "ckpt-20_temp" in message
    assert (cause, latest) == ("tensorflow", "ckpt-7")
    assert (found["after"], found["then"]) == ("saved", "ckpt-22")
    assert found["not hidden"] == '"the user\'s own"'


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.legacy
def test_a_process_killed_during_a_write_leaves_the_last_complete_checkpoint(tmp_path: pathlib.Path) -> None:
    assert run(KILLED, tmp_path, "be killed", code=-signal.SIGKILL) == "0 {0.0}\n"
    assert (tmp_path / "ckpt-2_temp").exists()
    assert run(KILLED, tmp_path) == "1 {1.0}\n"
    assert run(KILLED, tmp_path) == "3 {3.0}\n"


@pytest.mark.slow
@pytest.mark.legacy
def test_sigterm_takes_effect_at_the_next_step(tmp_path: pathlib.Path) -> None:
    program = """
import os, signal, sys
import tensorflow as tf
from generic_trainer import AsyncCheckpoints, TrainerError
weights = tf.Variable(tf.zeros([10]))
try:
    with AsyncCheckpoints(tf.train.Checkpoint(weights=weights), sys.argv[1]) as checkpoints:
        for step in range(1, 10):
            weights.assign_add(tf.ones([10]))
            checkpoints.end_if_asked(step)
            if step == 4:
                os.kill(os.getpid(), signal.SIGTERM)
except TrainerError as error:
    print(error.exit_code, error)
print(tf.train.load_checkpoint(sys.argv[1]).get_tensor("weights/.ATTRIBUTES/VARIABLE_VALUE")[0])
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
"""
    told, weight = run(program, tmp_path).splitlines()
    assert told == f"143 ended by SIGTERM, saved at {tmp_path}/ckpt-5. The next run resumes from there."
    assert float(weight) == 5.0


@pytest.mark.thorough
def test_an_estimator_writes_the_same_files_as_its_own_hook(tmp_path: pathlib.Path) -> None:
    found = json.loads(run(ESTIMATOR, tmp_path).splitlines()[-1])
    for kind in ("alone", "evaluated", "listened to"):
        assert found[f"{kind}, ours"] == found[f"{kind}, theirs"]
    assert found["alone, ours"]["state"] == ["model.ckpt-6", "model.ckpt-8"]
    # A listener finds each announced checkpoint complete.
    heard = found["listened to, ours"]["heard"]
    saved = [[["before", step], [f"model.ckpt-{step}", step]] for step in (0, 3, 6, 8)]
    assert heard == [*(one for pair in saved for one in pair), ["model.ckpt-8", "end"]]
    assert found["evaluated, ours"]["evaluated"] == [[3, 6, 8]]
