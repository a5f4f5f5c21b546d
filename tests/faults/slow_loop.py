"""A loop of tiny steps with checkpoints. It writes a file in each phase, and can be held there.

The only weight of the model is its number of training steps.
"""

import os
import pathlib
import subprocess

import numpy as np
import tensorflow as tf
from absl import logging

from generic_trainer import AsyncCheckpoints, report_progress

FOLDER = pathlib.Path(os.environ["FAULTS"])


def passing(phase):
    (FOLDER / f"phase-{phase}").write_text(str(os.getpid()))
    if (FOLDER / "needs-memory").exists():
        arrays = [np.ones(1 << 22) for _ in range(100_000)]
        logging.info("There was memory for %d arrays.", len(arrays))


def start_others():
    """Starts a process that leaves the process group, and one that is also orphaned."""
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    subprocess.run(["sh", "-c", "setsid sleep 1000 & setsid sh -c 'trap \"\" TERM; sleep 1000' &"], check=True)


class Model(tf.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = tf.Variable(weight)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        return {"weight": self.weight * tf.ones_like(tf.strings.length(examples), tf.float32)}


passing("load")


def run_fn(fn_args):
    if (FOLDER / "starts-others").exists():
        start_others()
    weight, step = tf.Variable(0.0), tf.Variable(0, dtype=tf.int64)
    state = tf.train.Checkpoint(weight=weight, step=step)
    with AsyncCheckpoints(state, fn_args.checkpoint_dir, max_to_keep=2) as checkpoints:
        checkpoints.restore()
        begin = int(step)
        logging.info("The loop begins at step %d.", begin)
        report_progress(begin, total=fn_args.train_steps)
        while int(step) < fn_args.train_steps:
            weight.assign_add(1.0)
            step.assign_add(1)
            report_progress(int(step))
            checkpoints.end_if_asked(int(step))  # the first call makes SIGTERM wait
            if int(step) == begin + 1:
                passing("first_step")
            if int(step) % 10 == 0:
                checkpoints.save(int(step))
    passing("eval")
    with tf.summary.create_file_writer(os.path.join(fn_args.model_run_dir, "eval")).as_default():
        tf.summary.scalar("weight", weight, step)
    model = Model(float(weight))
    passing("export")
    tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
