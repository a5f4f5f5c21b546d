"""What signatures are fed: the same by the model check, by `predict` and by the evaluation."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.errors import InputError
from generic_trainer.executors.evaluation.inference import ExampleReader, Scorer
from generic_trainer.executors.evaluation.plan import Overrides
from generic_trainer.executors.evaluation.planning import plan_of
from generic_trainer.executors.inputs.example_files import find_example_files
from generic_trainer.executors.inputs.example_kinds import RAW, TRANSFORMED
from generic_trainer.executors.saved_models.check import CheckReport, check_saved_model
from generic_trainer.executors.saved_models.fitting_examples import kind_for
from generic_trainer.executors.saved_models.prediction.feed import feed_for
from generic_trainer.executors.saved_models.prediction.signature import load_signature
from generic_trainer.executors.saved_models.signatures import ServedInput, ServedSignature

from ...world import records

LENGTHS = tf.lookup.KeyValueTensorInitializer(["good", "bad"], [1.0, -1.0])
PIXELS = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
X = tf.io.FixedLenFeature([], tf.float32)
SCHEMA = {bytes: "BYTES", int: "INT", float: "FLOAT"}


def parsed(examples: Any, **features: Any) -> Any:
    return tf.io.parse_example(examples, features)


@tf.function
def parsed_in_vain(one: tf.Tensor) -> tf.Tensor:
    parsed(one, x=X)
    return tf.cast(tf.strings.length(one), tf.float32)


def one_by_one(examples: Any) -> Any:
    return tf.map_fn(lambda one: tf.io.parse_single_example(one, {"x": X})["x"], examples, tf.float32)


def in_dataset(examples: Any) -> Any:
    data = tf.data.Dataset.from_tensors(examples).map(lambda some: tf.io.parse_example(some, {"x": X})["x"])
    return tf.data.experimental.get_single_element(data)


def in_loop(model: Any, examples: Any, query: Any) -> Any:
    def answer(pair: Any) -> Any:
        return tf.io.parse_single_example(pair[0], {"x": X})["x"] + model.table.lookup(pair[1])

    return tf.map_fn(answer, (examples, query), fn_output_signature=tf.float32)


def in_pairs(model: Any, examples: Any, query: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices((examples, query)).batch(8)
    return tf.data.experimental.get_single_element(
        data.map(lambda records, texts: parsed(records, x=X)["x"] + model.table.lookup(texts))
    )


def in_branch(model: Any, examples: Any, query: Any) -> Any:
    return tf.cond(
        tf.size(query) > 0, lambda: parsed(examples, x=X)["x"] + model.table.lookup(query), lambda: tf.zeros([0])
    )


def selected(model: Any, examples: Any, query: Any) -> Any:
    order = tf.argsort(model.table.lookup(query))
    return parsed(tf.gather(examples, order), x=X)["x"]


def total(message: Any) -> Any:
    _, [values] = tf.io.decode_proto(message, "tensorflow.FloatList", ["value"], [tf.float32])
    return tf.reduce_sum(values, axis=1)


class Model(tf.Module):
    """One signature: `answer` of inputs with the given specs."""

    def __init__(self, answer: Callable[..., Any], specs: Mapping[str, Any]) -> None:
        super().__init__()
        self.table = tf.lookup.StaticHashTable(LENGTHS, 0.0)
        named = {name: tf.TensorSpec(*spec, name=name) for name, spec in specs.items()}

        @tf.function(input_signature=[*named.values()], autograph=False)
        def serve(*values: Any) -> dict[str, Any]:
            return {"y": answer(self, *values)}

        self.serve = serve


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of signature: its inputs and answer, the features of an example, and the right answer."""

    specs: Mapping[str, tuple[Sequence[int | None], Any]]
    answer: Callable[..., Any]
    example: Mapping[str, list[Any]]
    expected: float
    fed: str


