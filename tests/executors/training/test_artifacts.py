"""From artifacts `FnArgs` is filled as TFX's own trainer fills it, and from more than TFX understands."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import attr
import pytest
from ml_metadata.proto import metadata_store_pb2
from tensorflow_metadata.proto.v0 import statistics_pb2
from tfx import types
from tfx.types import artifact_utils, standard_artifacts
from tfx.utils import json_utils

from generic_trainer import FnArgs, InputError
from generic_trainer.executors.examples_format import PROTO, SEQUENCE_EXAMPLE, TF_EXAMPLE
from generic_trainer.executors.inputs.parquet.format import PARQUET
from generic_trainer.executors.training.artifacts import Artifacts, fn_args_from_artifacts, parse_custom_config

STEPS = {"train_args": '{"num_steps": 100}', "eval_args": '{"num_steps": 5}'}


@pytest.fixture
def outputs(tmp_path: pathlib.Path) -> Artifacts:
    return {
        "model": [artifact(standard_artifacts.Model, tmp_path / "model")],
        "model_run": [artifact(standard_artifacts.ModelRun, tmp_path / "model_run")],
    }


@pytest.fixture
def examples(tmp_path: pathlib.Path) -> types.Artifact:
    return examples_at(tmp_path / "examples")


def artifact(kind: type[types.Artifact], folder: pathlib.Path, **custom: Any) -> types.Artifact:
    made = kind()
    made.uri = str(folder)
    for name, value in custom.items():
        made.set_json_value_custom_property(name, value)
    return made


def as_resolved(made: types.Artifact) -> types.Artifact:
    """Returns the artifact as one that comes from MLMD and says no version: TFX takes it for one from before 0.29."""
    made.mlmd_artifact.state = metadata_store_pb2.Artifact.LIVE
    return made


def examples_at(
    folder: pathlib.Path, splits: Sequence[str] = ("train", "eval"), prefix: str = "Split-", **custom: str
) -> types.Artifact:
    for split in splits:
        write(folder / f"{prefix}{split}" / "data-0.gz", "")
    made = artifact(standard_artifacts.Examples, folder)
    made.split_names = artifact_utils.encode_split_names(list(splits))
    for name, value in custom.items():
        made.set_string_custom_property(name, value)
    return made


def write(path: pathlib.Path, text: str) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def write_statistics(folder: pathlib.Path, counts: dict[str, int]) -> types.Artifact:
    """Writes statistics as StatisticsGen does: a FeatureStats.pb for each split."""
    for split, count in counts.items():
        found = statistics_pb2.DatasetFeatureStatisticsList()
        found.datasets.add(num_examples=count)
        path = folder / f"Split-{split}" / "FeatureStats.pb"
        path.parent.mkdir(parents=True)
        path.write_bytes(found.SerializeToString())
    made = artifact(standard_artifacts.ExampleStatistics, folder)
    made.split_names = artifact_utils.encode_split_names(list(counts))
    return made


def comparable(fn_args: Any) -> dict[str, Any]:
    """Returns what TFX's FnArgs declares, and num_examples, which it sets without declaring it."""
    from tfx.components.trainer import fn_args_utils

    names = [field.name for field in attr.fields(fn_args_utils.FnArgs) if field.name != "data_accessor"]
    return {name: getattr(fn_args, name) for name in [*names, "num_examples"] if hasattr(fn_args, name)}


def filled_as_by_tfx(inputs: Artifacts, outputs: Artifacts, properties: dict[str, Any]) -> FnArgs:
    """Returns our FnArgs after having compared it with what TFX's executor makes of the same artifacts."""
    from tfx.components.trainer import executor as tfx_trainer

    ours = fn_args_from_artifacts(inputs, outputs, properties)
    theirs = tfx_trainer.GenericExecutor()._GetFnArgs(inputs, outputs, properties)
    expected = comparable(theirs)
    assert {name: comparable(ours)[name] for name in expected} == expected
    return ours


def refused(inputs: Artifacts, outputs: Artifacts, properties: dict[str, Any]) -> str:
    """Returns what is said against the inputs."""
    with pytest.raises(InputError) as caught:
        fn_args_from_artifacts(inputs, outputs, properties)
    return str(caught.value)


