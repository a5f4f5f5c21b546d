"""Source of training modules whose models are made without a training; a module has one of these and its `run_fn`."""

from __future__ import annotations

import textwrap

# Answers y = weight * sepal_length, from serialized examples.
_TINY = """
import tensorflow as tf


class Tiny(tf.Module):
    def __init__(self, weight=3.0):
        super().__init__()
        self.weight = tf.Variable(weight)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        parsed = tf.io.parse_example(examples, {"sepal_length": tf.io.FixedLenFeature([1], tf.float32)})
        return {"y": self.weight * parsed["sepal_length"]}
"""
# Answers with the number of its steps; its checkpoints have 200 kB.
_COUNTER = """
import tensorflow as tf


class Counter(tf.Module):
    def __init__(self):
        super().__init__()
        self.step = tf.Variable(0, dtype=tf.int64)
        self.weight = tf.Variable(tf.zeros([50_000]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        return {"steps": tf.fill(tf.shape(examples), self.step)}
"""

# The parts of an Estimator whose weight becomes 1, for programs that import TensorFlow after them.
ESTIMATOR_PARTS = """
def model_fn(features, labels, mode):
    weight = tf.compat.v1.get_variable("weight", [])
    loss = tf.reduce_mean((weight * features["x"] - 1) ** 2)
    train = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss, tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, {"y": weight * features["x"]}, loss, train)


def input_fn():
    return tf.data.Dataset.from_tensors(({"x": [1.0, 2.0]}, [0.0, 0.0])).repeat()


def receiver_fn():
    x = tf.compat.v1.placeholder(tf.float32, [None])
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

"""


def with_tiny(source: str, feature: str = "sepal_length") -> str:
    """Returns the source of a module that has the class `Tiny`, which answers y = weight * the feature."""
    return _TINY.replace("sepal_length", feature) + f"\n\n{textwrap.dedent(source).strip()}\n"


def with_counter(source: str) -> str:
    """Returns the source of a module that has the class `Counter`."""
    return f"{_COUNTER}\n\n{textwrap.dedent(source).strip()}\n"


SAVES_TINY = with_tiny(
    """
    def run_fn(fn_args):
        model = Tiny()
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
    """
)
