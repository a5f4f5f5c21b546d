"""Compares ElasticDL and this project on the whole job of its guide's local command: iris, 100 epochs, 300 steps.

    python benchmarks/elasticdl_side_by_side.py --peer PEER/bin/python

The README in this folder describes how to create the peer's environment. Both sides get the same flags, the same model
file (that of ElasticDL's guide: four numbers, one dense layer) and the same 150 rows, which they also evaluate about
110 times. The time is that of the command, from its start to its end, with the export; on our side it includes the
check of the SavedModel, the error analysis and the report.
"""

from __future__ import annotations

import csv
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from pairs import arguments, compare, report

_COLUMNS = ["sepal.length", "sepal.width", "petal.length", "petal.width", "variety"]
_FLAGS = [
    "--model_zoo=zoo",
    "--model_def=iris.iris.custom_model",
    "--training_data=iris.csv",
    "--validation_data=iris.csv",
    f"--data_reader_params=columns={_COLUMNS}; sep=','",
    "--minibatch_size=64",
    "--num_minibatches_per_task=20",
    "--distribution_strategy=Local",
    "--job_name=iris",
    "--evaluation_steps=20",
]
_EPOCHS, _FEW_EPOCHS = 100, 2

_MODEL = """
import tensorflow as tf


def custom_model():
    inputs = tf.keras.layers.Input(shape=(4, 1), name="input")
    outputs = tf.keras.layers.Dense(3, name="output")(tf.keras.layers.Flatten()(inputs))
    return tf.keras.Model(inputs=inputs, outputs=outputs)


def loss(labels, predictions):
    labels = tf.cast(tf.reshape(labels, [-1]), tf.int32)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, predictions))


def optimizer(lr=0.1):
    return tf.optimizers.SGD(lr)


def eval_metrics_fn():
    return {
        "accuracy": lambda labels, predictions: tf.equal(
            tf.argmax(predictions, 1, output_type=tf.int32), tf.cast(tf.reshape(labels, [-1]), tf.int32)
        )
    }


def feed(dataset, mode, metadata):
    return dataset.map(
        lambda record: (
            tf.strings.to_number(record[0:-1], tf.float32),
            tf.strings.to_number(record[-1], tf.float32),
        )
    )


dataset_fn = feed  # the name before ElasticDL 0.2
"""


def main() -> None:
    """Measures the pairs and prints the table."""
    options = arguments(__doc__, pairs=3, values={"--peer": "Python of the environment with ElasticDL 0.2.0rc1"})
    if not options.peer:
        sys.exit("--peer is missing: the Python of the environment with ElasticDL, see benchmarks/README.md")
    epochs = _FEW_EPOCHS if options.quick else _EPOCHS
    peer = [os.path.abspath(options.peer), "-m", "elasticdl.python.elasticdl.client", "train"]
    ours = [sys.executable, "-m", "generic_trainer.cli.main", "elasticdl", "train"]
    row = compare(
        f"an ElasticDL job, iris, {epochs} epochs",
        "ElasticDL 0.2.0rc1 on TensorFlow 2.1",
        options,
        unit="s",
        ours=functools.partial(_seconds, ours, epochs),
        peer=functools.partial(_seconds, peer, epochs),
        at_most=0.5,
    )
    report([row], options)


def _seconds(command: list[str], epochs: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        _write_job(pathlib.Path(folder))
        environment = {**os.environ, "PYTHONPATH": folder, "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python" if "elasticdl.python" in command[2] else "upb"
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        begin = time.perf_counter()
        done = subprocess.run(
            [*command, *_FLAGS, f"--num_epochs={epochs}", "--output=model"],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.perf_counter() - begin
        if done.returncode or not os.path.exists(f"{folder}/model/saved_model.pb"):
            sys.exit(f"{command} exited with code {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
        return seconds


def _write_job(folder: pathlib.Path) -> None:
    from sklearn.datasets import load_iris

    for package in ("recordio", "zoo/iris"):  # ElasticDL imports recordio, whose build needs Go, and does not use it
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    (folder / "zoo/iris/iris.py").write_text(_MODEL)
    iris = load_iris()
    with open(folder / "iris.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows([*row, label] for row, label in zip(iris.data.tolist(), iris.target.tolist(), strict=True))


if __name__ == "__main__":
    main()
