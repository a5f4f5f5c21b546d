"""Trainings of each dialect that fail once, with checkpoints, and whose weights count how often each row was trained.

    job = JOBS["dlrover"]
    job.write(folder)
    command(*job.line, cwd=folder)     # fails at step `FAULT`, with checkpoints every `EVERY` steps
    command(*job.line, cwd=folder)     # resumes, and trains to step `STEPS`

A module appends the number of completed steps to `steps.txt` whenever a step begins; each task of a cluster to its own
file, such as `worker0.txt`.
"""

from __future__ import annotations

import dataclasses
import pathlib
import textwrap

ROWS, BATCH, EPOCHS = 12, 2, 3
STEPS, EVERY, FAULT = ROWS * EPOCHS // BATCH, 3, 14

_STEP = f"""
import json
import os
import pathlib
import time

ROWS, BATCH, EPOCHS, EVERY = {ROWS}, {BATCH}, {EPOCHS}, {EVERY}
HERE = pathlib.Path.cwd()
CONFIG = json.loads(os.environ.get("TF_CONFIG") or "{{}}")
TASK = CONFIG.get("task", {{"type": "steps", "index": ""}})
FILE = HERE / f"{{TASK['type']}}{{TASK['index']}}.txt"

def steps_of(file):
    return len((HERE / file).read_text().split()) if (HERE / file).exists() else 0

if "chief" in CONFIG.get("cluster", ()) and TASK["type"] == "worker":
    # A worker that is earlier leases all rows, and then waits for the chief, which gets none.
    while (HERE / "fault").exists() and not (HERE / "chief0.txt").exists():
        time.sleep(0.1)

def begin(step):
    with open(FILE, "a") as file:
        file.write(f"{{step}} ")
    if "chief" in CONFIG.get("cluster", ()):
        time.sleep(0.2)  # so that both tasks train
        while (HERE / "fault").exists() and steps_of("chief0.txt") < steps_of(FILE):  # the chief saves checkpoints
            time.sleep(0.1)
    if step >= {FAULT} and (HERE / "fault").exists():
        time.sleep(0.5)  # checkpoints are written in the background
        raise ZeroDivisionError("a fault")
"""

# The gradient of a row's vector is -1 / BATCH.
_KERAS = """
import tensorflow as tf
from step import BATCH, EPOCHS, EVERY, ROWS, begin

class Steps(tf.keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        begin(int(self.model.optimizer.iterations.numpy()))

def make_model():
    ids = tf.keras.Input((1,), dtype="int64", name="id")
    counts = tf.keras.layers.Embedding(ROWS, 1, embeddings_initializer="zeros", name="seen")(ids)
    model = tf.keras.Model(ids, tf.keras.layers.Flatten()(counts))
    model.compile(tf.keras.optimizers.SGD(float(BATCH)), lambda y, predictions: -predictions)
    return model

def batches():
    ids = tf.range(ROWS, dtype=tf.int64)[:, None]
    return tf.data.Dataset.from_tensor_slices((ids, ids)).batch(BATCH)
"""
_BACKUP = (
    _KERAS
    + """
def run_fn(fn_args):
    model = make_model()
    backup = tf.keras.callbacks.BackupAndRestore(fn_args.model_run_dir + "/backup")
    model.fit(batches(), epochs=EPOCHS, verbose=0, callbacks=[backup, Steps()])
    model.export(fn_args.serving_model_dir)
"""
)
_CALLBACKS = (
    _KERAS
    + """
from generic_trainer import callbacks

def run_fn(fn_args):
    model = make_model()
    model.fit(batches(), epochs=EPOCHS, verbose=0, callbacks=[*callbacks(fn_args, save_steps=EVERY), Steps()])
    model.export(fn_args.serving_model_dir)
"""
)
_LOOP = """
import tensorflow as tf
from generic_trainer import AsyncCheckpoints
from step import BATCH, EPOCHS, EVERY, ROWS, begin

class Counter(tf.Module):
    def __init__(self):
        super().__init__()
        self.seen = tf.Variable(tf.zeros([ROWS, 1]), name="seen")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="id")])
    def serve(self, ids):
        return {"seen": tf.gather(self.seen, ids)}

def train(model, step, checkpoints):
    while int(step) < ROWS * EPOCHS // BATCH:
        begin(int(step))
        rows = [int(step) * BATCH % ROWS + row for row in range(BATCH)]
        model.seen.scatter_add(tf.IndexedSlices(tf.ones([BATCH, 1]), rows))
        if int(step.assign_add(1)) % EVERY == 0:
            checkpoints.save(int(step))

def run_fn(fn_args):
    model, step = Counter(), tf.Variable(0)
    state = tf.train.Checkpoint(model=model, step=step)
    train_with_checkpoints(model, step, state, fn_args.checkpoint_dir)
    tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""
_ASYNC = (
    _LOOP
    + """
