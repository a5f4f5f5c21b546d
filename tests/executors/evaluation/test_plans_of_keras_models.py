"""Plans for real Keras models, of both versions: what is read off their training and their exported signatures."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.evaluation.evidence import TrainingEvidence, observed
from generic_trainer.executors.evaluation.plan import EvaluationPlan, Overrides
from generic_trainer.executors.evaluation.planning import plan_of
from generic_trainer.executors.monitoring.metrics_origin import weights_line
from generic_trainer.executors.monitoring.run_record import RunRecord

from ...world.models import save_function, save_model

tf_keras = pytest.importorskip("tf_keras")

ROWS = 16
PACKAGES = pytest.mark.parametrize("package", [tf_keras, keras], ids=["keras 2", "keras 3"])
SCHEMA = {"x": "FLOAT", "yes": "INT", "kind": "INT", "amount": "FLOAT", "word": "BYTES"}
LABELS = {
    "yes": np.arange(ROWS) % 2,
    "kind": np.arange(ROWS) % 3,
    "amount": np.arange(ROWS) / 7.0,
}


def schema(folder: pathlib.Path, **more: str) -> str:
    text = "".join(
        f'feature {{ name: "{name}" type: {kind} shape {{ dim {{ size: 1 }} }} }}\n'
        for name, kind in {**SCHEMA, **more}.items()
    )
    (folder / "schema.pbtxt").write_text(text)
    return str(folder / "schema.pbtxt")


def sample() -> dict[str, Any]:
    def facts(values: Any) -> dict[str, Any]:
        kind = "FLOAT" if values.dtype.kind == "f" else "INT"
        low, high = float(values.min()), float(values.max())
        return {"kind": kind, "least": 1, "most": 1, "lowest": low, "highest": high, "values": sorted(set(values))}

    return {"raw": {name: facts(values) for name, values in LABELS.items()}}


def data(y: Any) -> tf.data.Dataset:
    x = {"x": np.linspace(-1, 1, ROWS, dtype=np.float32)[:, None]}
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(8)


def served(model: Any, folder: pathlib.Path, name: str = "model") -> str:
    """Exports a model as TFX modules do: with a signature that parses serialized examples."""
    return save_model(model, folder / name, tracked=model)


def built(package: Any, units: int, activation: str | None) -> Any:
    inputs = {"x": package.Input((1,), name="x")}
    return package.Model(inputs, package.layers.Dense(units, activation=activation, name="answer")(inputs["x"]))


def planned(
    package: Any, folder: pathlib.Path, loss: Any, units: int, activation: str | None, label: str, y: Any
) -> EvaluationPlan:
    model = built(package, units, activation)
    model.compile("sgd", loss=loss(package) if callable(loss) else loss)
    with observed((), label_batches=2) as seen:
        model.fit(data(y), verbose=0)
    evidence = seen.evidence()
    assert evidence is not None
    again = TrainingEvidence.from_json(evidence.to_json())
    assert again == evidence
    return plan_of(served(model, folder), again, schema(folder), None, Overrides({"": label}), sample())


def own_loss(y: Any, answer: Any) -> Any:
    return tf.reduce_mean(tf.square(tf.cast(y, tf.float32) - answer))


def one_hot(values: Any, depth: int = 3) -> Any:
    return np.eye(depth, dtype=np.float32)[values]


CASES: dict[str, tuple[Any, int, str | None, str, Any, tuple[str, int, str]]] = {
    "a name": ("binary_crossentropy", 1, "sigmoid", "yes", LABELS["yes"], ("binary", 0, "probabilities")),
    "logits": (
        lambda package: package.losses.BinaryCrossentropy(from_logits=True),
        1, None, "yes", LABELS["yes"], ("binary", 0, "logits"),
    ),
    "logits by a partial": (
        lambda package: functools.partial(package.losses.binary_crossentropy, from_logits=True),
        1, None, "yes", LABELS["yes"], ("binary", 0, "logits"),
    ),
    "hinge": ("hinge", 1, "tanh", "yes", LABELS["yes"], ("binary", 0, "margins")),
    "squared error on a sigmoid": ("mse", 1, "sigmoid", "yes", LABELS["yes"], ("binary", 0, "probabilities")),
    "sparse": (
        lambda package: package.losses.SparseCategoricalCrossentropy(from_logits=True),
        3, None, "kind", LABELS["kind"], ("multiclass", 3, "logits"),
    ),
    "one-hot by the input_fn": (
        "categorical_crossentropy", 3, "softmax", "kind", one_hot(LABELS["kind"]), ("multiclass", 3, "probabilities"),
    ),
    "a function of the module's own": (
        lambda package: own_loss, 1, None, "amount", LABELS["amount"], ("regression", 0, "values"),
    ),
    "its own, on a sigmoid": (
        lambda package: own_loss, 1, "sigmoid", "yes", LABELS["yes"], ("binary", 0, "probabilities"),
    ),
    "its own, on logits": (lambda package: own_loss, 1, None, "yes", LABELS["yes"], ("binary", 0, "logits")),
    "absolute error": ("mae", 1, None, "amount", LABELS["amount"], ("regression", 0, "values")),
    "log-cosh": (
        lambda package: package.losses.LogCosh(), 1, None, "amount", LABELS["amount"], ("regression", 0, "values"),
    ),
}  # fmt: skip


@PACKAGES
@pytest.mark.parametrize("case", CASES)
def test_task_classes_and_scores_follow_from_loss_labels_and_output(
    case: str, package: Any, tmp_path: pathlib.Path
) -> None:
    loss, units, activation, label, y, expected = CASES[case]
    plan = planned(package, tmp_path, loss, units, activation, label, y)
    assert plan.problem == ""
    [one] = plan.outputs
    assert (one.task, one.classes, one.scores) == expected, plan.reasons
    assert (one.label, one.label_is_transformed, one.label_is_one_hot) == (label, False, False)
    assert (plan.signature, plan.examples, plan.takes_tensors) == ("serving_default", "raw", False)


@PACKAGES
def test_vectors_of_zeros_and_ones_are_multilabel(package: Any, tmp_path: pathlib.Path) -> None:
    y = (np.arange(ROWS * 3).reshape(ROWS, 3) % 2).astype(np.float32)
    y[0] = 1
    model = built(package, 3, "sigmoid")
    model.compile("sgd", loss="binary_crossentropy")
    with observed((), label_batches=2) as seen:
        model.fit(data(y), verbose=0)
    path = schema(tmp_path)
    with open(path, "a") as file:
        file.write('feature { name: "tags" type: INT shape { dim { size: 3 } } }')
    model_dir = served(model, tmp_path)
    plan = plan_of(model_dir, seen.evidence(), path, None, Overrides({"": "tags"}))
    [one] = plan.outputs
    assert (one.task, one.classes, one.label, one.scores) == ("multilabel", 3, "tags", "probabilities"), plan.reasons


@PACKAGES
def test_a_label_that_the_input_fn_computes_is_not_taken_for_the_feature(package: Any, tmp_path: pathlib.Path) -> None:
    plan = planned(package, tmp_path, "mse", 1, None, "amount", LABELS["amount"] * 100 + 5)
    assert plan.outputs[0].label == ""
    assert "it never has the value 5, which the model is fitted to" in plan.reasons["label"]


@PACKAGES
def test_every_output_has_its_own_label_and_task(package: Any, tmp_path: pathlib.Path) -> None:
    inputs = {"x": package.Input((1,), name="x")}
    answers = {
        "amount": package.layers.Dense(1, name="amount")(inputs["x"]),
        "yes": package.layers.Dense(1, activation="sigmoid", name="yes")(inputs["x"]),
    }
    model = package.Model(inputs, answers)
    model.compile("sgd", loss={"amount": "mae", "yes": "binary_crossentropy"})
    with observed((), label_batches=1) as seen:
        model.fit(data({"amount": LABELS["amount"], "yes": LABELS["yes"]}), verbose=0)
    plan = plan_of(served(model, tmp_path), seen.evidence(), schema(tmp_path), None, Overrides({"": "yes"}), sample())
    assert [(one.output, one.label, one.task) for one in plan.outputs] == [
        ("yes", "yes", "binary"),
        ("amount", "amount", "regression"),
    ]


def test_a_signature_of_one_tensor_per_feature_is_filled_by_name(tmp_path: pathlib.Path) -> None:
    model = built(keras, 1, "sigmoid")
    column = tf.TensorSpec([None, 1], tf.float32, name="x")
    saved = save_function(lambda x: model({"x": x}), tmp_path / "model", column, tracked=model)
    plan = plan_of(saved, None, schema(tmp_path), None, Overrides({"": "yes"}))
    assert (plan.takes_tensors, plan.examples, plan.problem) == (True, "raw", "")


def test_an_input_without_a_matching_feature_is_a_problem(tmp_path: pathlib.Path) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.export(str(tmp_path / "model"), verbose=False)
    plan = plan_of(str(tmp_path / "model"), None, schema(tmp_path), None, Overrides({"": "yes"}))
    assert "no feature 'keras_tensor" in plan.problem
    assert "export a signature" in plan.line()


def test_probabilities_are_preferred_to_classes(tmp_path: pathlib.Path) -> None:
    model = built(keras, 3, None)

    def answer(parsed: Any) -> Any:
        probabilities = tf.nn.softmax(model(parsed))
        return {"class": tf.argmax(probabilities, 1), "best": tf.reduce_max(probabilities, 1), "probs": probabilities}

    saved = save_model(answer, tmp_path / "model", tracked=model)
    plan = plan_of(saved, None, schema(tmp_path), None, Overrides({"": "kind"}))
    assert [(one.output, one.task, one.classes) for one in plan.outputs] == [("probs", "multiclass", 3)]


def test_options_take_precedence_and_are_recorded_as_the_reason(tmp_path: pathlib.Path) -> None:
    model = built(keras, 1, None)
    overrides = Overrides({"": "yes"}, task="binary", scores="logits", signature="serving_default", output="output_0")
    plan = plan_of(served(model, tmp_path), None, schema(tmp_path), None, overrides)
    assert (plan.outputs[0].task, plan.outputs[0].scores) == ("binary", "logits")
    assert plan.reasons["task"] == plan.reasons["signature"] == "asked for"


def test_an_unknown_label_is_rejected_with_the_closest_name(tmp_path: pathlib.Path) -> None:
    plan = plan_of(served(built(keras, 1, None), tmp_path), None, schema(tmp_path), None, Overrides({"": "amuont"}))
    assert plan.problem == "--label: the examples have no label feature 'amuont'. Did you mean 'amount'?"


def test_the_last_fit_counts(tmp_path: pathlib.Path) -> None:
    model = built(keras, 1, "sigmoid")
    with observed(()) as seen:
        model.compile("sgd", "mse")
        model.fit(data(LABELS["amount"]), verbose=0)
        model.compile("sgd", "binary_crossentropy", metrics=["AUC"])
        model.fit(data(LABELS["yes"]), verbose=0)
    evidence = seen.evidence()
    assert evidence is not None
    assert evidence.outputs[0].loss == "binary_crossentropy"
    assert evidence.inputs == ("x",)
    assert [name.lower() for name in evidence.metrics] == ["auc"]
    assert evidence.outputs[0].label is not None
    assert evidence.outputs[0].label.lowest is None  # nothing is read outside of a trial


@PACKAGES
@pytest.mark.parametrize(
    ("weighs", "weights", "weights_validation"),
    [
        (lambda data: {"x": data, "class_weight": {0: 1.0, 1: 5.0}, "validation_data": data}, "class_weight", False),
        (lambda data: {"x": data.map(lambda x, y: (x, y, 2.0 * x["x"]))}, "sample weights", False),
        (
            lambda data: {"x": (pairs := data.map(lambda x, y: (x, y, x["x"]))), "validation_data": pairs},
            "sample weights",
            True,
        ),
        (lambda data: {"x": data, "validation_data": data}, "", False),
    ],
)
def test_the_plan_says_that_the_weights_of_the_training_are_not_used(
    weighs: Any, weights: str, weights_validation: bool, package: Any, tmp_path: pathlib.Path
) -> None:
    model = built(package, 1, "sigmoid")
    model.compile("sgd", "binary_crossentropy")
    with observed(()) as seen:
        model.fit(**weighs(data(LABELS["yes"])), verbose=0)
    evidence = seen.evidence()
    assert evidence is not None
    evidence = TrainingEvidence.from_json(evidence.to_json())
    assert (evidence.weights, evidence.weights_validation) == (weights, weights_validation)
    summary = weights_line(RunRecord(parts={"evaluation_evidence": evidence.to_json()}))
    is_said = bool(weights) and not weights_validation
    assert summary.startswith(f"only the training has weights ({weights})") is is_said
    line = plan_of(served(model, tmp_path), evidence, schema(tmp_path), None, Overrides({"": "yes"})).line()
    assert line.endswith(f"; not weighted, as the training is by its {weights}" if weights else "raw examples")
