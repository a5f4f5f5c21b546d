"""Plans for models behind a real Transform graph: which feature is the label, and which examples a model takes."""

from __future__ import annotations

import dataclasses
import pathlib
import types
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from generic_trainer.executors.evaluation.class_names import class_names
from generic_trainer.executors.evaluation.evidence import TrainingEvidence, observed
from generic_trainer.executors.evaluation.feature_origins import origins_of
from generic_trainer.executors.evaluation.inference import ExampleReader
from generic_trainer.executors.evaluation.plan import BINARY, MULTICLASS, EvaluationPlan, OutputPlan, Overrides
from generic_trainer.executors.evaluation.planning import plan_of
from generic_trainer.executors.fn_args import FnArgs
from generic_trainer.executors.preflight.example_facts import facts_of
from generic_trainer.executors.preflight.raw_transform import transform

ROWS = 24
TYPES = {"x": "FLOAT", "same": "FLOAT", "income": "BYTES", "kind": "INT", "tips": "FLOAT", "fare": "FLOAT"}


def preprocessing_fn(inputs: dict[str, Any]) -> dict[str, Any]:
    """Renames the label, makes it a class or one-hot, computes it from two features, and keeps a name."""
    income = tft.compute_and_apply_vocabulary(inputs["income"])
    return {
        "x_xf": tft.scale_to_z_score(inputs["x"]),
        "same": tft.scale_to_z_score(inputs["same"]),
        "target": income,
        "kind_hot": tf.one_hot(tf.squeeze(inputs["kind"], 1), 3),
        "big": tf.cast(inputs["tips"] > inputs["fare"] * 0.2, tf.int64),
        "x_log": tf.math.log1p(inputs["x"]),
    }


@dataclasses.dataclass(frozen=True)
class Transformed:
    """A Transform graph, the raw schema, what the examples hold, and the transformed examples as arrays."""

    graph: str
    schema: str
    facts: dict[str, Any]
    arrays: dict[str, Any]


@pytest.fixture(scope="module")
def transformed(tmp_path_factory: pytest.TempPathFactory) -> Transformed:
    folder = tmp_path_factory.mktemp("transform")
    schema = folder / "schema.pbtxt"
    schema.write_text(
        "".join(
            f'feature {{ name: "{name}" type: {kind} presence {{ min_fraction: 1 }} shape {{ dim {{ size: 1 }} }} }}\n'
            for name, kind in TYPES.items()
        )
    )
    records = [raw_record(number) for number in range(ROWS)]
    module = types.SimpleNamespace(preprocessing_fn=preprocessing_fn)
    splits = {"train": records, "eval": records[:6]}
    graph, made = transform(module, splits, str(schema), FnArgs(train_files=[], eval_files=[]), str(folder))  # type: ignore[arg-type]
    spec = tft.TFTransformOutput(graph).transformed_feature_spec()
    parsed = tf.io.parse_example(made["train"], spec)
    facts = {
        "raw": {name: fact.summary() for name, fact in facts_of(records).items()},
        "transformed": {name: fact.summary() for name, fact in facts_of(made["train"]).items()},
    }
    return Transformed(graph, str(schema), facts, {name: value.numpy() for name, value in parsed.items()})


def raw_record(number: int) -> bytes:
    def floats(value: float) -> tf.train.Feature:
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))

    features = {
        "x": floats(number / 3),
        "same": floats(number / 5),
        "income": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"<=50K" if number % 3 else b">50K"])),
        "kind": tf.train.Feature(int64_list=tf.train.Int64List(value=[number % 3])),
        "tips": floats(number % 5),
        "fare": floats(10.0),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def fitted(transformed: Transformed, y: Any, loss: str, units: int, activation: str | None, name: str = "x_xf") -> Any:
    inputs = {name: keras.Input((1,), name=name)}
    model = keras.Model(inputs, keras.layers.Dense(units, activation=activation)(inputs[name]))
    model.compile("sgd", loss)
    x = {name: transformed.arrays[name]}
    with observed((), label_batches=2) as seen:
        model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(8), verbose=0)
    evidence = seen.evidence()
    assert evidence is not None
    return model, evidence