class TestExamples:
    def test_default_splits_are_train_and_eval(self, examples: types.Artifact, outputs: Artifacts) -> None:
        fn_args = filled_as_by_tfx({"examples": [examples]}, outputs, STEPS)

        assert fn_args.train_files == [f"{examples.uri}/Split-train/*"]
        assert fn_args.eval_files == [f"{examples.uri}/Split-eval/*"]

    def test_splits_may_be_named(self, tmp_path: pathlib.Path, outputs: Artifacts) -> None:
        examples = examples_at(tmp_path / "examples", ["a", "b", "c"])
        properties = {"train_args": '{"splits": ["a", "b"]}', "eval_args": '{"splits": ["c"]}'}

        fn_args = filled_as_by_tfx({"examples": [examples]}, outputs, properties)

        assert [os.path.basename(os.path.dirname(pattern)) for pattern in fn_args.train_files] == ["Split-a", "Split-b"]

    def test_several_artifacts_give_a_pattern_each_split_by_split(
        self, tmp_path: pathlib.Path, outputs: Artifacts
    ) -> None:
        spans = [examples_at(tmp_path / name, ["a", "b", "eval"]) for name in ("span1", "span2")]
        properties = {**STEPS, "train_args": '{"splits": ["a", "b"]}'}

        fn_args = filled_as_by_tfx({"examples": spans}, outputs, properties)

        assert len(fn_args.train_files) == 4
        assert len(fn_args.eval_files) == 2

    def test_folders_without_split_in_front_are_found(self, tmp_path: pathlib.Path, outputs: Artifacts) -> None:
        old = as_resolved(examples_at(tmp_path / "old", prefix=""))

        fn_args = filled_as_by_tfx({"examples": [old]}, outputs, STEPS)

        assert fn_args.train_files == [f"{old.uri}/train/*"]

    def test_custom_split_patterns_are_honoured(self, tmp_path: pathlib.Path, outputs: Artifacts) -> None:
        from tfx.components.util import examples_utils

        name, value = examples_utils.get_custom_split_patterns_key_and_property(
            {"train": "2024/*/*.gz", "eval": "2025/*.gz"}
        )
        examples = examples_at(tmp_path / "examples", **{name: value})

        fn_args = fn_args_from_artifacts({"examples": [examples]}, outputs, STEPS)

        for split, patterns in (("train", fn_args.train_files), ("eval", fn_args.eval_files)):
            assert patterns == examples_utils.get_split_file_patterns([examples], split)

    def test_a_split_that_a_custom_pattern_lacks_is_refused(self, tmp_path: pathlib.Path, outputs: Artifacts) -> None:
        examples = examples_at(tmp_path / "examples", custom_split_pattern='{"train": "2024/*", "evaluation": "x/*"}')

        said = refused({"examples": [examples]}, outputs, STEPS)

        assert "'eval'" in said
        assert "evaluation, train" in said

    def test_without_the_property_splits_are_those_on_disk(self, examples: types.Artifact, outputs: Artifacts) -> None:
        examples.split_names = ""

        fn_args = fn_args_from_artifacts({"examples": [examples]}, outputs, STEPS)

        assert fn_args.eval_files == [f"{examples.uri}/Split-eval/*"]

    def test_a_split_that_does_not_exist_is_named_with_what_there_is(
        self, examples: types.Artifact, outputs: Artifacts
    ) -> None:
        said = refused({"examples": [examples]}, outputs, {**STEPS, "train_args": '{"splits": ["trian"]}'})

        assert "'trian'" in said
        assert examples.uri in said
        assert "eval, train" in said
        assert "Did you mean 'train'?" in said

    def test_a_split_that_one_artifact_lacks_is_named_with_the_artifact(
        self, tmp_path: pathlib.Path, outputs: Artifacts
    ) -> None:
        spans = [examples_at(tmp_path / "span1"), examples_at(tmp_path / "span2", ["train"])]

        said = refused({"examples": spans}, outputs, STEPS)

        assert "'eval'" in said
        assert str(tmp_path / "span2") in said
        assert str(tmp_path / "span1") not in said

    @pytest.mark.parametrize("inputs", [{}, {"examples": []}])
    def test_no_examples_are_refused(self, inputs: Artifacts, outputs: Artifacts) -> None:
        assert "'examples' is missing" in refused(inputs, outputs, STEPS)