STRINGS, FLOATS = ([None], tf.string), ([None], tf.float32)
RECORDS = "serialized records, which its graph parses"
TEXT = {"query": [b"good"], "label": [1]}
BOTH = f"input examples: {RECORDS}; input query: feature query"
TWO = {"examples": STRINGS, "query": STRINGS}
INNER = records.example(v=3.0)
V = tf.io.FixedLenFeature([], tf.float32)

KINDS = {
    "serialized examples": Kind(
        {"examples": STRINGS}, lambda _, one: parsed(one, x=X)["x"] * 2,
        {"x": [1.5], "query": [b"good"]}, 3.0, f"input examples: {RECORDS}",
    ),
    "a parsing op in a loop": Kind(
        {"query": STRINGS}, lambda _, one: one_by_one(one), {"x": [1.5], "query": [b"good"]}, 1.5,
        f"input query: {RECORDS}",
    ),
    "records after another op": Kind(
        {"query": STRINGS}, lambda _, one: parsed(tf.strings.substr(one, 0, 10**6), x=X)["x"],
        {"x": [1.5], "query": [b"good"]}, 1.5, f"input query: {RECORDS}",
    ),
    "a parsing op in a dataset": Kind(
        {"query": STRINGS}, lambda _, one: in_dataset(one), {"x": [1.5], "query": [b"good"]}, 1.5,
        f"input query: {RECORDS}",
    ),
    "one example at a time": Kind(
        {"record": ([], tf.string)},
        lambda _, one: tf.io.parse_single_example(one, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"],
        {"x": [2.5]}, 2.5, f"input record: {RECORDS}",
    ),
    "ragged features of examples": Kind(
        {"examples": STRINGS},
        lambda _, one: tf.reduce_sum(parsed(one, x=tf.io.RaggedFeature(tf.float32))["x"], axis=1),
        {"x": [1.0, 2.0, 4.0]}, 7.0, f"input examples: {RECORDS}",
    ),
    "raw strings in a table": Kind(
        {"query": STRINGS}, lambda model, one: model.table.lookup(one) * 2, TEXT, 2.0, "input query: feature query",
    ),
    "a parsing op without effect on the output": Kind(
        {"query": STRINGS}, lambda _, one: parsed_in_vain(one), {"x": [1.5], "query": [b"good"]}, 4.0,
        "input query: feature query",
    ),
    "a string under another name": Kind(
        {"text": STRINGS}, lambda model, one: model.table.lookup(one) * 2, TEXT, 2.0,
        "input text: feature query, the only one with strings",
    ),
    "bytes of images": Kind(
        {"image": STRINGS},
        lambda _, one: tf.map_fn(
            lambda png: tf.reduce_mean(tf.cast(tf.io.decode_png(png, 3), tf.float32)), one, tf.float32
        ),
        {"image": [tf.io.encode_png(PIXELS).numpy()], "label": [1], "name": [b"a.png"]}, 5.5,
        "input image: feature image",
    ),
    "a dict of features": Kind(
        {"a": FLOATS, "b_c": FLOATS}, lambda _, a, b: a - b, {"a": [3.0], "b-c": [1.0]}, 2.0,
        "input a: feature a; input b_c: feature b-c",
    ),
    "records in a loop with another text": Kind(TWO, in_loop, {"x": [1.5], "query": [b"good"]}, 2.5, BOTH),
    "records in a dataset with another text": Kind(TWO, in_pairs, {"x": [1.5], "query": [b"good"]}, 2.5, BOTH),
    "records in a branch with another text": Kind(TWO, in_branch, {"x": [1.5], "query": [b"good"]}, 2.5, BOTH),
    "records in the order of another text": Kind(TWO, selected, {"x": [1.5], "query": [b"good"]}, 1.5, BOTH),
    "examples within examples": Kind(
        {"examples": STRINGS},
        lambda _, one: parsed(parsed(one, inner=tf.io.FixedLenFeature([], tf.string))["inner"], v=V)["v"],
        {"inner": [INNER]}, 3.0, f"input examples: {RECORDS}",
    ),
    "a feature with examples": Kind(
        {"inner": STRINGS}, lambda _, one: parsed(one, v=V)["v"], {"inner": [INNER], "label": [1]}, 3.0,
        "input inner: feature inner",
    ),
    "a feature with messages": Kind(
        {"floats": STRINGS}, lambda _, one: total(one),
        {"floats": [tf.train.FloatList(value=[1.0, 2.0]).SerializeToString()], "name": [b"a"]}, 3.0,
        "input floats: feature floats",
    ),
    "floats that are whole numbers": Kind(
        {"age": ([None], tf.int64)}, lambda _, age: tf.cast(age, tf.float32) * 2, {"age": [39.0]}, 78.0,
        "input age: feature age",
    ),
    "a vector": Kind(
        {"x": ([None, 3], tf.float32)}, lambda _, x: tf.reduce_sum(x, axis=1), {"x": [1.0, 2.0, 3.0]}, 6.0,
        "input x: feature x",
    ),
    "records and a number": Kind(
        {"examples": STRINGS, "scale": FLOATS},
        lambda _, one, scale: parsed(one, x=X)["x"] * scale,
        {"x": [1.5], "scale": [4.0]}, 6.0, f"input examples: {RECORDS}; input scale: feature scale",
    ),
}  # fmt: skip


def save(folder: pathlib.Path, kind: Kind) -> str:
    model = Model(kind.answer, kind.specs)
    tf.saved_model.save(model, str(folder / "model"), signatures=model.serve)
    return str(folder / "model")


def write_examples(folder: pathlib.Path, example: Mapping[str, list[Any]]) -> str:
    """Writes the example three times, and its schema with a label `y`."""
    row, schema = {**example, "y": [0.5]}, ""
    for name, values in row.items():
        schema += (
            f'feature {{ name: "{name}" type: {SCHEMA[type(values[0])]} shape {{ dim {{ size: {len(values)} }} }} }}\n'
        )
    (folder / "schema.pbtxt").write_text(schema)
    return records.write_examples(folder / "eval", [row] * 3)


def checked(model: str, examples: str) -> CheckReport:
    return check_saved_model(model, [examples])


def write_without(feature: str, examples: str) -> None:
    """Removes a feature of the first example."""
    first, *others = (record.numpy() for record in tf.data.TFRecordDataset(examples))
    example = tf.train.Example.FromString(first)
    del example.features.feature[feature]
    records.write_records(examples, (example.SerializeToString(), *others))


def predicted(model: str, examples: str) -> float:
    signature, [file] = load_signature(model, None), find_example_files([examples])
    feed = feed_for(signature, [file])
    size = signature.batch_size or 3
    answers = [float(value) for batch in file.batches(size) for value in np.ravel(signature(feed(batch))["y"])]
    assert answers == [answers[0]] * 3
    return answers[0]


def evaluated(model: str, examples: str, folder: pathlib.Path) -> float:
    plan = plan_of(model, None, str(folder / "schema.pbtxt"), None, Overrides({"": "y"}))
    assert not plan.problem
    scorer = Scorer(plan, model, ExampleReader(None))
    records = [record.numpy() for record in tf.data.TFRecordDataset(examples)]
    return float(scorer.scores(scorer.reader.features(records))["y"][0, 0])


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_check_predict_and_evaluation_feed_the_same(tmp_path: pathlib.Path, kind: Kind) -> None:
    model, examples = save(tmp_path, kind), write_examples(tmp_path, kind.example)
    report = checked(model, examples)
    assert (report.checks["answers"], report.answer, report.fed) == ("passed", {"y": [kind.expected]}, kind.fed)
    assert report.example.startswith("the first eval example (")
    assert ("the only one with strings" in report.example) == ("the only one" in kind.fed)  # the assumption is named
    assert predicted(model, examples) == kind.expected
    assert evaluated(model, examples, tmp_path) == kind.expected


@pytest.mark.parametrize(("missing", "fed"), [("query", "input query: feature query"), ("other", "")])
def test_the_first_examples_together_decide(tmp_path: pathlib.Path, missing: str, fed: str) -> None:
    """A single example may lack a feature: then another text must not be taken for it, or for the only one."""
    kind = KINDS["raw strings in a table" if fed else "a string under another name"]
    model, examples = save(tmp_path, kind), write_examples(tmp_path, {**TEXT, "other": [b"bad"]})
    write_without(missing, examples)
    report = checked(model, examples)
    assert report.example.startswith("eval example 2 (" if fed else "an input of zeros")
    assert fed in report.fed
    with pytest.raises(InputError, match=r"row 1: (feature 'query' is missing|no feature 'text')"):
        predicted(model, examples)


@pytest.mark.parametrize(
    ("specs", "answer", "example", "named"),
    [
        ({"query": STRINGS}, lambda model, one: model.table.lookup(one) * 2, {"title": [b"good"], "body": [b"bad"]},
         r"its inputs: query \(string\)\); available features: body, title, y\."),
        ({"examples": STRINGS}, lambda _, one: parsed(tf.io.decode_base64(one), x=X)["x"], {"x": [1.0]},
         r"from which its graph parses records after DecodeBase64 .*available features: x, y\."),
        ({"ids": FLOATS, "ids_1": ([None], tf.int64)}, lambda _, ids, splits: ids[:1], {"ids": [1.0, 2.0]},
         r"no feature 'ids_1'.*its inputs: ids \(float32\), ids_1 \(int64\)\); available features: ids, y\. Did you"),
        ({"key": STRINGS}, lambda _, one: one_by_one(tf.fill(tf.shape(one), tf.constant(b""))), {"x": [1.0]},
         r"no feature 'key'"),
        ({"key": STRINGS}, lambda _, one: parsed(tf.fill(tf.shape(one), tf.constant(b"")), x=X)["x"], {"x": [1.0]},
         r"no feature 'key'"),
    ],
    ids=["ambiguous strings", "encoded records", "a ragged input", "a loop's own records", "own records"],
)  # fmt: skip
def test_inputs_that_nothing_fits_are_an_error_with_both_lists(
    tmp_path: pathlib.Path, specs: Any, answer: Any, example: Any, named: str
) -> None:
    model = save(tmp_path, Kind(specs, answer, example, 0.0, ""))
    examples = write_examples(tmp_path, example)
    assert "eval example" not in checked(model, examples).example
    with pytest.raises(InputError, match=named):
        predicted(model, examples)
    assert "no feature" in plan_of(model, None, str(tmp_path / "schema.pbtxt"), None, Overrides({"": "y"})).problem


@pytest.mark.parametrize(
    ("transforms", "raw", "transformed", "kind"),
    [
        (True, {"x": "float32"}, {"x": "float32"}, RAW),
        (True, None, {"x": "float32"}, ""),  # transformed values are not shown as raw
        (False, {"x": "float32"}, {"x": "float32"}, TRANSFORMED),
        (False, {"x": "string"}, {"x": "float32"}, TRANSFORMED),
        (False, {"x": "float32"}, {"x_scaled": "float32"}, RAW),
        (False, {"y": "float32"}, {"x_scaled": "float32"}, ""),
    ],
)
def test_the_kind_of_examples_behind_transform(transforms: bool, raw: Any, transformed: Any, kind: str) -> None:
    served = ServedInput("x", "float32", ())
    signature = ServedSignature("serving_default", (served,), (), transforms=transforms)
    tables = {RAW: raw, TRANSFORMED: transformed}
    assert kind_for(signature, {name: table for name, table in tables.items() if table is not None})[0] == kind
