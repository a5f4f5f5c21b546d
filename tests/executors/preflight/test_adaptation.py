"""A check finds out how a module has to be fed: raw or transformed examples, a schema with or without shapes."""

from __future__ import annotations

import json
import pathlib
import random
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import FnArgs
from generic_trainer.executors.inputs.example_kinds import RAW
from generic_trainer.executors.inputs.message_text import closest_names
from generic_trainer.executors.preflight.adaptation import NO, YES, Outcome, Settings, alternatives
from generic_trainer.executors.preflight.attempts import Attempts, Trial
from generic_trainer.executors.preflight.check import check
from generic_trainer.executors.preflight.request import CheckRequest
from generic_trainer.executors.preflight.verdicts import FAILED, PASSED, Report, Verdict

Write = Callable[..., str]

TRAINER = """
    import tensorflow as tf
    import tensorflow_transform as tft
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tensorflow_transform.tf_metadata import schema_utils

    {preprocessing}

    def raw_spec(fn_args):
        schema = text_format.Parse(tf.io.gfile.GFile(fn_args.schema_path).read(), schema_pb2.Schema())
        return schema_utils.schema_as_feature_spec(schema).feature_spec

    def dataset(patterns, fn_args):
        files = tf.data.TFRecordDataset(tf.io.gfile.glob(patterns), "GZIP")
        {dataset}

    def run_fn(fn_args):
        model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1, activation="sigmoid")])
        model.compile("adam", "binary_crossentropy")
        model.fit(dataset(fn_args.train_files, fn_args).repeat(), steps_per_epoch=4,
                  validation_data=dataset(fn_args.eval_files, fn_args), validation_steps=1)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(examples):
            size = tf.io.VarLenFeature(tf.float32)
            sizes = tf.sparse.to_dense(tf.io.parse_example(examples, {{"size": size}})["size"])
            return {{"y": model(tf.reshape(sizes, [-1, 1]))}}

        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=serve)
"""
SCALED = """
    def preprocessing_fn(inputs):
        return {"size_xf": tft.scale_to_z_score(inputs["size"]), "big_xf": inputs["big"]}
"""
SAME_NAMES = """
    def preprocessing_fn(inputs):
        return {"size": tft.scale_to_z_score(inputs["size"]), "big": inputs["big"]}
"""
SPARSE_ONLY = """
    def _fill_in_missing(x):
        dense = tf.sparse.to_dense(tf.SparseTensor(x.indices, x.values, [x.dense_shape[0], 1]))
        return tf.squeeze(dense, axis=1)

    def preprocessing_fn(inputs):
        size, big = _fill_in_missing(inputs["size"]), _fill_in_missing(inputs["big"])
        return {"size_xf": tft.scale_to_z_score(size), "big_xf": big}
"""
# Each returns batches of (size, big).
BY_LAYER = """
        layer = tft.TFTransformOutput(fn_args.transform_output).transform_features_layer()
        parsed = files.batch(10).map(lambda batch: layer(tf.io.parse_example(batch, raw_spec(fn_args))))
        return parsed.map(lambda batch: (batch["size{suffix}"], batch["big{suffix}"]))
"""
BY_RAW_SCHEMA = """
        specs = {"size": tf.io.VarLenFeature(tf.float32), "big": tf.io.VarLenFeature(tf.int64)}
        dense = lambda one: tf.reshape(tf.sparse.to_dense(one), [-1, 1])
        parsed = files.batch(10).map(lambda batch: tf.io.parse_example(batch, specs))
        return parsed.map(lambda batch: (dense(batch["size"]), dense(batch["big"])))
"""
TRANSFORMED = """
        spec = tft.TFTransformOutput(fn_args.transform_output).transformed_feature_spec()
        parsed = files.batch(10).map(lambda batch: tf.io.parse_example(batch, spec))
        return parsed.map(lambda batch: (batch["size_xf"], batch["big_xf"]))
"""
SPARSE_INPUT = """
        parsed = files.batch(10).map(lambda batch: tf.io.parse_example(batch, raw_spec(fn_args)))
        return parsed.map(lambda batch: tuple(tf.sparse.to_dense(batch[name]) for name in ("size", "big")))
"""
SPARSE_BY_ATTRIBUTE = """
        parsed = files.batch(10).map(lambda batch: tf.io.parse_example(batch, raw_spec(fn_args)))
        return parsed.map(lambda batch: tuple(tf.reshape(batch[name].values, [-1, 1]) for name in ("size", "big")))
"""