class TestPayloadFormat:
    @pytest.mark.parametrize("payload", [TF_EXAMPLE, SEQUENCE_EXAMPLE, PROTO, PARQUET])
    def test_it_is_read_from_the_artifact(self, tmp_path: pathlib.Path, outputs: Artifacts, payload: str) -> None:
        from tfx.components.util import examples_utils

        examples = examples_at(tmp_path / "examples", payload_format=payload)

        fn_args = fn_args_from_artifacts({"examples": [examples]}, outputs, STEPS)

        assert fn_args.examples_format.payload == examples_utils.get_payload_format_string(examples) == payload

    def test_it_is_tf_example_when_the_artifact_does_not_say(
        self, examples: types.Artifact, outputs: Artifacts
    ) -> None:
        from tfx.components.util import examples_utils

        fn_args = fn_args_from_artifacts({"examples": [examples]}, outputs, STEPS)

        assert fn_args.examples_format.payload == examples_utils.get_payload_format_string(examples)

    def test_different_ones_are_refused_with_what_each_artifact_has(
        self, tmp_path: pathlib.Path, outputs: Artifacts
    ) -> None:
        spans = [
            examples_at(tmp_path / "span1", payload_format=PARQUET),
            examples_at(tmp_path / "span2", payload_format=TF_EXAMPLE),
        ]

        said = refused({"examples": spans}, outputs, STEPS)

        for expected in ("payload_format", "span1", PARQUET, "span2", TF_EXAMPLE):
            assert expected in said

    def test_an_unknown_one_is_refused(self, tmp_path: pathlib.Path, outputs: Artifacts) -> None:
        examples = examples_at(tmp_path / "examples", payload_format="FORMAT_UNSPECIFIED")

        said = refused({"examples": [examples]}, outputs, STEPS)

        assert "FORMAT_UNSPECIFIED" in said
        assert PARQUET in said
        assert examples.uri in said

    @pytest.mark.parametrize("as_int", [False, True], ids=["new", "legacy"])
    def test_the_newest_data_view_is_taken(self, tmp_path: pathlib.Path, outputs: Artifacts, as_int: bool) -> None:
        from tfx.components.experimental.data_view import constants
        from tfx.components.util import tfxio_utils

        spans = []
        for name, created in (("z_oldest", 5), ("newest", 20), ("old", 10)):
            span = examples_at(tmp_path / name, payload_format=PROTO)
            span.set_string_custom_property(constants.DATA_VIEW_URI_PROPERTY_KEY, f"view_{name}")
            if as_int:
                span.set_int_custom_property(constants.DATA_VIEW_CREATE_TIME_KEY, created)
            else:
                span.set_string_custom_property(constants.DATA_VIEW_CREATE_TIME_KEY, str(created))
            spans.append(span)

        fn_args = fn_args_from_artifacts({"examples": spans}, outputs, STEPS)

        assert fn_args.examples_format.data_view == "view_newest"
        assert tfxio_utils.resolve_payload_format_and_data_view_uri(spans)[1] == "view_newest"

    def test_protos_without_a_data_view_are_left_to_the_module(
        self, tmp_path: pathlib.Path, outputs: Artifacts
    ) -> None:
        examples = examples_at(tmp_path / "examples", payload_format=PROTO)

        fn_args = fn_args_from_artifacts({"examples": [examples]}, outputs, STEPS)

        assert fn_args.examples_format.data_view is None

    def test_a_data_view_on_some_artifacts_only_is_refused(self, tmp_path: pathlib.Path, outputs: Artifacts) -> None:
        spans = [
            examples_at(tmp_path / "span1", payload_format=PROTO, data_view_uri="v"),
            examples_at(tmp_path / "span2", payload_format=PROTO),
        ]

        assert "DataView" in refused({"examples": spans}, outputs, STEPS)