def served(
    model: Any,
    transformed: Transformed,
    folder: pathlib.Path,
    *,
    raw: bool,
    name: str = "x_xf",
    convert: Callable[[Any], Any] = tf.identity,
) -> str:
    """Exports a model for raw examples, with the Transform graph in its own, or for transformed ones."""
    graph = tft.TFTransformOutput(transformed.graph)
    model.tft_layer = graph.transform_features_layer()
    spec = graph.raw_feature_spec() if raw else {name: graph.transformed_feature_spec()[name]}
    for label in ("income", "kind", "tips"):
        spec.pop(label, None)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples: Any) -> Any:
        features = tf.io.parse_example(examples, spec)
        if raw:
            features = model.tft_layer(features)
        return {"outputs": convert(model({name: features[name]}))}

    tf.saved_model.save(model, str(folder / "model"), signatures=serve)
    return str(folder / "model")


def planned(
    transformed: Transformed, model: str, label: str, evidence: TrainingEvidence | None = None
) -> EvaluationPlan:
    overrides = Overrides({"": label})
    return plan_of(model, evidence, transformed.schema, transformed.graph, overrides, transformed.facts)


def test_origins_are_found_in_the_graph(transformed: Transformed) -> None:
    assert origins_of(f"{transformed.graph}/transform_fn") == {
        "x_xf": {"x"},
        "same": {"same"},
        "target": {"income"},
        "kind_hot": {"kind"},
        "big": {"tips", "fare"},
        "x_log": {"x"},
    }


@pytest.mark.parametrize(
    ("raw", "feature", "loss", "units", "activation", "expected"),
    [
        ("income", "target", "binary_crossentropy", 1, "sigmoid", ("binary", 0, False)),
        ("target", "target", "binary_crossentropy", 1, "sigmoid", ("binary", 0, False)),
        ("kind", "kind_hot", "categorical_crossentropy", 3, "softmax", ("multiclass", 3, True)),
        ("tips", "big", "binary_crossentropy", 1, "sigmoid", ("binary", 0, False)),
    ],
)
def test_the_label_is_the_transformed_feature_that_the_model_is_fitted_to(
    raw: str, feature: str, loss: str, units: int, activation: str, expected: Any, transformed: Transformed,
    tmp_path: pathlib.Path,
) -> None:  # fmt: skip
    model, evidence = fitted(transformed, transformed.arrays[feature], loss, units, activation)
    plan = planned(transformed, served(model, transformed, tmp_path, raw=True), raw, evidence)
    [one] = plan.outputs
    assert (one.label, one.label_is_transformed) == (feature, True), plan.reasons
    assert (one.task, one.classes, one.label_is_one_hot) == expected
    assert plan.examples == "raw"


@pytest.mark.parametrize(("convert", "label"), [(tf.identity, "x_log"), (tf.math.expm1, "x")])
def test_an_output_that_the_export_converts_back_is_compared_with_the_raw_label(
    convert: Callable[[Any], Any], label: str, transformed: Transformed, tmp_path: pathlib.Path
) -> None:
    with observed((), label_batches=2) as seen:
        model, _ = fitted(transformed, transformed.arrays["x_log"], "mse", 1, None)
        path = served(model, transformed, tmp_path, raw=True, convert=convert)
    plan = planned(transformed, path, "x", seen.evidence())
    [output] = plan.outputs
    assert (output.label, output.label_is_transformed) == (label, label == "x_log"), plan.reasons


def test_a_label_that_the_input_fn_changes_again_is_neither_of_the_two(
    transformed: Transformed, tmp_path: pathlib.Path
) -> None:
    model, evidence = fitted(transformed, transformed.arrays["big"] * 7.0 - 3.0, "mse", 1, None)
    plan = planned(transformed, served(model, transformed, tmp_path, raw=True), "tips", evidence)
    assert plan.outputs[0].label == ""
    assert "feature 'big'" in plan.reasons["label"]
    assert "feature 'tips'" in plan.reasons["label"]
    assert not plan.compares


