"""Two fits of tiny models without callbacks of the trainer. Weights are random; each step appends to a file."""

import os
import pathlib

import numpy as np
import tensorflow as tf

FOLDER = pathlib.Path(os.environ["FAULTS"])


class Counted(tf.keras.Sequential):
    def train_step(self, *args):
        with (FOLDER / "steps").open("a") as file:
            file.write("1")
        return super().train_step(*args)


def trained():
    model = Counted([tf.keras.layers.Dense(1, use_bias=False)])
    model.compile("adam", "mse", run_eagerly=True)
    x = np.random.normal(size=(8, 1)).astype("float32")
    model.fit(x, x, batch_size=4, epochs=2, verbose=0)
    return model


def run_fn(fn_args):
    models = [trained(), trained()]
    (FOLDER / "weights").write_text(str([model.get_weights()[0].item() for model in models]))
    exported = tf.Module()
    exported.models = models

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples):
        x = tf.ones([tf.size(examples), 1])
        return {"weight": tf.reshape(models[0](x) + models[1](x), [-1])}

    exported.serve = serve
    tf.saved_model.save(exported, fn_args.serving_model_dir, signatures={"serving_default": serve})
    if (FOLDER / "needs-memory").exists():
        np.ones(1 << 50)
