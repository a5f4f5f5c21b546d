"""Trains and exports small ElasticDL files in one process; prints a line of JSON for each case."""

import json
import os
import random
import sys
import textwrap
import traceback
from types import SimpleNamespace

import numpy as np
import tensorflow as tf

from generic_trainer import FnArgs, TrainingOptions
from generic_trainer.executors import dialects
from generic_trainer.executors.compat.tensorflow import write_graph
from generic_trainer.executors.dialects import selection
from generic_trainer.executors.dialects.elasticdl.export import export
from generic_trainer.executors.dialects.loading import loaded
from generic_trainer.executors.modules.source import find_source
from generic_trainer.executors.saved_models.export_rehearsal import rehearsal

FOLDER = sys.argv[1]
NAMES = ["plain", "capital-gain", "x.y", "x-y", "a b", "class", "1st", "self"]
ROWS = [[float(row + column) for column in range(len(NAMES))] for row in range(8)]

HEAD = """
import tensorflow as tf
from elasticdl.python.common.constants import Mode

NAMES = ["plain", "capital-gain", "x.y", "x-y", "a b", "class", "1st", "self"]
BEGUN = []

def floats(line):
    return tf.reshape(tf.strings.to_number(tf.strings.split(line, ",")), [len(NAMES)])

class Sum(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1)

    def call(self, features, training=False):
        return self.dense(tf.stack([features[name] for name in NAMES], -1))

def custom_model():
    return Sum()

def feed(dataset, mode, metadata):
    def parse(line):
        values = floats(line)
        features = {name: values[number] for number, name in enumerate(NAMES)}
        return features if mode == Mode.PREDICTION else (features, values[:1])
    return dataset.map(parse)

def loss(labels, predictions):
    return tf.reduce_mean((labels - predictions) ** 2)

def optimizer():
    return tf.keras.optimizers.SGD(0.0)

class Noting(tf.keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        BEGUN.append(1)

def callbacks():
    return [Noting()]
"""
PARTS = {
    "odd names": "",
    "sparse": """
class Sparse(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1)

    def call(self, features, training=False):
        dense = tf.sparse.to_dense(features["values"])
        return self.dense(tf.reshape(dense, [-1, len(NAMES)]))

def custom_model():
    return Sparse()

def feed(dataset, mode, metadata):
    def parse(line):
        values = floats(line)
        features = {"values": tf.sparse.from_dense(values)}
        return features if mode == Mode.PREDICTION else (features, values[:1])
    return dataset.map(parse)
""",
    "unknown rank": """
def feed(dataset, mode, metadata):
    def parse(line):
        values = floats(line)
        loose = tf.py_function(lambda value: value, [values], tf.float32)
        features = {name: values[number] for number, name in enumerate(NAMES)} | {"loose": loose}
        return features if mode == Mode.PREDICTION else (features, values[:1])
    return dataset.map(parse)
""",
    "bad feed": """
ready_feed = feed

def feed(dataset, mode, metadata):
    if mode == Mode.PREDICTION:
        return dataset.map(lambda line: {"plain": {}["label"]})
    return ready_feed(dataset, mode, metadata)
""",
    "bad model": """
class Eager(Sum):
    def call(self, features, training=False):
        if not tf.executing_eagerly():
            raise LookupError("no graph")
        return super().call(features)

def custom_model():
    return Eager()
""",
    "bad layer": """
class Layer(tf.keras.layers.Layer):
    def call(self, values):
        if not tf.executing_eagerly():
            raise RuntimeError("no graph")
        return values

class Layered(Sum):
    def __init__(self):
        super().__init__()
        self.layer = Layer(dynamic=True)

    def call(self, features, training=False):
        return self.layer(super().call(features))

def custom_model():
    return Layered()
""",
    "late file": """
import os
PATH = os.path.join(os.path.dirname(__file__), "words.txt")

class Late(Noting):
    def on_train_end(self, logs=None):
        with open(PATH, "w") as file:
            file.write("word")

def callbacks():
    return [Late()]

ready_feed = feed

def feed(dataset, mode, metadata):
    if mode == Mode.PREDICTION:
        with open(PATH) as file:
            assert file.read() == "word"
    return ready_feed(dataset, mode, metadata)
""",
}


def files_below(folder):
    return sorted(os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)


