"""Tests the installed package with the installed TensorFlow and TFX: check, training, an Estimator, whole pipelines.

`scripts/check-stack.sh` runs it in a fresh environment, outside of the repository:

    python try_stack.py FOLDER

Each model is loaded without this project's code, and its predictions on labeled examples are checked.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable

MODULES = "generic_trainer.module_files"
IRIS = ["--train-files", "iris/train/*", "--eval-files", "iris/eval/*"]
# Mean and standard deviation of the three varieties' features, in cm (R. A. Fisher, 1936).
FEATURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
VARIETIES = (
    ((5.01, 0.35), (3.43, 0.38), (1.46, 0.17), (0.25, 0.11)),
    ((5.94, 0.52), (2.77, 0.31), (4.26, 0.47), (1.33, 0.20)),
    ((6.59, 0.64), (2.97, 0.32), (5.55, 0.55), (2.03, 0.27)),
)


def run(*command: str) -> str:
    """Runs a command and returns its output; if it fails, exits with the output as message."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\nerror: exit code {done.returncode}: {' '.join(command)}")
    return done.stdout


def run_in_subprocess(function: Callable[..., None], *arguments: str) -> None:
    """Runs a function of SUBPROCESS_FUNCTIONS in a subprocess, so that this process does not import TensorFlow."""
    run(sys.executable, __file__, function.__name__, *arguments)


def write_iris() -> None:
    """Writes 400 iris examples for training and 100 for evaluation as gzipped TFRecords, with a fixed seed."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(1936)
    for split, count in (("train", 400), ("eval", 100)):
        folder = pathlib.Path("iris", split)
        folder.mkdir(parents=True)
        with tf.io.TFRecordWriter(str(folder / "flowers.gz"), "GZIP") as writer:
            for variety in random.integers(len(VARIETIES), size=count):
                example = tf.train.Example()
                for name, (mean, deviation) in zip(FEATURES, VARIETIES[variety], strict=True):
                    example.features.feature[name].float_list.value.append(random.normal(mean, deviation))
                example.features.feature["variety"].int64_list.value.append(variety)
                writer.write(example.SerializeToString())


def predict(model: str, examples: str, limit: int = 100) -> tuple[list[bytes], dict[str, object]]:
    """Runs a SavedModel's `serving_default` on examples; returns the examples, and the outputs as arrays by name."""
    import tensorflow as tf

    files = sorted(map(str, pathlib.Path().glob(examples)))
    records = [record.numpy() for record in tf.data.TFRecordDataset(files, "GZIP").take(limit)]
    serve = tf.saved_model.load(model).signatures["serving_default"]
    [name] = serve.structured_input_signature[1]
    return records, {key: value.numpy() for key, value in serve(**{name: tf.constant(records)}).items()}


def assert_iris(model: str) -> None:
    """Asserts that the model's accuracy on the 100 iris examples of the eval split is at least 0.85."""
    import numpy as np
    import tensorflow as tf

    records, outputs = predict(model, "iris/eval/*")
    labels = [tf.train.Example.FromString(record).features.feature["variety"].int64_list.value[0] for record in records]
    [probabilities] = [value for value in outputs.values() if np.shape(value) == (100, 3)]
    right = int(np.sum(np.argmax(probabilities, axis=1) == labels))
    assert right >= 85, f"{model} classifies only {right} of 100 flowers correctly"


def assert_taxi(root: str) -> None:
    """Asserts that the pushed model's outputs for 100 trips of the eval split are finite and not constant."""
    import numpy as np

    [model] = pathlib.Path(root, "serving").glob("*/saved_model.pb")
    records, outputs = predict(str(model.parent), f"{root}/CsvExampleGen/examples/*/Split-eval/*")
    numbers = [value for value in outputs.values() if np.issubdtype(np.asarray(value).dtype, np.floating)]
    assert len(records) == 100
    assert numbers
    for value in numbers:
        assert np.shape(value)[0] == 100
        assert np.isfinite(value).all()
        assert np.ptp(value, axis=0).max() > 0.01, outputs


def data() -> None:
    """Writes iris examples, drawn from the distributions published by Fisher."""
    run_in_subprocess(write_iris)


def check() -> None:
    """Runs `check` on the minimal example module."""
    run("generic-trainer", "check", f"{MODULES}.iris_keras", *IRIS, "--train-steps", "300")


def train(module: str) -> None:
    """Trains a module on iris, and tests the exported model."""
    options = ["--train-steps", "300", "--eval-steps", "2", "--seed", "1", "--output", module]
    run("generic-trainer", "train", f"{MODULES}.{module}", *IRIS, *options)
    record = json.loads(pathlib.Path(module, "model_run", "run.json").read_text())
    assert record["metrics"]["eval"]["accuracy"] > 0.85, record["metrics"]
    run_in_subprocess(assert_iris, f"{module}/model/Format-Serving")


def pipeline(module: str) -> None:
    """Runs a pipeline on the taxi dataset in TFX's package, and tests the pushed model."""
    [tfx] = importlib.util.find_spec("tfx").submodule_search_locations
    [ours] = importlib.util.find_spec(MODULES).submodule_search_locations
    trips = f"{tfx}/examples/chicago_taxi_pipeline/data/simple"
    options = ["--label", "big_tip", "--pipeline-root", module, "--train-steps", "500"]
    run("generic-trainer", "run", "--data", trips, "--module-file", f"{ours}/{module}.py", *options)
    run_in_subprocess(assert_taxi, module)


CHECKS: dict[str, Callable[[], None]] = {
    "data": data,
    "check": check,
    "train": lambda: train("iris_keras"),
    "train an Estimator": lambda: train("iris_estimator"),
    "pipeline": lambda: pipeline("taxi_keras"),
    "pipeline of an Estimator": lambda: pipeline("taxi_estimator"),
}


SUBPROCESS_FUNCTIONS = {function.__name__: function for function in (write_iris, assert_iris, assert_taxi)}


def main() -> None:
    """Runs all checks in the folder given as first argument; exits with code 1 at the first failure."""
    first, *others = sys.argv[1:]
    if first in SUBPROCESS_FUNCTIONS:
        return SUBPROCESS_FUNCTIONS[first](*others)
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.chdir(first)
    seconds = {}
    for title, check_stack in CHECKS.items():
        start = time.monotonic()
        check_stack()
        seconds[title] = round(time.monotonic() - start)
        print(f"   {title:27} {seconds[title]:4} s", flush=True)  # noqa: T201
    pathlib.Path("seconds.json").write_text(json.dumps(seconds))


if __name__ == "__main__":
    main()
