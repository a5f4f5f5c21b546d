"""Slow trainings on clusters. Tasks write `trained-TYPE-INDEX` after some steps, and `saving-…` at the end."""

_TASK = """
import json
import os
import pathlib
import time

FOLDER = pathlib.Path(os.environ["FAULTS"])
TASK = json.loads(os.environ["TF_CONFIG"])["task"]
STEPS = int((FOLDER / "steps").read_text())

def passing(phase):
    (FOLDER / f"{phase}-{TASK['type']}-{TASK['index']}").write_text("")

def step_done(step):
    time.sleep(0.05)
    if step >= 10:
        passing("trained")
"""

# A custom loop: all-reduce in each step, and in the export.
LOOP = (
    _TASK
    + """
import tensorflow as tf
from generic_trainer import report_progress, strategy

class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        return {"weight": self.weight * tf.ones_like(tf.strings.length(examples), tf.float32)}

def run_fn(fn_args):
    distribution = strategy(fn_args)
    with distribution.scope():
        model = Model()

    @tf.function
    def train_step():
        def replica_step():
            model.weight.assign_add(tf.distribute.get_replica_context().all_reduce("MEAN", tf.constant(1.0)))
        distribution.run(replica_step)

    report_progress(0, total=STEPS)
    for step in range(1, STEPS + 1):
        train_step()
        report_progress(step)
        step_done(step)
    passing("saving")
    for _ in range(int(os.environ.get("SAVING_STEPS", 60))):
        train_step()
        time.sleep(0.05)
    tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""
)

# Keras 2's `fit`, which Keras 3 cannot do on several workers.
KERAS = (
    _TASK
    + """
import tensorflow as tf
from generic_trainer import callbacks, strategy

class Steps(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        step_done(batch + 1)

def run_fn(fn_args):
    with strategy(fn_args).scope():
        model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensors(([[1.0], [2.0]], [[1.0], [2.0]])).repeat()
    model.fit(data, steps_per_epoch=STEPS, epochs=1, callbacks=[*callbacks(fn_args), Steps()], verbose=0)
    passing("saving")
    model.fit(data, steps_per_epoch=int(os.environ.get("SAVING_STEPS", 60)), callbacks=[Steps()], verbose=0)
    model.save(fn_args.serving_model_dir, save_format="tf")
"""
)

# An Estimator with parameter server and evaluator; the evaluation is slow.
ESTIMATOR = (
    _TASK
    + """
import tensorflow as tf2
import tensorflow.compat.v1 as tf

train_steps = STEPS
run_config = tf.estimator.RunConfig(
    save_checkpoints_steps=10, experimental_max_worker_delay_secs=0, log_step_count_steps=10
)

def model_fn(features, labels, mode, params):
    weight = tf.get_variable("weight", [], tf.float32, tf.zeros_initializer(), trainable=False)
    predictions = {"weight": weight + 0.0 * features["x"]}
    if mode == "infer":
        return tf.estimator.EstimatorSpec(mode, predictions)
    loss = tf.reduce_mean(tf.cast(labels, tf.float32)) - weight
    step = tf.train.get_or_create_global_step()
    if mode == "eval":
        with tf.control_dependencies([tf.py_func(lambda: passing("evaluating"), [], [])]):
            return tf.estimator.EstimatorSpec(mode, predictions, tf.identity(loss))
    with tf.control_dependencies([tf.py_func(step_done, [step], []), tf.assign_add(weight, 1.0)]):
        return tf.estimator.EstimatorSpec(mode, predictions, loss, tf.assign_add(step, 1))

def input_fn(fn_args, mode):
    data = tf2.data.Dataset.from_tensor_slices(({"x": [1.0, 2.0]}, [1, 2])).batch(2)
    return data.repeat() if mode == "train" else data

def serving_input_receiver_fn():
    numbers = tf.placeholder(tf.float32, [None], name="x")
    return tf.estimator.export.ServingInputReceiver({"x": numbers}, {"x": numbers})
"""
)

# ParameterServerStrategy, by the loop of ElasticDL model files.
ELASTICDL = (
    _TASK
    + """
import tensorflow as tf

class Steps(tf.keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        step_done(int(self.model.step.numpy()))

def custom_model():
    numbers = tf.keras.Input((1,), name="x")
    return tf.keras.Model(numbers, tf.keras.layers.Dense(1)(numbers))

def feed(dataset, mode, metadata):
    def parse(line):
        number = tf.reshape(tf.strings.to_number(line), [1])
        return {"x": number} if mode == "prediction" else ({"x": number}, number)
    return dataset.map(parse)

def loss(labels, predictions):
    return tf.reduce_mean(tf.square(labels - predictions))

def optimizer():
    return tf.keras.optimizers.SGD(0.01)

def callbacks():
    return [Steps()]
"""
)