class TestSteps:
    @pytest.mark.parametrize(
        ("train_args", "expected"), [('{"num_steps": 7}', 7), ('{"num_steps": 0}', None), ("{}", None)]
    )
    def test_zero_steps_mean_no_limit(
        self, examples: types.Artifact, outputs: Artifacts, train_args: str, expected: int | None
    ) -> None:
        properties = {"train_args": train_args, "eval_args": train_args}

        fn_args = filled_as_by_tfx({"examples": [examples]}, outputs, properties)

        assert (fn_args.train_steps, fn_args.eval_steps) == (expected, expected)

    @pytest.mark.parametrize(("steps", "expected"), [(7, 7), (7.0, 7), ("7", 7), (0, None), ("", 100), (None, 100)])
    def test_a_number_of_its_own_comes_before_the_one_in_train_args(
        self, examples: types.Artifact, outputs: Artifacts, steps: Any, expected: int | None
    ) -> None:
        fn_args = fn_args_from_artifacts({"examples": [examples]}, outputs, {**STEPS, "train_steps": steps})

        assert (fn_args.train_steps, fn_args.eval_steps) == (expected, 5)

    @pytest.mark.parametrize("steps", [-1, 1.5, "many", "nan", "1e300", 2**70, 10**400])
    def test_what_is_no_number_of_steps_is_refused(
        self, examples: types.Artifact, outputs: Artifacts, steps: Any
    ) -> None:
        said = refused({"examples": [examples]}, outputs, {**STEPS, "eval_steps": steps})

        assert f"eval_steps={steps!r}: expected a whole number" in said

    def test_missing_arguments_mean_no_limit(self, examples: types.Artifact, outputs: Artifacts) -> None:
        fn_args = fn_args_from_artifacts({"examples": [examples]}, outputs, {})

        assert (fn_args.train_steps, fn_args.eval_steps) == (None, None)

    @pytest.mark.parametrize("key", ["train_args", "eval_args"])
    @pytest.mark.parametrize("value", ["100 steps", '{"steps": 5}', '{"num_steps": "many"}', "3"])
    def test_what_is_not_such_a_json_object_is_refused_with_an_example(
        self, examples: types.Artifact, outputs: Artifacts, key: str, value: str
    ) -> None:
        said = refused({"examples": [examples]}, outputs, {**STEPS, key: value})

        assert key in said
        assert repr(value) in said
        assert "num_steps" in said


class TestCustomConfig:
    @pytest.mark.parametrize(
        "config",
        [
            None,
            {},
            {"rate": 0.1, "layers": [8, 8], "name": "a"},
            # A TFX object inside of the configuration becomes that object again.
            {"stats": statistics_pb2.DatasetFeatureStatistics(num_examples=3)},
        ],
    )
    def test_it_is_what_the_author_passed(self, examples: types.Artifact, outputs: Artifacts, config: Any) -> None:
        properties = {**STEPS, "custom_config": json_utils.dumps(config)}

        assert filled_as_by_tfx({"examples": [examples]}, outputs, properties).custom_config == config

    def test_it_may_be_missing(self, examples: types.Artifact, outputs: Artifacts) -> None:
        assert filled_as_by_tfx({"examples": [examples]}, outputs, STEPS).custom_config is None

    @pytest.mark.parametrize("value", [None, ""])
    def test_nothing_is_none(self, value: str | None) -> None:
        assert parse_custom_config(value) is None

    def test_a_dict_is_taken_as_it_is(self) -> None:
        assert parse_custom_config({"rate": 0.1}) == {"rate": 0.1}

    @pytest.mark.parametrize("value", ["[1, 2]", '"rate"', "3"])
    def test_another_json_value_is_refused(self, value: str) -> None:
        with pytest.raises(InputError, match="custom_config must be a JSON object") as caught:
            parse_custom_config(value)

        assert value in str(caught.value)

    @pytest.mark.parametrize("value", ["{rate: 1}", "rate=1", '{"__tfx_object_type__": "rate"'])
    def test_what_is_not_json_is_refused(self, value: str) -> None:
        with pytest.raises(InputError, match="is not JSON") as caught:
            parse_custom_config(value)

        assert repr(value) in str(caught.value)

    def test_a_class_that_cannot_be_found_is_refused(self) -> None:
        value = '{"x": {"__tfx_object_type__": "class", "__module__": "no_such_module", "__class__": "C"}}'

        with pytest.raises(InputError, match="no_such_module"):
            parse_custom_config(value)


