"""Labels that a training converts itself: the mapping is read off its tf.data pipeline, whatever its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.evaluation.decision import make_plan
from generic_trainer.executors.evaluation.evidence import LabelEvidence, OutputEvidence, TrainingEvidence
from generic_trainer.executors.evaluation.features import ExampleFeatures, Feature
from generic_trainer.executors.evaluation.label_mapping import LabelMapping, label_mappings
from generic_trainer.executors.evaluation.plan import EvaluationPlan, Overrides
from generic_trainer.executors.saved_models.signatures import ServedInput, ServedOutput, ServedSignature

from ...world.records import write_examples

ROWS = 60
SPECIES = [b"setosa", b"versicolor", b"virginica"]
SPEC = {
    "species": tf.io.FixedLenFeature([], tf.string),
    "code": tf.io.FixedLenFeature([], tf.int64),
    "x": tf.io.FixedLenFeature([], tf.float32),
}
TARGETS = {"setosa": 2, "versicolor": 0, "virginica": 1}
CODES = {10: 2, 20: 0, 30: 1}

Pipeline = Callable[[str], tf.data.Dataset]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = (
        {"species": SPECIES[row % 3], "code": 10 * (row % 3 + 1), "color": ["red", "blue"][row % 2], "x": float(row)}
        for row in range(ROWS)
    )
    return write_examples(tmp_path_factory.mktemp("data") / "train.tfrecord", rows)


def table(keys: Any = SPECIES, targets: Any = (2, 0, 1)) -> Any:
    pairs = tf.lookup.KeyValueTensorInitializer(keys, tf.constant(targets, tf.int64))
    return tf.lookup.StaticHashTable(pairs, -1)


def parsed_one_by_one(path: str) -> tf.data.Dataset:
    lookup = table()

    def parse(record: Any) -> Any:
        found = tf.io.parse_single_example(record, SPEC)
        return found["x"] / 10, lookup.lookup(found["species"])

    return tf.data.TFRecordDataset(path).map(parse).shuffle(ROWS).batch(7).repeat()


def parsed_in_batches(path: str) -> tf.data.Dataset:
    lookup = tf.keras.layers.StringLookup(vocabulary=["versicolor", "virginica", "setosa"], num_oov_indices=0)

    def parse(records: Any) -> Any:
        found = tf.io.parse_example(records, SPEC)
        return {"x": found["x"]}, lookup(found["species"])

    files = tf.data.Dataset.list_files(path)
    return files.interleave(tf.data.TFRecordDataset).shuffle(ROWS).batch(16).map(parse, 2).prefetch(1)


def one_hot_after_a_filter(path: str) -> tf.data.Dataset:
    examples = parsed_in_batches(path).unbatch().filter(lambda x, y: x["x"] > 3).cache()
    return examples.batch(8).map(lambda x, y: (x, tf.one_hot(y, 3)))


def dicts_of_features(path: str) -> tf.data.Dataset:
    lookup = table()
    batches = tf.data.experimental.make_batched_features_dataset(path, 9, SPEC, label_key="species", num_epochs=1)
    return batches.map(lambda x, y: (x, {"kind": lookup.lookup(y), "x": x["x"]}))


@pytest.mark.parametrize(
    ("pipeline", "key"),
    [
        (parsed_one_by_one, "0"),
        (parsed_in_batches, "0"),
        (one_hot_after_a_filter, "0"),
        (dicts_of_features, "kind"),
    ],
)
def test_values_and_targets_of_the_same_rows_are_paired(records: str, pipeline: Pipeline, key: str) -> None:
    mappings = {one.feature: one for one in label_mappings(pipeline(records))[key]}

    assert dict(mappings["species"].pairs) == TARGETS
    assert dict(mappings["code"].pairs) == CODES
    if "color" in mappings:
        assert "converts its value" in mappings["color"].conflict


def test_arrays_in_memory_have_names_too() -> None:
    lookup = table()
    features = {"species": np.array(SPECIES * 20), "x": np.arange(60.0)}
    data = tf.data.Dataset.from_tensor_slices(features).shuffle(60).batch(8)

    mapping, *others = label_mappings(data.map(lambda found: (found["x"], lookup.lookup(found["species"]))))["0"]

    assert [other.feature for other in others if not other.conflict] == []
    assert (mapping.feature, dict(mapping.pairs), mapping.rows) == ("species", TARGETS, 60)


def test_rows_of_a_python_generator_are_not_read_again() -> None:
    reads = []

    def generate() -> Any:
        reads.append(1)
        yield from SPECIES

    data = tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([], tf.string)).batch(2)

    assert label_mappings(data.map(lambda species: (species, tf.strings.length(species)))) == {}
    assert not reads


def test_numbers_of_texts_are_targets_too(records: str) -> None:
    data = parsed_in_batches(records)

    mappings = {one.feature: one for one in label_mappings(data.map(lambda x, y: (x, tf.cast(y, tf.float32) / 2)))["0"]}

    assert dict(mappings["species"].pairs) == {"versicolor": 0, "virginica": 0.5, "setosa": 1}
    assert label_mappings(data.map(lambda x, y: (x, tf.one_hot(y, 3) / 2)))["0"] == ()


@pytest.mark.parametrize(
    ("target", "has_scale", "conversion"),
    [
        (lambda x: tf.math.log1p(x), True, ""),
        (lambda x: (x - 30.0) / 20.0, True, ""),
        (lambda x: tf.cast(x > 20.0, tf.int32), False, "the training converts its numbers, such as 1 to 0"),
        (lambda x: tf.cast(x, tf.float16), False, ""),
        (lambda x: tf.minimum(x, 50.0), False, ""),  # the label, without outliers
    ],
)
def test_a_number_that_is_converted_has_a_scale_or_is_no_label(
    records: str, target: Any, has_scale: bool, conversion: str
) -> None:
    parsed = tf.data.TFRecordDataset(records).batch(7).map(lambda record: tf.io.parse_example(record, SPEC))

    mappings = label_mappings(parsed.map(lambda found: (found["code"], target(found["x"]))))["0"]

    mapping = next((one for one in mappings if one.feature == "x"), None)
    assert (mapping.conflict if mapping else "") == conversion
    assert bool(mapping and mapping.scale) is has_scale


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("count", "has_scale"), [(50, True), (5, False)])
def test_labels_with_equal_values_have_a_scale_if_enough_differ(sign: float, count: int, has_scale: bool) -> None:
    """The last digit of a logarithm depends on the row's place in its batch."""
    prices = np.random.default_rng(1).permutation(np.repeat(np.arange(1, count + 1), 300 // count))
    rows = tf.data.Dataset.from_tensor_slices({"price": prices}).batch(7)

    [mapping] = label_mappings(rows.map(lambda row: (1, sign * tf.math.log1p(tf.cast(row["price"], tf.float32)))))["0"]

    values = np.array(mapping.scale)
    assert (len(values) > 0, mapping.conflict == "") == (has_scale, has_scale)
    assert not has_scale or set(values[:, 0]) == set(prices)
    assert not has_scale or np.allclose(values[:, 1], sign * np.log1p(values[:, 0]))


FITTED, CONVERTED = "serve:dense/BiasAdd:0", "serve:Expm1:0"


@pytest.mark.parametrize(
    ("tensor", "sources", "label"),
    [
        (FITTED, {FITTED}, ""),  # the fitted output, a logarithm
        (CONVERTED, {CONVERTED, FITTED}, "price"),
        (CONVERTED, {CONVERTED, "serve:examples:0"}, ""),  # of another tensor in the same function
    ],
)
def test_a_converted_number_is_the_label_of_what_the_export_converts_back(
    tensor: str, sources: set[str], label: str
) -> None:
    y = LabelEvidence("float32", (), mappings=(LabelMapping("price", rows=60, conflict="…, such as 9 to 2.3"),))
    trained = OutputEvidence("p", loss="mean_squared_error", label=y, tensors=(FITTED,))
    served = ServedSignature(
        "serving_default",
        (ServedInput("x", "float32", ()),),
        (ServedOutput("p", "float32", (1,), tensors=(tensor,), sources=frozenset(sources)),),
    )
    features = ExampleFeatures({name: Feature(name, "float32") for name in ("x", "price")})

    plan = make_plan(TrainingEvidence((trained,), ("x",)), [served], features, Overrides({"": "price"}))

    assert plan.outputs[0].label == label
    assert label or "such as 9 to 2.3" in plan.reasons["label"]


def plan_for(label: str, *mappings: LabelMapping, inputs: tuple[str, ...] = ("x",)) -> EvaluationPlan:
    evidence = LabelEvidence("int64", (), mappings=mappings)
    seen = TrainingEvidence((OutputEvidence("p", loss="sparse_categorical_crossentropy", label=evidence),), inputs)
    features = ExampleFeatures({"x": Feature("x", "float32"), "species": Feature("species", "string")})
    served = ServedSignature(
        "serving_default", (ServedInput("x", "float32", ()),), (ServedOutput("p", "float32", (3,), "Softmax"),)
    )
    overrides = Overrides({"": label} if label else {})
    return make_plan(TrainingEvidence.from_json(seen.to_json()), [served], features, overrides)


SEEN = LabelMapping("species", (("versicolor", 0), ("virginica", 1), ("setosa", 2), ("unknown", 2)), rows=60)


@pytest.mark.parametrize("label", ["species", ""])
def test_the_plan_has_the_mapping_of_the_label(label: str) -> None:
    plan = plan_for(label, SEEN)

    [output] = EvaluationPlan.from_json(plan.to_json()).outputs
    assert (output.label, output.task, output.label_values) == ("species", "multiclass", SEEN.pairs)
    assert output.class_names() == {"0": "versicolor", "1": "virginica"}, "two values are class 2"


def test_the_plan_says_why_there_is_no_mapping() -> None:
    plan = plan_for("species", LabelMapping("species", rows=60, conflict="the training converts its value 'a' to …"))

    assert plan.outputs[0].label == ""
    assert "raw feature 'species': the training converts its value 'a' to …" in plan.reasons["label"]


@pytest.mark.parametrize(
    "mappings",
    [
        (SEEN, LabelMapping("code", ((10, 0), (20, 1)), rows=60)),  # which of them?
        (LabelMapping("species", (("versicolor", 0), ("virginica", 1)), rows=3),),  # by chance?
        (LabelMapping("x", ((5, 0), (6, 1)), rows=60),),  # an input of the model
    ],
)
def test_no_label_is_guessed(mappings: tuple[LabelMapping, ...]) -> None:
    assert plan_for("", *mappings).outputs[0].label == ""
