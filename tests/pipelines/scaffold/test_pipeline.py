"""A project from `init` for the taxi data: its pipeline pushes a useful model, and `train` reuses its output."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="module")
def taxi(
    tmp_path_factory: pytest.TempPathFactory, taxi_csv: pathlib.Path, command: Callable[..., Any]
) -> tuple[pathlib.Path, str]:
    """A project for the taxi data, with the output of its pipeline."""
    folder = tmp_path_factory.mktemp("made") / "taxi"
    made = command("init", folder, "--data", taxi_csv / "data.csv", "--label", "payment_type")
    assert made.returncode == 0, made.stderr
    done = command("run", "--config", folder / "pipeline.yaml", "--no-check")
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, done.stdout


@pytest.mark.thorough
@pytest.mark.slow
def test_the_taxi_pipeline_as_written_pushes_a_useful_model(
    taxi: tuple[pathlib.Path, str], command: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    folder, said = taxi
    metrics = dict(line.split() for line in said.partition("Eval metrics:\n")[2].splitlines())
    assert float(metrics["sparse_categorical_accuracy"]) > 0.9  # two of three pay cash
    [pushed] = (folder / "pipeline" / "serving").iterdir()
    answers = tmp_path / "answers.jsonl"
    assert "predict --model pipeline/serving --examples sample.csv" in (folder / "README.md").read_text()
    asked = command("predict", "--model", pushed.parent, "--examples", folder / "sample.csv", "--output", answers)
    assert asked.returncode == 0, asked.stderr
    predictions = [json.loads(line) for line in answers.read_text().splitlines()]
    assert {"Cash", "Credit Card"} <= {prediction["class"][0] for prediction in predictions}
    # Runs the project's own test on these answers, without its fixtures, which would compute them again.
    own = folder / "test_taxi.py"
    tests: dict[str, Any] = {"__file__": str(own)}
    exec(own.read_text().replace('@pytest.fixture(scope="module")\n', ""), tests)  # noqa: S102
    labels = tests["labels"]()
    tests["test_every_example_has_a_valid_prediction"](predictions, labels)
    tests["test_model_is_better_than_class_frequencies"](predictions, labels)
    shares = [labels.count(one) / len(labels) for one in tests["CLASSES"]]
    with pytest.raises(AssertionError):
        tests["test_model_is_better_than_class_frequencies"]([{"probabilities": shares}] * len(labels), labels)
    with pytest.raises(AssertionError):
        tests["test_every_example_has_a_valid_prediction"](predictions[1:], labels)


@pytest.mark.thorough
@pytest.mark.slow
def test_train_uses_the_pipelines_outputs(taxi: tuple[pathlib.Path, str], command: Callable[..., Any]) -> None:
    folder, _ = taxi
    done = command("train", "--config", folder / "pipeline.yaml", "--train-steps", 100)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (folder / "trained" / "model" / "Format-Serving" / "saved_model.pb").exists()
