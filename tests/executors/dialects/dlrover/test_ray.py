"""A DLRover conf on several workers of a Ray cluster: every readable row is trained exactly once per epoch.

This holds whichever worker dies. An unreadable row is reported once, whichever worker reads it.
"""

from __future__ import annotations

import collections
import json
import pathlib
import subprocess
from collections.abc import Callable

import pytest
import tensorflow as tf

pytest.importorskip("ray")
Command = Callable[..., subprocess.CompletedProcess[str]]
ROWS, EPOCHS = 2000, 2
BAD = (40, 41, 999)  # not examples

# The checkpoint contains the row counter. The worker that is not the chief dies at its 20th step, on the first attempt.
CONF = f"""
    import os
    import pathlib
    import signal
    import time
    import tensorflow.compat.v1 as tf
    from dlrover.trainer.tensorflow.util.column_info import Column

    STEPS = []

    def die():
        time.sleep(0.01)
        STEPS.append(1)
        mark = pathlib.Path(os.environ["MARK"])
        if len(STEPS) == 20 and '"type": "worker"' in os.environ["TF_CONFIG"] and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    class Counting(tf.estimator.Estimator):
        def model_fn(self, features, labels, mode):
            ids = features["id"]
            counts = tf.get_variable("counts", [{ROWS}], tf.int64, tf.zeros_initializer(), trainable=False)
            weight = tf.get_variable("weight", [], tf.float32, tf.zeros_initializer())
            answer = weight * tf.cast(ids, tf.float32)
            if mode == tf.estimator.ModeKeys.PREDICT:
                return tf.estimator.EstimatorSpec(mode, answer)
            loss = tf.losses.mean_squared_error(labels, answer)
            count = tf.scatter_add(counts, ids, tf.ones_like(ids), use_locking=True)
            with tf.control_dependencies([count, tf.py_func(die, [], [])]):
                step = tf.train.get_or_create_global_step()
                train = tf.train.GradientDescentOptimizer(1e-9).minimize(loss, step)
            return tf.estimator.EstimatorSpec(mode, answer, loss, train)

    COLUMNS = (Column.create(name="id", dtype="int64"), Column.create(name="y", dtype="float32", is_label=True))

    class TrainConf:
        classifier_class = Counting
        save_steps = 25
        eval_steps = 2
        train_set = {{"columns": COLUMNS, "batch_size": 16, "epoch": {EPOCHS}}}
        eval_set = {{**train_set, "epoch": 1}}
"""


@pytest.fixture
def examples(tmp_path: pathlib.Path) -> str:
    """Returns a pattern of TFRecords, of which one is gzipped."""
    for part, name in enumerate(("ids-0", "ids-1.gz")):
        with tf.io.TFRecordWriter(str(tmp_path / name), "GZIP" if part else "") as writer:
            for number in range(part, ROWS, 2):
                example = tf.train.Example()
                example.features.feature["id"].int64_list.value.append(number)
                example.features.feature["y"].float_list.value.append(2.0 * number)
                writer.write(b"\xff\xff" if number in BAD else example.SerializeToString())
    return str(tmp_path / "ids-*")


@pytest.mark.thorough
@pytest.mark.slow
def test_two_workers_one_of_which_dies(
    command: Command,
    module: Callable[..., str],
    examples: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MARK", str(tmp_path / "died"))

    done = command(
        *["train", module(CONF), "--train-files", examples, "--eval-files", examples, "--output", tmp_path / "out"],
        *["--engine", "ray", "--workers", 2, "--ps", 1, "--cpus-per-worker", 0.5, "--on-bad-records", "skip:3"],
    )

    assert done.returncode == 0, done.stderr[-5000:]
    assert (tmp_path / "died").exists()
    assert "[chief 0] " in done.stderr
    assert "worker 0 joined; rows are assigned in ranges of 160." in done.stderr
    record = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())
    assert record["dialect"]["name"] == "dlrover"
    assert record["cluster"]["workers"] == [2, 2]
    assert record["check"]["checks"]["answers"] == "passed"
    checkpoint = tf.train.load_checkpoint(str(tmp_path / "out" / "model_run" / "Format-Serving"))
    counts = checkpoint.get_tensor("counts/.ATTRIBUTES/VARIABLE_VALUE").tolist()
    assert collections.Counter(counts) == {EPOCHS: ROWS - len(BAD), 0: len(BAD)}
    assert [number for number, count in enumerate(counts) if not count] == list(BAD)
    bad = record["bad_records"]
    assert (bad["limit"], bad["count"], "DLRover" in bad["readers"]) == (3, 3, True)
    assert sorted((pathlib.Path(one["file"]).name, one["place"]) for one in bad["records"]) == [
        *(("ids-0", "record 21"), ("ids-1.gz", "record 21"), ("ids-1.gz", "record 500"))
    ]
    assert "Skipped:      3 unreadable records (limit: 3)" in done.stdout