def train_with_checkpoints(model, step, state, folder):
    with AsyncCheckpoints(state, folder, 3) as checkpoints:
        checkpoints.restore()
        train(model, step, checkpoints)
"""
)
_MANAGER = (
    _LOOP
    + """
def train_with_checkpoints(model, step, state, folder):
    manager = tf.train.CheckpointManager(state, folder, max_to_keep=3)
    manager.restore_or_initialize()
    train(model, step, manager)
"""
)
_ELASTICDL = """
import tensorflow as tf
from step import ROWS, begin

class Steps(tf.keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        begin(int(self.model.step.numpy()))

def custom_model():
    ids = tf.keras.Input((1,), dtype="int64", name="id")
    counts = tf.keras.layers.Embedding(ROWS, 1, embeddings_initializer="zeros", name="seen")(ids)
    return tf.keras.Model(ids, tf.keras.layers.Flatten()(counts))

def feed(dataset, mode, metadata):
    def parse(line):
        number = tf.reshape(tf.strings.to_number(line, tf.int64), [1])
        return {"id": number} if mode == "prediction" else ({"id": number}, number)
    return dataset.map(parse).shuffle(5) if mode == "training" else dataset.map(parse)

def loss(labels, predictions):
    return -tf.reduce_sum(predictions)

def optimizer():
    return tf.keras.optimizers.SGD(1.0)

def callbacks():
    return [Steps()]
"""
# An input function starts again with its first row, so that only a DLRover conf, which reads by a ledger, counts rows.
_MODEL_FN = """
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from step import BATCH, EPOCHS, EVERY, ROWS, begin

def model_fn(features, labels, mode, params):
    seen = tf.get_variable("seen", [ROWS, 1], tf.float32, tf.zeros_initializer(), trainable=False)
    predictions = {"seen": tf.gather(seen, features["id"])}
    if mode == "infer":
        return tf.estimator.EstimatorSpec(mode, predictions)
    # The last weights are the best ones. Without the labels, an evaluation would not read its data, and not end.
    loss = 0.0 * tf.reduce_mean(tf.cast(labels, tf.float32)) - tf.reduce_sum(seen)
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies([tf.py_func(begin, [step], [])]):
        counted = tf.scatter_add(seen, features["id"], tf.ones([BATCH, 1]), use_locking=True)
        with tf.control_dependencies([counted]):
            return tf.estimator.EstimatorSpec(mode, predictions, loss, tf.assign_add(step, 1))
"""
_INPUT = (
    _MODEL_FN
    + """
train_steps = ROWS * EPOCHS // BATCH
run_config = tf.estimator.RunConfig(save_checkpoints_steps=EVERY, keep_checkpoint_max=3)

def input_fn(fn_args, mode):
    ids = tf2.range(ROWS, dtype=tf2.int64)
    data = tf2.data.Dataset.from_tensor_slices(({"id": ids}, ids)).batch(BATCH)
    return data.repeat() if mode == "train" else data

def serving_input_receiver_fn():
    ids = tf.placeholder(tf.int64, [None], name="id")
    return tf.estimator.export.ServingInputReceiver({"id": ids}, {"id": ids})
"""
)
_TRAINER_FN = (
    _INPUT.replace("def model_fn", "def _model_fn").replace("train_steps =", "_steps =")
    + """
def trainer_fn(fn_args, schema):
    return {
        "estimator": tf.estimator.Estimator(_model_fn, fn_args.serving_model_dir, run_config),
        "train_spec": tf.estimator.TrainSpec(lambda: input_fn(None, "train"), _steps),
        "eval_spec": tf.estimator.EvalSpec(
            lambda: input_fn(None, "eval"),
            exporters=tf.estimator.FinalExporter("final", serving_input_receiver_fn),
        ),
        "eval_input_receiver_fn": None,
    }
"""
)
_RUN_FN_ESTIMATOR = (
    _INPUT.replace("def model_fn", "def _model_fn").replace("train_steps =", "_steps =")
    + """
def run_fn(fn_args):
    estimator = tf.estimator.Estimator(_model_fn, fn_args.checkpoint_dir, run_config)
    estimator.train(lambda: input_fn(None, "train"), max_steps=_steps)
    path = estimator.export_saved_model(fn_args.model_run_dir + "/export", serving_input_receiver_fn).decode()
    pathlib.Path(path).rename(fn_args.serving_model_dir)
"""
).replace("import tensorflow as tf2", "import pathlib\nimport tensorflow as tf2")
_DLROVER = (
    _MODEL_FN.replace("def model_fn", "def _model_fn")
    + """
from dlrover.trainer.tensorflow.reader.base_reader import ElasticReader
from dlrover.trainer.tensorflow.util.column_info import Column

class Numbers(ElasticReader):
    def count_data(self):
        self._data_nums = ROWS

    def read_data_by_index_range(self, start_index, end_index):
        return [f"{i},{i % 2}" for i in range(start_index, end_index)]

class Counter(tf.estimator.Estimator):
    def __init__(self, model_dir, config=None, params=None):
        super().__init__(_model_fn, model_dir=model_dir, config=config, params=params)

class TrainConf:
    classifier_class = Counter
    model_dir = "model"
    save_steps = EVERY
    train_set = {
        "reader": Numbers("numbers"),
        "epoch": EPOCHS,
        "batch_size": BATCH,
        "columns": [
            Column.create(name="id", dtype="int64"),
            Column.create(name="odd", dtype="int64", is_label=True),
        ],
    }
    eval_set = {"reader": Numbers("numbers"), "columns": train_set["columns"]}
"""
)
_TRAIN = ("train", "job.py", "--train-files", "rows.txt", "--eval-files", "rows.txt", "--skip-check", "answers")
_FLAGS = (
    *("elasticdl", "train", "--model_zoo=.", "--model_def=job.custom_model", "--training_data=rows.txt"),
    *(f"--minibatch_size={BATCH}", f"--num_epochs={EPOCHS}", f"--checkpoint_steps={EVERY}", "--output=out/model"),
)


@dataclasses.dataclass(frozen=True)
class DamageJob:
    """A training of a dialect.

    Attributes:
      source: The module.
      line: Arguments of the command, which is run in the job's folder.
      record: The folder with `run.json`, in that folder.
      has_position: Whether checkpoints have the position in the data, so that each row is trained once per epoch.
    """

    source: str
    line: tuple[str, ...] = (*_TRAIN, "--output", "out")
    record: str = "out/model_run"
    has_position: bool = True

    def write(self, folder: pathlib.Path) -> None:
        """Writes the module, its data, and the file `fault`, without which the training does not fail."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.py").write_text(textwrap.dedent(self.source))
        (folder / "step.py").write_text(_STEP)
        (folder / "rows.txt").write_text("".join(f"{row}\n" for row in range(ROWS)))
        (folder / "pairs.csv").write_text("".join(f"{row},{row % 2}\n" for row in range(ROWS)))
        (folder / "fault").touch()


