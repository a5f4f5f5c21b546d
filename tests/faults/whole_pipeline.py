"""A module for every step of a pipeline: preprocessing, tuning and training, each in almost no time."""

import os
import pathlib

import keras_tuner
import numpy as np
import tensorflow as tf

from generic_trainer import TunerFnResult

FOLDER = pathlib.Path(os.environ["FAULTS"])


def passing(phase):
    (FOLDER / f"phase-{phase}").write_text("")


def preprocessing_fn(inputs):
    return {"x": inputs["x"], "y": inputs["y"]}


def build(parameters):
    parameters.Choice("units", [1])
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    return model


def tuner_fn(fn_args):
    passing("tuner")
    tuner = keras_tuner.RandomSearch(build, objective="loss", max_trials=1, directory=fn_args.working_dir)
    rows = np.ones((2, 1), np.float32)
    return TunerFnResult(tuner, {"x": rows, "y": rows, "verbose": 0})


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight = tf.Variable(1.0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        rows = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})
        return {"predictions": self.weight * rows["x"]}


def run_fn(fn_args):
    passing("training")
    model = Model()
    tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
