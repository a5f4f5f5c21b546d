"""The example modules do what their pages say; and TFX's own example modules run as they are."""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from ..world.records import example, write_examples

Command = Callable[..., subprocess.CompletedProcess[str]]
MODULES = pathlib.Path(__file__).resolve().parent.parent.parent / "module_files"
TFX = pathlib.Path(find_spec("tfx").origin).parent


def metrics_of(output: pathlib.Path) -> dict[str, float]:
    return json.loads((output / "model_run" / "run.json").read_text())["metrics"]["eval"]


@pytest.fixture
def clicks(tmp_path: pathlib.Path) -> dict[str, str]:
    """Ads shown to people of different tastes; the first place of a page is clicked more often than the fifth."""
    import numpy as np

    random = np.random.default_rng(0)
    users, ads = random.normal(size=(40, 2)), random.normal(size=(20, 2))
    for split, count in (("train", 3000), ("eval", 1000)):
        rows: list[dict[str, Any]] = []
        for _ in range(count):
            user, ad, position = random.integers(40), random.integers(20), random.integers(1, 6)
            probability = 1 / (1 + np.exp(0.5 * position - 2 * users[user] @ ads[ad]))
            clicked = int(random.random() < probability)
            rows.append({"user": f"user-{user}", "ad": f"ad-{ad}", "position": float(position), "clicked": clicked})
        write_examples(tmp_path / f"{split}.tfrecord", rows)
    return {split: str(tmp_path / f"{split}.tfrecord") for split in ("train", "eval")}


def ask(folder: pathlib.Path, features: dict[str, list[Any]], signature: str = "serving_default") -> dict[str, Any]:
    import tensorflow as tf

    serve = tf.saved_model.load(str(folder / "model" / "Format-Serving")).signatures[signature]
    return {key: value.numpy() for key, value in serve(tf.constant([example(features)])).items()}


@pytest.mark.slow
def test_iris_in_keras_3(command: Command, iris: Any, tmp_path: pathlib.Path) -> None:
    data = ["--train-files", iris.train, "--eval-files", iris.eval, "--output", tmp_path]
    done = command("train", MODULES / "iris_keras.py", *data, "--train-steps", 300, "--seed", 1)
    assert done.returncode == 0, done.stderr[-3000:]
    assert metrics_of(tmp_path)["accuracy"] > 0.9
    setosa = {"sepal_length": [5.1], "sepal_width": [3.5], "petal_length": [1.4], "petal_width": [0.2]}
    assert ask(tmp_path, setosa)["probabilities"].argmax() == 0


@pytest.mark.thorough
@pytest.mark.slow
def test_digits_in_a_loop_of_its_own(command: Command, digits: Any, tmp_path: pathlib.Path) -> None:
    data = ["--train-files", digits.train, "--eval-files", digits.eval, "--output", tmp_path]
    done = command("train", MODULES / "digits_custom_loop.py", *data, "--train-steps", 600, "--seed", 1)
    assert done.returncode == 0, done.stderr[-3000:]
    assert metrics_of(tmp_path)["accuracy"] > 0.9
    assert (tmp_path / "model_run" / "checkpoints").is_dir()


@pytest.mark.thorough
@pytest.mark.slow
def test_iris_as_an_estimator(command: Command, iris: Any, tmp_path: pathlib.Path) -> None:
    data = ["--train-files", iris.train, "--eval-files", iris.eval, "--output", tmp_path]
    done = command("train", MODULES / "iris_estimator.py", *data, "--train-steps", 300, "--seed", 1)
    assert done.returncode == 0, done.stderr[-3000:]
    assert metrics_of(tmp_path)["accuracy"] > 0.9
    assert metrics_of(tmp_path)["loss"] == pytest.approx(0.0475865416, rel=1e-4)  # as on TensorFlow 2.15.1
    setosa = {"sepal_length": [5.1], "sepal_width": [3.5], "petal_length": [1.4], "petal_width": [0.2]}
    assert ask(tmp_path, setosa)["probabilities"].argmax() == 0


@pytest.mark.thorough
@pytest.mark.slow
def test_digits_by_a_model_fn(command: Command, digits: Any, tmp_path: pathlib.Path) -> None:
    import tensorflow as tf

    data = ["--train-files", digits.train, "--eval-files", digits.eval, "--output", tmp_path]
    done = command("train", MODULES / "digits_model_fn.py", *data, "--train-steps", 600, "--seed", 1)
    assert done.returncode == 0, done.stderr[-3000:]
    assert metrics_of(tmp_path)["accuracy"] > 0.97
    work = tmp_path / "model_run" / "Format-Serving"
    assert 1 <= len(list((work / "export" / "best").iterdir())) <= 2
    tags = {
        value.tag
        for path in (work / "eval").glob("events.*")
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert {"confidence", "accuracy", "loss"} <= tags
    blank = ask(tmp_path, {"image": [0.0] * 64})
    assert blank["probabilities"].shape == (1, 10)
    assert blank["classes"] == blank["probabilities"].argmax()


@pytest.mark.thorough
@pytest.mark.slow
def test_clicks_by_an_adaptor(command: Command, clicks: dict[str, str], tmp_path: pathlib.Path) -> None:
    data = ["--train-files", clicks["train"], "--eval-files", clicks["eval"], "--output", tmp_path / "out"]
    done = command("train", MODULES / "ctr_adaptor.py", *data, "--train-steps", 1500, "--seed", 1)
    assert done.returncode == 0, done.stderr[-3000:]
    metrics = metrics_of(tmp_path / "out")
    assert metrics["auc"] > 0.75
    # The adaptor's own metric, by hand: the log loss over the entropy of the click rate.
    rate = metrics["label/mean"]
    entropy = -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
    assert metrics["normalized_entropy"] == pytest.approx(metrics["average_loss"] / entropy, rel=1e-4)
    assert metrics["normalized_entropy"] < 0.9
    first, fifth = (
        ask(tmp_path / "out", {"user": [b"user-1"], "ad": [b"ad-1"], "position": [position]}, "predict")["logistic"]
        for position in (1.0, 5.0)
    )
    assert first > fifth


@pytest.mark.slow
def test_a_line_by_a_conf(command: Command, tmp_path: pathlib.Path) -> None:
    done = command("dlrover", f"--conf={MODULES / 'linear_dlrover.py'}", "--seed", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert metrics_of(tmp_path / "dlrover_output")["rmse"] == pytest.approx(1.12, abs=0.1)  # that of the noise
    assert (tmp_path / "linear_model" / "model.ckpt-300.index").exists()


@pytest.mark.thorough
@pytest.mark.slow
def test_clicks_by_a_conf(command: Command, tmp_path: pathlib.Path) -> None:
    fewer = '{"max_steps": 300, "save_steps": 300}'  # each evaluation builds the graph twice more
    line = ["dlrover", f"--conf={MODULES / 'ctr_dlrover.py'}", "--seed", 1, "--custom-config", fewer]
    done = command(*line, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    metrics = metrics_of(tmp_path / "dlrover_output")
    assert metrics["auc"] > 0.75
    record = json.loads((tmp_path / "dlrover_output" / "model_run" / "run.json").read_text())
    assert "I0" not in record["check"]["signatures"]["predict"]["inputs"]
    assert record["check"]["signatures"]["predict"]["inputs"]["C26"] == "string (?)"


@pytest.mark.thorough
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
