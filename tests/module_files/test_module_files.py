"""The example modules do what their pages say; and TFX's own example modules run as they are."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]
MODULES = pathlib.Path(__file__).resolve().parent.parent.parent / "module_files"
TFX = pathlib.Path(find_spec("tfx").origin).parent


def metrics_of(output: pathlib.Path) -> dict[str, float]:
    return json.loads((output / "model_run" / "run.json").read_text())["metrics"]["eval"]


def ask(folder: pathlib.Path, features: dict[str, list[float]]) -> dict[str, Any]:
    import tensorflow as tf

    example = tf.train.Example()
    for name, values in features.items():
        example.features.feature[name].float_list.value.extend(values)
    serve = tf.saved_model.load(str(folder / "model" / "Format-Serving")).signatures["serving_default"]
    return {key: value.numpy() for key, value in serve(tf.constant([example.SerializeToString()])).items()}


@pytest.mark.slow
def test_iris_in_keras_3(command: Command, iris: Any, tmp_path: pathlib.Path) -> None:
    data = ["--train-files", iris.train, "--eval-files", iris.eval, "--output", tmp_path]
    done = command("train", MODULES / "iris_keras.py", *data, "--train-steps", 300, "--seed", 1)
    assert done.returncode == 0, done.stderr[-3000:]
    assert metrics_of(tmp_path)["accuracy"] > 0.9
    setosa = {"sepal_length": [5.1], "sepal_width": [3.5], "petal_length": [1.4], "petal_width": [0.2]}
    assert ask(tmp_path, setosa)["probabilities"].argmax() == 0


@pytest.mark.slow
def test_digits_in_a_loop_of_its_own(command: Command, digits: Any, tmp_path: pathlib.Path) -> None:
    data = ["--train-files", digits.train, "--eval-files", digits.eval, "--output", tmp_path]
    done = command("train", MODULES / "digits_custom_loop.py", *data, "--train-steps", 600, "--seed", 1)
    assert done.returncode == 0, done.stderr[-3000:]
    assert metrics_of(tmp_path)["accuracy"] > 0.9
    assert (tmp_path / "model_run" / "checkpoints").is_dir()


@pytest.mark.slow
def test_tfxs_test_module_unmodified(command: Command, tmp_path: pathlib.Path) -> None:
    data = TFX / "components" / "testdata" / "transform"
    done = command(
        *["train", TFX / "components" / "testdata" / "module_file" / "trainer_module.py"],
        *["--train-files", data / "transformed_examples" / "Split-train" / "*"],
        *["--eval-files", data / "transformed_examples" / "Split-eval" / "*"],
        *["--transform-graph", data / "transform_graph", "--train-steps", 50, "--eval-steps", 5],
        *["--output", tmp_path, "--required-signature", "transform_features"],
    )
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads((tmp_path / "model_run" / "run.json").read_text())
    assert record["keras"]["version"] == "2"
    assert record["check"]["checks"]["answers"] == "passed"
    assert metrics_of(tmp_path)["binary_accuracy"] > 0.5
