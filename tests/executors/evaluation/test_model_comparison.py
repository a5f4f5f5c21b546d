"""Comparisons of SavedModels whose answers NumPy knows, in the process that `diff` starts."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer import InputError
from generic_trainer.executors.evaluation.model_comparison import (
    ComparedModel,
    ModelComparison,
    run_model_comparison,
)
from generic_trainer.executors.evaluation.model_comparison_worker import execute
from generic_trainer.executors.evaluation.plan import (
    BINARY,
    LOGITS,
    MULTICLASS,
    PROBABILITIES,
    REGRESSION,
    EvaluationPlan,
    OutputPlan,
)

COUNT = 600
X, Y = np.random.default_rng(3).normal(size=(2, COUNT)).astype(np.float32)
LABEL = (X > 0).astype(np.int64)
BINARY_OUTPUT = OutputPlan("output", BINARY, "label", scores=LOGITS)
Save = Callable[..., str]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    path = str(tmp_path_factory.mktemp("eval") / "examples.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for row in range(COUNT):
            found = tf.train.Example()
            for name, column in {"x": X, "y": Y, "price": 2 * X}.items():
                found.features.feature[name].float_list.value.append(column[row])
            found.features.feature["label"].int64_list.value.append(LABEL[row])
            found.features.feature["city"].bytes_list.value.append(f"city {row}".encode())
            writer.write(found.SerializeToString())
    return [path]


@pytest.fixture(scope="module")
def save(tmp_path_factory: pytest.TempPathFactory) -> Save:
    def saved(answer: Callable[[Any], Any], features: Sequence[str] = ("x", "y")) -> str:
        class Model(tf.Module):
            @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
            def serve(self, examples: Any) -> dict[str, Any]:
                spec = dict.fromkeys(features, tf.io.FixedLenFeature([1], tf.float32))
                return {"output": answer(tf.io.parse_example(examples, spec))}

        folder, model = str(tmp_path_factory.mktemp("model")), Model()
        tf.saved_model.save(model, folder, signatures={"serving_default": model.serve})
        return folder

    return saved


def model(folder: str, output: OutputPlan) -> ComparedModel:
    return ComparedModel(folder, EvaluationPlan("serving_default", outputs=(output,)).to_json())


def compared(models: Sequence[ComparedModel], files: list[str]) -> ModelComparison:
    request: Any = {"models": [vars(one) for one in models], "files": files, "seconds": 10}
    return ModelComparison.from_json(json.loads(json.dumps(execute(request))))


def test_a_binary_model_in_a_subprocess(save: Save, files: list[str]) -> None:
    models = [
        model(save(lambda one: one["x"] + one["y"]), BINARY_OUTPUT),
        model(save(lambda one: one["x"]), BINARY_OUTPUT),
    ]
    found = run_model_comparison(models, files, seconds=10)
    assert (found.problem, found.examples, found.total, found.is_complete) == ("", COUNT, COUNT, True)
    [output] = found.outputs
    before = (X + Y > 0).astype(int)
    changed = before != LABEL  # the second model is always right
    assert (output.changed, output.improved, output.worsened) == (changed.sum(), changed.sum(), 0)
    accuracy, auc, _ = output.metrics
    assert (accuracy.before, accuracy.after) == (pytest.approx((before == LABEL).mean()), 1)
    assert (accuracy.is_better, auc.is_better) == (True, True)
    assert len(output.changes) == 10
    for one in output.changes:
        row = int(one.features["city"].removeprefix("city "))
        assert (one.label, one.before, one.after) == (str(LABEL[row]), str(before[row]), str(LABEL[row]))
        assert one.features["x"] == f"{X[row]:.5g}"
        assert "label" not in one.features


def test_the_same_model_changes_nothing(save: Save, files: list[str]) -> None:
    folder = save(lambda one: one["x"])
    [output] = compared([model(folder, BINARY_OUTPUT)] * 2, files).outputs
    assert (output.changed, output.improved, output.worsened, output.changes) == (0, 0, 0, ())
    assert not any(metric.is_significant for metric in output.metrics)


def test_classes_and_an_unknown_label_are_compared(save: Save, files: list[str]) -> None:
    def classes(weight: float) -> Callable[[Any], Any]:
        return lambda one: tf.nn.softmax(tf.concat([-one["x"], one["x"] + weight * one["y"], one["x"] * 0 - 9], 1))

    output = OutputPlan("output", MULTICLASS, classes=3, scores=PROBABILITIES)
    sides = [model(save(classes(weight), ("x", "y")), output) for weight in (0.0, 1.0)]
    [found] = compared(sides, files).outputs
    after = (X + (X + Y) > 0).astype(int)
    assert (found.label, found.worsened, found.improved) == ("label", (after != LABEL).sum(), 0)
    assert found.metrics[0].is_better is False


def test_numbers_are_compared_by_their_errors(save: Save, files: list[str]) -> None:
    output = OutputPlan("output", REGRESSION, "price")
    sides = [model(save(lambda one: one["x"]), output), model(save(lambda one: 1.5 * one["x"]), output)]
    [found] = compared(sides, files).outputs
    assert (found.improved, found.worsened, found.changed) == (COUNT, 0, COUNT)
    error, squared = found.metrics
    assert (error.before, error.after) == (pytest.approx(abs(X).mean(), 1e-4), pytest.approx(abs(X).mean() / 2, 1e-4))
    assert (error.is_better, squared.is_better) == (True, True)
    farthest = int(np.argmax(abs(X)))
    assert found.changes[0].features["city"] == f"city {farthest}"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("other features", "the first run's model: .*weight"),
        ("other labels", "the models predict different labels. First: regression: output .values. against label price"),
        ("other classes", "the models predict 3 and 4 numbers for label label"),
        ("broken model", "the second run: --model .*saved_model.pb"),
        ("no examples", "the eval split has no examples"),
        ("damaged examples", "eval.tfrecord"),
    ],
)
def test_an_impossible_comparison_says_why(
    save: Save, files: list[str], damage: str, reason: str, tmp_path: pathlib.Path
) -> None:
    sides = [model(save(lambda one: one["x"]), BINARY_OUTPUT) for _ in range(2)]
    if damage == "other features":
        sides[0] = model(save(lambda one: one["weight"], ("weight",)), BINARY_OUTPUT)
    elif damage == "other labels":
        sides[0] = model(save(lambda one: one["x"]), OutputPlan("output", REGRESSION, "price"))
    elif damage == "other classes":
        for number, width in enumerate((3, 4)):
            folder = save(lambda one, width=width: tf.nn.softmax(tf.repeat(one["x"], width, 1)))
            sides[number] = model(
                folder, OutputPlan("output", MULTICLASS, "label", classes=width, scores=PROBABILITIES)
            )
    elif damage == "broken model":
        pathlib.Path(sides[1].model, "saved_model.pb").write_bytes(b"damaged")
    else:
        path = tmp_path / "eval.tfrecord"
        path.write_bytes(b"" if damage == "no examples" else b"damaged" * 9)
        files = [str(path)]
    with pytest.raises(InputError, match=reason):
        compared(sides, files)


def test_an_error_in_the_subprocess_is_the_problem(save: Save, files: list[str]) -> None:
    sides = [model(save(lambda one: one["x"]), BINARY_OUTPUT), model("/nowhere", BINARY_OUTPUT)]
    found = run_model_comparison(sides, files, seconds=10)
    assert found.outputs == ()
    assert found.problem.startswith("the second run: --model /nowhere"), found.problem
