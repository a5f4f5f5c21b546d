"""A training without checkpoints. Its weight is random; `trained` has a line with the weight of each training."""

import os
import pathlib
import random

import tensorflow as tf

FOLDER = pathlib.Path(os.environ["FAULTS"])


def passing(phase):
    (FOLDER / f"phase-{phase}").write_text("")


class Model(tf.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = tf.Variable(weight)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        return {"weight": self.weight * tf.ones_like(tf.strings.length(examples), tf.float32)}


def run_fn(fn_args):
    passing("training")
    model = Model(random.random())
    tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
    with (FOLDER / "trained").open("a") as file:
        file.write(f"{float(model.weight.numpy())}\n")
    passing("saved")