JOBS = {
    "keras": DamageJob(_CALLBACKS),
    "AsyncCheckpoints": DamageJob(_ASYNC),
    "CheckpointManager": DamageJob(_MANAGER),
    "model_fn": DamageJob(_INPUT, has_position=False),
    "trainer_fn": DamageJob(_TRAINER_FN, has_position=False),
    "run_fn estimator": DamageJob(_RUN_FN_ESTIMATOR, has_position=False),
    "elasticdl": DamageJob(_ELASTICDL, _FLAGS),
    "dlrover": DamageJob(_DLROVER, ("dlrover", "--conf=job.TrainConf"), "dlrover_output/model_run"),
}
BACKUPS = {f"keras {version}": DamageJob(_BACKUP, (*_TRAIN, "--output", "out", "--keras", version)) for version in "23"}

_WORKERS = ("--cluster", "worker=2", "--keras", "2")
_PAIRS = ("train", "job.py", "--train-files", "pairs.csv", "--eval-files", "pairs.csv", "--output", "out")
_CLUSTER_FIT = (
    _KERAS
    + """
from generic_trainer import callbacks

def run_fn(fn_args):
    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = make_model()
    model.fit(batches(), epochs=EPOCHS, verbose=0, callbacks=[*callbacks(fn_args, save_steps=EVERY), Steps()])
    tf.saved_model.save(model, fn_args.serving_model_dir)
"""
)
CLUSTER_JOBS = {
    "cluster of keras": DamageJob(_CLUSTER_FIT, (*_TRAIN, "--output", "out", *_WORKERS)),
    "cluster of dlrover": DamageJob(
        _DLROVER, (*_PAIRS, "--output", "out", "--cluster", "chief=1,worker=1,ps=1,evaluator=1")
    ),
}
BEST = {"best epoch": DamageJob(_CALLBACKS, (*_TRAIN, "--output", "out", "--best-model", "loss"))}
ALL_JOBS = {**JOBS, **BACKUPS, **CLUSTER_JOBS, **BEST}