def source(dataset: str, preprocessing: str = "") -> str:
    return TRAINER.format(preprocessing=preprocessing.strip(), dataset=dataset.strip())


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a CSV file: a size, and whether it is big."""
    rng = random.Random(0)
    rows = [(size, int(size > 0)) for size in (rng.gauss(0, 1) for _ in range(90))]
    path = tmp_path_factory.mktemp("sizes") / "a.csv"
    path.write_text("size,big\n" + "".join(f"{size:.4f},{big}\n" for size, big in rows))
    return str(path.parent)


def checked(path: str, data: str, **request: Any) -> tuple[Report, list[Verdict]]:
    shown: list[Verdict] = []
    request = {"label": "big", **request}
    return check(CheckRequest(path, FnArgs([], []), data=data, **request), shown.append), shown


def adapted(report: Report) -> dict[str, Any]:
    return {name: value for name, value in report.findings.items() if name != "evaluation_plan"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (source(BY_LAYER.format(suffix="_xf"), SCALED), "parses big, size, which only the raw"),
        (source(BY_RAW_SCHEMA, SCALED), "parses big, size, which only the raw"),
        (source(BY_LAYER.format(suffix=""), SAME_NAMES), "applies the Transform graph itself"),
    ],
    ids=["it transforms in its input_fn", "nothing fails: features are empty", "names are the same"],
)
def test_a_module_that_reads_raw_examples_gets_them(text: str, why: str, module: Write, sizes: str) -> None:
    report, shown = checked(module(text), sizes)
    assert report.passed, report.to_json()
    assert adapted(report) == {"train_examples": RAW}
    verdict = report.get("adaptation")
    assert why in verdict.text
    assert "--train-examples raw" in verdict.text
    assert any("retrying with raw examples" in one.text for one in shown)
    assert not any(one.status == FAILED for one in shown)  # what the first attempt said is not final
    assert len({(one.item, one.text) for one in shown}) == len(shown)
    assert "label big: 0, 1" in report.get("examples").text
    assert adapted(Report.from_json(report.to_json())) == {"train_examples": RAW}


@pytest.mark.thorough_but("preprocessing_fn")
@pytest.mark.parametrize(
    "text",
    [source(TRANSFORMED, SPARSE_ONLY), source(SPARSE_INPUT), source(SPARSE_BY_ATTRIBUTE)],
    ids=["preprocessing_fn", "to_dense in the input_fn", "attributes in the input_fn"],
)
def test_a_module_for_sparse_features_gets_a_schema_without_shapes(text: str, module: Write, sizes: str) -> None:
    report, _ = checked(module(text), sizes)
    assert report.passed, report.to_json()
    assert adapted(report) == {"schema_shapes": NO}
    assert "--schema-shapes no" in report.get("adaptation").text


@pytest.mark.thorough_but("dense")
@pytest.mark.parametrize("text", [source(BY_RAW_SCHEMA), source(SPARSE_INPUT)], ids=["dense", "sparse"])
def test_a_module_without_transform_parses_its_examples(text: str, module: Write, sizes: str) -> None:
    report, _ = checked(module(text), sizes)
    assert report.passed, report.to_json()
    assert "train_examples" not in adapted(report)


@pytest.mark.thorough
def test_folders_are_named_as_below_a_pipelines_root(module: Write, sizes: str) -> None:
    """Some modules take these paths apart."""
    looks = """
        root, _, _ = fn_args.serving_model_dir.partition("/Trainer/model/")
        assert fn_args.model_run_dir.startswith(f"{root}/Trainer/model_run/")
        for split in ("train", "eval"):
            assert f"/Split-{split}/" in getattr(fn_args, f"{split}_files")[0]
        assert "/SchemaGen/schema/" in fn_args.schema_path
        assert "/Transform/transform_graph/" in fn_args.transform_output
        model = """
    text = source(TRANSFORMED, SCALED).replace("\n        model = ", looks, 1)
    report, _ = checked(module(text), sizes)
    assert report.passed, report.to_json()


@pytest.mark.thorough
def test_validation_data_without_an_end_are_warned_of(module: Write, sizes: str) -> None:
    endless = "validation_data=dataset(fn_args.eval_files, fn_args).repeat(), validation_steps=0)"
    text = source(BY_RAW_SCHEMA).replace(
        "validation_data=dataset(fn_args.eval_files, fn_args), validation_steps=1)", endless
    )
    assert endless in text
    report, _ = checked(module(text), sizes)
    assert report.passed, report.to_json()
    assert "infinite validation data (repeated), and validation_steps is not set, or 0" in report.get("evaluation").text
    assert "Set validation_steps" in report.get("evaluation").remedy


@pytest.mark.thorough
def test_a_module_may_need_both(module: Write, sizes: str) -> None:
    report, _ = checked(module(source(SPARSE_INPUT, SPARSE_ONLY)), sizes)
    assert report.passed, report.to_json()
    assert adapted(report) == {"train_examples": RAW, "schema_shapes": NO}


@pytest.mark.thorough_but("of Keras 2")
@pytest.mark.parametrize(
    ("imports", "old", "new", "keras"),
    [
        ("", "tf.keras.Input((1,))", "tf.keras.layers.InputLayer(shape=(1,))", "3"),
        ("tensorflow_transform", "validation_steps=1)", "validation_steps=1, workers=1)", "2"),
    ],
    ids=["of Keras 3", "of Keras 2"],
)
def test_a_module_for_another_keras_than_its_imports_tell_gets_it(
    imports: str, old: str, new: str, keras: str, module: Write, sizes: str
) -> None:
    text = source(BY_RAW_SCHEMA).replace(old, new)
    assert new in text
    lines = [line for line in text.splitlines() if not imports or imports not in line]
    report, shown = checked(module("\n".join(lines)), sizes)
    assert report.passed, report.to_json()
    assert adapted(report) == {"keras": keras}
    assert f"--keras {keras}" in report.get("adaptation").text
    assert any(f"retrying with Keras {keras}: the error is raised inside Keras" in one.text for one in shown)


@pytest.mark.thorough
def test_what_is_asked_for_is_not_changed(module: Write, sizes: str) -> None:
    path = module(source(BY_LAYER.format(suffix="_xf"), SCALED))
    forced, shown = checked(path, sizes, train_examples=RAW)
    assert forced.passed, forced.to_json()
    assert adapted(forced) == {}
    assert forced.get("adaptation") is None
    refused, _ = checked(path, sizes, train_examples="transformed")
    assert not refused.passed
    assert "--train-examples raw" in refused.get("adaptation").remedy
    assert not any("retrying" in one.text for one in shown)


@pytest.mark.thorough
def test_of_attempts_that_all_fail_the_one_that_went_furthest_is_reported(module: Write, sizes: str) -> None:
    wrong = SPARSE_ONLY.replace("tft.scale_to_z_score(size)", "inputs['sizes']")
    report, shown = checked(module(source(TRANSFORMED, wrong)), sizes)
    assert report.first_failure.item == "transform"
    assert "sizes" in report.first_failure.text  # behind the line that fails on dense tensors
    assert adapted(report) == {}
    assert [one for one in shown if one.status == FAILED] == [report.first_failure]


def test_an_attempt_that_passes_what_another_failed_at_went_further() -> None:
    def attempt(settings: Settings, report: Report, add: Callable[[Verdict], None]) -> Trial:
        needs_sparse = Verdict("transform", FAILED, "TypeError: Input must be a SparseTensor.", exit_code=1)
        lacks_feature = Verdict("hyperparameters", FAILED, "KeyError: 'Soil_xf'", exit_code=1)
        if settings.schema_shapes == NO:
            add(Verdict("transform", PASSED, "2 features"))
        failure = lacks_feature if settings.schema_shapes == NO else needs_sparse
        add(failure)
        return Trial(Outcome(failure, {}, {}), {}, "", {})

    report = Report("trainer.py")
    Attempts(attempt, report, lambda verdict: None).run(Settings(), ("schema_shapes",))
    assert report.first_failure.text == "KeyError: 'Soil_xf'"


@pytest.mark.thorough
def test_a_signature_for_raw_examples_is_asked_a_real_one(module: Write, sizes: str) -> None:
    """It would answer a transformed one, too: the features that it parses may be absent."""
    report, _ = checked(module(source(TRANSFORMED, SCALED)), sizes)
    assert report.passed, report.to_json()
    # One example has one size: of a transformed one, which has none, the reshaped batch is empty.
    assert re.search(r"prediction for an eval example: y=\[0?\.\d+\]", report.get("SavedModel").text), report.to_json()


def _outcome(text: str, item: str = "training") -> Outcome:
    return Outcome(Verdict(item, FAILED, text, exit_code=1, error={"type": "x"}), {}, {})


@pytest.mark.parametrize(
    ("outcome", "others"),
    [
        (_outcome("NameError: name 'x' is not defined"), []),
        (_outcome("KeyError: 'x'", "transform"), []),
        (_outcome("KeyError: 'x'", "signatures"), []),
        (_outcome("KeyError: 'x'"), [Settings(RAW, YES)]),
        (_outcome("TypeError: Input must be a SparseTensor.", "transform"), [Settings(schema_shapes=NO)]),
        (Outcome(None, {"parsed": {"a": "INT"}}, {RAW: {"a": "INT"}, "transformed": {"a": "INT"}}), []),
        (
            Outcome(None, {"parsed": {"a": "BYTES"}}, {RAW: {"a": "BYTES"}, "transformed": {"a": "INT"}}),
            [Settings(RAW)],
        ),
        (Outcome(None, {"parsed": {"other": "INT"}}, {RAW: {"a": "INT"}}), []),
        (Outcome(None, {"parsed": {"other": "INT"}}, {RAW: {"a": "INT"}, "transformed": {"b": "INT"}}), []),
    ],
)
def test_another_attempt_is_made_only_where_it_may_help(outcome: Outcome, others: list[Settings]) -> None:
    found = [settings for settings, _ in alternatives(Settings(), outcome, ("train_examples", "schema_shapes"))]
    assert found == others


def _with_keras(version: str, is_certain: bool) -> Outcome:
    """Returns the outcome of a module that may need another Keras version, and of which a tensor may be sparse."""
    other = {"version": version, "reason": "an error", "is_certain": is_certain}
    error = {"attributes": {"restart_with": json.dumps(other)}}
    verdict = Verdict("model", FAILED, "AttributeError: no attribute 'indices'", exit_code=2, error=error)
    return Outcome(verdict, {}, {})


@pytest.mark.parametrize(("is_certain", "others"), [(True, ["2"]), (False, ["", "2"])])
def test_another_keras_is_tried_alone_if_it_is_needed_else_last(is_certain: bool, others: list[str]) -> None:
    outcome, adjustable = _with_keras("2", is_certain), ("keras", "schema_shapes")
    assert [settings.keras for settings, _ in alternatives(Settings(), outcome, adjustable)] == others
    assert not list(alternatives(Settings(), outcome, ()))
    assert not list(alternatives(Settings(keras="3"), outcome, ("keras",)))


def test_few_names_are_the_closest_ones() -> None:
    names = [f"feature_{number}" for number in range(32)]
    assert closest_names(names[:3]) == "feature_0, feature_1, feature_2"
    assert closest_names(names).endswith("feature_4 and 27 more")
    assert closest_names([*names, "labels"], near="label").startswith("labels, ")


@pytest.mark.thorough_but("no shapes for Transform")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (source(BY_LAYER.format(suffix="_xf"), SCALED), "--train-examples raw"),
        (source(SPARSE_INPUT), "--schema-shapes no"),
        (source(TRANSFORMED, SPARSE_ONLY), "The steps run again"),
    ],
    ids=["raw examples", "no shapes", "no shapes for Transform"],
)
def test_run_takes_over_what_the_check_found(
    text: str, line: str, module: Write, sizes: str, tmp_path: pathlib.Path,
    command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:  # fmt: skip
    arguments = ["run", "--data", sizes, "--module-file", module(text), "--pipeline-root", tmp_path / "root"]
    done = command(*arguments, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert line in done.stderr
    assert len(list((tmp_path / "root" / "serving").iterdir())) == 1
    again = command(*arguments, "--no-check")
    assert "From the cache:" in again.stdout, again.stdout + again.stderr
    assert "Trainer" in again.stdout.partition("From the cache:")[2].splitlines()[0]