def test_a_string_label_that_only_raw_examples_have_gives_no_label(
    transformed: Transformed, tmp_path: pathlib.Path
) -> None:
    model, evidence = fitted(transformed, transformed.arrays["big"], "binary_crossentropy", 1, "sigmoid")
    without = dataclasses.replace(transformed, facts={})
    plan = plan_of(
        served(model, without, tmp_path, raw=True), evidence, transformed.schema, None, Overrides({"": "income"})
    )
    assert plan.outputs[0].label == ""
    assert plan.outputs[0].task == "binary"  # by its loss; the compiled metrics remain
    assert "it has dtype string" in plan.line()


def test_a_signature_of_transformed_features_takes_transformed_examples(
    transformed: Transformed, tmp_path: pathlib.Path
) -> None:
    model, evidence = fitted(transformed, transformed.arrays["target"], "binary_crossentropy", 1, "sigmoid")
    plan = planned(transformed, served(model, transformed, tmp_path, raw=False), "income", evidence)
    assert (plan.examples, plan.takes_tensors, plan.outputs[0].label) == ("transformed", False, "target")


@pytest.mark.parametrize("raw", [True, False])
def test_features_of_the_same_name_and_type_are_distinguished_by_the_graph(
    raw: bool, transformed: Transformed, tmp_path: pathlib.Path
) -> None:
    model, evidence = fitted(
        transformed, transformed.arrays["target"], "binary_crossentropy", 1, "sigmoid", name="same"
    )
    graph = tft.TFTransformOutput(transformed.graph)
    model.tft_layer = graph.transform_features_layer()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples: Any) -> Any:
        features = tf.io.parse_example(examples, {"same": tf.io.FixedLenFeature([1], tf.float32)})
        return model({"same": model.tft_layer(features)["same"] if raw else features["same"]})

    tf.saved_model.save(model, str(tmp_path / "model"), signatures=serve)
    plan = planned(transformed, str(tmp_path / "model"), "income", evidence)
    assert plan.examples == ("raw" if raw else "transformed"), plan.reasons


def test_classes_are_named_after_the_raw_labels(transformed: Transformed) -> None:
    features = ExampleReader(transformed.graph).features([raw_record(number) for number in range(ROWS)])
    outputs = (
        OutputPlan("income", BINARY, "target", label_is_transformed=True),
        OutputPlan("kind", MULTICLASS, "kind_hot", label_is_transformed=True, label_is_one_hot=True),
        OutputPlan("computed", BINARY, "big", label_is_transformed=True),
        OutputPlan("number", MULTICLASS, "x_xf", label_is_transformed=True),
        OutputPlan("raw", MULTICLASS, "kind"),
    )
    assert class_names(features, EvaluationPlan(outputs=outputs), transformed.graph) == {
        "income": {"0": "<=50K", "1": ">50K"},
        "kind": {"0": "0", "1": "1", "2": "2"},
    }


def test_without_a_fit_the_transformed_label_is_taken(transformed: Transformed, tmp_path: pathlib.Path) -> None:
    model, _ = fitted(transformed, transformed.arrays["target"], "binary_crossentropy", 1, "sigmoid")
    plan = planned(transformed, served(model, transformed, tmp_path, raw=True), "income")
    [one] = plan.outputs
    assert (one.label, one.task, one.scores) == ("target", "binary", "probabilities"), plan.reasons


def test_a_misspelled_label_is_rejected_with_the_closest_name(transformed: Transformed, tmp_path: pathlib.Path) -> None:
    model, _ = fitted(transformed, np.zeros(ROWS), "mse", 1, None)
    plan = planned(transformed, served(model, transformed, tmp_path, raw=True), "incone")
    assert (
        "neither the raw nor the transformed examples have a label feature 'incone'. Did you mean 'income'?"
        in plan.problem
    )