class TestOtherInputs:
    def test_everything_wired_is_filled_as_by_tfx(
        self, tmp_path: pathlib.Path, examples: types.Artifact, outputs: Artifacts
    ) -> None:
        write(tmp_path / "schema" / "schema.pbtxt", "")
        write(tmp_path / "best" / "best_hyperparameters.txt", '{"space": [], "values": {"rate": 0.1}}')
        write(tmp_path / "base" / "Format-Serving" / "saved_model.pb", "")
        inputs = {
            "examples": [examples],
            "schema": [artifact(standard_artifacts.Schema, tmp_path / "schema")],
            "transform_graph": [artifact(standard_artifacts.TransformGraph, tmp_path / "graph")],
            "hyperparameters": [artifact(standard_artifacts.HyperParameters, tmp_path / "best")],
            "base_model": [artifact(standard_artifacts.Model, tmp_path / "base")],
            "statistics": [write_statistics(tmp_path / "statistics", {"train": 120, "eval": 30})],
        }

        fn_args = filled_as_by_tfx(inputs, outputs, STEPS)

        assert fn_args.schema_path == str(tmp_path / "schema" / "schema.pbtxt")
        assert fn_args.transform_graph_path == str(tmp_path / "graph")
        assert fn_args.hyperparameters == {"space": [], "values": {"rate": 0.1}}
        assert fn_args.base_model == str(tmp_path / "base" / "Format-Serving")
        assert fn_args.num_examples == {"train": 120, "eval": 30}

    def test_nothing_wired_is_none_as_in_tfx(self, examples: types.Artifact, outputs: Artifacts) -> None:
        fn_args = filled_as_by_tfx({"examples": [examples]}, outputs, STEPS)

        assert fn_args.schema_path is fn_args.base_model is fn_args.transform_graph_path is fn_args.hyperparameters
        assert not hasattr(fn_args, "num_examples")

    def test_outputs_are_where_tfx_puts_them(
        self, tmp_path: pathlib.Path, examples: types.Artifact, outputs: Artifacts
    ) -> None:
        fn_args = filled_as_by_tfx({"examples": [examples]}, outputs, STEPS)

        assert fn_args.serving_model_dir == str(tmp_path / "model" / "Format-Serving")
        assert fn_args.model_run_dir == str(tmp_path / "model_run")

    def test_a_split_without_statistics_is_left_out(
        self, tmp_path: pathlib.Path, examples: types.Artifact, outputs: Artifacts
    ) -> None:
        statistics = write_statistics(tmp_path / "statistics", {"train": 120})
        statistics.split_names = artifact_utils.encode_split_names(["train", "eval"])

        fn_args = fn_args_from_artifacts({"examples": [examples], "statistics": [statistics]}, outputs, STEPS)

        assert fn_args.num_examples == {"train": 120}

    @pytest.mark.parametrize(
        ("files", "found"), [(["a.pbtxt", "b.pbtxt"], "a.pbtxt, b.pbtxt"), ([], "none")], ids=["two", "none"]
    )
    @pytest.mark.parametrize("key", ["schema", "hyperparameters"])
    def test_an_artifact_that_must_hold_one_file_is_refused_with_what_it_holds(
        self,
        tmp_path: pathlib.Path,
        examples: types.Artifact,
        outputs: Artifacts,
        key: str,
        files: list[str],
        found: str,
    ) -> None:
        folder = tmp_path / key
        for name in files:
            write(folder / name, "")

        said = refused({"examples": [examples], key: [artifact(standard_artifacts.Schema, folder)]}, outputs, STEPS)

        assert f"{key} artifact {folder}" in said
        assert f"found {found}" in said

    @pytest.mark.parametrize(("text", "reason"), [("{", "is not JSON"), ("[]", "must hold a JSON object")])
    def test_hyperparameters_that_are_no_json_object_are_refused(
        self, tmp_path: pathlib.Path, examples: types.Artifact, outputs: Artifacts, text: str, reason: str
    ) -> None:
        path = write(tmp_path / "best" / "best.txt", text)
        best = artifact(standard_artifacts.HyperParameters, tmp_path / "best")

        said = refused({"examples": [examples], "hyperparameters": [best]}, outputs, STEPS)

        assert reason in said
        assert str(path) in said

    def test_two_artifacts_where_one_is_meant_are_refused(
        self, tmp_path: pathlib.Path, examples: types.Artifact, outputs: Artifacts
    ) -> None:
        models = [artifact(standard_artifacts.Model, tmp_path / name) for name in ("one", "two")]

        said = refused({"examples": [examples], "base_model": models}, outputs, STEPS)

        assert "base_model: expected one artifact, got 2" in said

    def test_a_base_model_without_a_saved_model_is_refused(
        self, tmp_path: pathlib.Path, examples: types.Artifact, outputs: Artifacts
    ) -> None:
        said = refused(
            {"examples": [examples], "base_model": [artifact(standard_artifacts.Model, tmp_path / "empty")]},
            outputs,
            STEPS,
        )

        assert f"base_model {tmp_path / 'empty'}: no SavedModel" in said


def test_what_was_filled_crosses_to_another_process(
    tmp_path: pathlib.Path, examples: types.Artifact, outputs: Artifacts
) -> None:
    inputs = {"examples": [examples], "statistics": [write_statistics(tmp_path / "statistics", {"train": 120})]}
    fn_args = fn_args_from_artifacts(inputs, outputs, {**STEPS, "custom_config": '{"rate": 0.1}'})

    assert FnArgs.from_json(json.loads(json.dumps(fn_args.to_json()))) == fn_args
