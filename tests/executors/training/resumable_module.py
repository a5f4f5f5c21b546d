"""A module that fails at its first start, and exports a model when it is resumed."""

from __future__ import annotations

import tensorflow as tf

from generic_trainer import FnArgs


def run_fn(fn_args: FnArgs) -> None:
    """Resumes if there is a checkpoint."""
    position = f"{fn_args.checkpoint_dir}/position"
    if not tf.io.gfile.exists(position):
        tf.io.gfile.makedirs(fn_args.checkpoint_dir)
        with tf.io.gfile.GFile(position, "w") as file:
            file.write("41")
        raise RuntimeError("preempted")
    model = tf.Module()
    model.serve = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None], tf.float32)])
    tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