def trained(name, text):
    """Trains a file; returns what came of it, and its folder."""
    folder = os.path.join(FOLDER, name.replace(" ", "_"))
    os.makedirs(folder)
    path = os.path.join(folder, "job.py")
    with open(path, "w") as file:
        file.write(HEAD + textwrap.dedent(text))
    with open(os.path.join(folder, "rows.txt"), "w") as file:
        file.writelines(",".join(map(str, row)) + "\n" for row in ROWS)
    fn_args = FnArgs(
        train_files=[f"{folder}/rows.txt"], eval_files=[f"{folder}/rows.txt"], serving_model_dir=f"{folder}/model",
        model_run_dir=f"{folder}/run", checkpoint_dir=f"{folder}/checkpoints", seed=1,
        custom_config={"num_epochs": 1, "minibatch_size": 4, "log_loss_steps": 0},
    )  # fmt: skip
    answer = {}
    with loaded(find_source(path, FOLDER)) as module:
        known = dialects.adapters()
        dialect, _ = selection.choose(module, None, TrainingOptions(), known)
        run_fn = known[dialect].run_fn(module, None, TrainingOptions())
        try:
            run_fn(fn_args)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "notes": getattr(error, "__notes__", [])}
            frames = traceback.extract_tb(error.__traceback__)
            answer["own_line"] = any(frame.filename == path for frame in frames) or path in str(error)
        answer["begun"] = len(module.BEGUN)
    answer["files"] = [*files_below(f"{folder}/model"), *files_below(f"{folder}/checkpoints")]
    if "error" not in answer:
        signatures = tf.saved_model.load(fn_args.serving_model_dir).signatures
        answer["signatures"] = sorted(signatures)
        records = tf.constant([",".join(map(str, row)) for row in ROWS])
        answer["records"] = signatures["serving_default"](records)["output"].numpy().ravel().tolist()
        if name == "odd names":
            answer["inputs"] = sorted(signatures["tensors"].structured_input_signature[1])
            by_input = {
                "plain": "plain", "capital_gain": "capital-gain", "x_y": "x-y", "x_y_1": "x.y", "a_b": "a b",
                "class_": "class", "arg_1st": "1st", "self_": "self",
            }  # fmt: skip
            values = np.float32(ROWS)
            given = {key: tf.constant(values[:, NAMES.index(feature)]) for key, feature in by_input.items()}
            answer["tensors"] = signatures["tensors"](**given)["output"].numpy().ravel().tolist()
    return answer


def feed(dataset, mode, metadata):
    return dataset.map(lambda line: {"a.b": tf.reshape(tf.strings.to_number(line), [1])})


class Normed(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.layers_used = [
            tf.keras.layers.BatchNormalization(), tf.keras.layers.Dropout(0.5, seed=3),
            tf.keras.layers.GaussianNoise(0.5), tf.keras.layers.Dense(1),
        ]  # fmt: skip

    def call(self, features, training=False):
        value = features["a.b"]
        for layer in self.layers_used:
            value = layer(value, training=training)
        return value


PARTS_OF_IT = SimpleNamespace(feed=feed, module=SimpleNamespace(__file__="job.py"))
LINES = tf.data.Dataset.from_tensor_slices(["1", "2", "3", "4"])


class Counting(Normed):
    def __init__(self):
        super().__init__()
        self.calls = self.add_weight("calls", (), trainable=False, initializer="zeros")

    def call(self, features, training=False):
        self.calls.assign_add(1.0)
        return super().call(features, training)


def of_a_strategy():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = Counting()
        model.compile("sgd", "mse")
    model.fit({"a.b": tf.ones([8, 1])}, tf.ones([8, 1]), verbose=0)
    export(model, PARTS_OF_IT, LINES, None, f"{FOLDER}/strategy")
    signatures = tf.saved_model.load(f"{FOLDER}/strategy").signatures
    return {
        "records": len(signatures["serving_default"](tf.constant(["1"]))["output"]),
        "tensors": len(signatures["tensors"](a_b=tf.constant([[1.0]]))["output"]),
    }


def weights(is_rehearsed):
    """Trains a model with every kind of randomness that there is; returns its weights and what comes next."""
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(7)
    model = Normed()
    model({"a.b": tf.ones([2, 1])})
    model.compile("sgd", "mse")
    if is_rehearsed:
        with rehearsal(model) as folder:
            export(model, PARTS_OF_IT, LINES, None, folder, write_graph)
    model.fit({"a.b": tf.reshape(tf.range(8.0), [8, 1])}, tf.ones([8, 1]), epochs=3, verbose=0, shuffle=True)
    after = [
        random.random(),
        float(np.random.rand()),
        float(tf.random.uniform([])),
        Normed()({"a.b": tf.ones([1, 1])}).numpy().item(),
    ]
    return [value.tolist() for value in model.get_weights()], after


def of_a_processor():
    from generic_trainer.executors.dialects.elasticdl.predictions import Predictions

    seen = []
    processor = SimpleNamespace(process=lambda predictions, worker_id: seen.append(predictions))
    with Predictions(Normed(), processor, f"{FOLDER}/predictions") as predictions:
        predictions.add({"a.b": tf.ones([4, 1])})
    [value] = seen
    return {"is_tensor": tf.is_tensor(value), "shape": value.numpy().shape, "count": predictions.count}


for name, text in PARTS.items():
    print(json.dumps([name, trained(name, text)]), flush=True)
tf.config.experimental.enable_op_determinism()
print(json.dumps(["strategy", of_a_strategy()]))
print(json.dumps(["unchanged", [weights(True), weights(False)]]))
print(json.dumps(["processor", of_a_processor()]))
temporary = [name for name in os.listdir(os.environ["TMPDIR"]) if "rehears" in name]
print(json.dumps(["left", [*temporary, *tf.io.gfile.glob("ram://*"), *tf.io.gfile.glob("ram://*/*")]]))
