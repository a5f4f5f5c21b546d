"""The requirements that TFX's own Trainer tests check, applied to this Trainer.

`tests/upstream/tfx_tests.py` runs TFX's tests themselves.
"""

from __future__ import annotations

import copy
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from tfx import types
from tfx.components.trainer.executor import GenericExecutor as TfxExecutor
from tfx.components.trainer.fn_args_utils import get_common_fn_args
from tfx.dsl.components.base.executor_spec import ExecutorClassSpec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.proto import trainer_pb2
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from generic_trainer import FnArgs, GenericExecutor, ModuleError, Trainer
from generic_trainer.executors.inputs.data_accessor import DataAccessor
from generic_trainer.executors.training.artifacts import common_fn_args

# The component


def channel(kind: type) -> types.Channel:
    return types.Channel(type=kind)


@pytest.fixture
def arguments(tiny_module: str) -> dict[str, Any]:
    return {
        "module_file": tiny_module,
        "examples": channel(standard_artifacts.Examples),
        "transform_graph": channel(standard_artifacts.TransformGraph),
        "schema": channel(standard_artifacts.Schema),
    }


def require_outputs(trainer: Trainer) -> None:
    assert trainer.outputs["model"].type is standard_artifacts.Model
    assert trainer.outputs["model_run"].type is standard_artifacts.ModelRun


def test_a_module_file_and_a_custom_config_become_properties(arguments: dict[str, Any]) -> None:
    trainer = Trainer(**arguments, custom_config={"test": 10})
    require_outputs(trainer)
    assert trainer.spec.exec_properties["module_file"] == arguments["module_file"]
    assert trainer.spec.exec_properties["custom_config"] == '{"test": 10}'


def test_step_counts_may_be_pipeline_parameters(arguments: dict[str, Any]) -> None:
    file, steps = RuntimeParameter(name="module-file", ptype=str), RuntimeParameter(name="n-steps", ptype=int)
    args = {"splits": ["train"], "num_steps": steps}
    trainer = Trainer(**{**arguments, "module_file": file}, train_args=args, eval_args=args)
    require_outputs(trainer)
    assert trainer.spec.exec_properties["module_file"] is file
    assert "n-steps" in str(trainer.spec.exec_properties["train_args"])


@pytest.mark.parametrize("argument", ["run_fn", "trainer_fn"])
def test_a_function_by_its_dotted_name_becomes_a_property(
    argument: str, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    del arguments["module_file"]
    name = f"my_package.my_module.{argument}"
    trainer = Trainer(**arguments, **{argument: name}, custom_executor_spec=ExecutorClassSpec(GenericExecutor))
    require_outputs(trainer)
    assert trainer.spec.exec_properties[argument] == name
    assert trainer.spec.exec_properties.get("module_file") is None
    assert "'custom_executor_spec' is deprecated" in caplog.text


def test_raw_examples_need_no_transform_graph(arguments: dict[str, Any]) -> None:
    del arguments["transform_graph"], arguments["schema"]
    trainer = Trainer(**arguments)
    require_outputs(trainer)
    assert "transform_graph" not in trainer.inputs


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"transformed_examples": channel(standard_artifacts.Examples)}, "one of 'examples' or 'transformed_examples'"),
        (
            {"examples": None, "transformed_examples": channel(standard_artifacts.Examples), "transform_graph": None},
            "'transform_graph' must be supplied",
        ),
        ({"module_file": None}, "one of 'module_file', 'run_fn' and 'trainer_fn'"),
        ({"module_file": None, "run_fn": "a.b", "trainer_fn": "a.c"}, "run_fn='a.b', trainer_fn='a.c'"),
        ({"run_fn": "path.to.my_run_fn"}, "both name a module"),
        ({"trainer_fn": "path.to.my_trainer_fn"}, "both name a module"),
    ],
)
def test_mutually_exclusive_arguments_are_rejected(
    changes: dict[str, Any], text: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=text):
        Trainer(**{**arguments, **changes})


def test_the_old_name_of_examples_is_accepted_with_a_warning(
    arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    arguments["transformed_examples"] = arguments.pop("examples")
    trainer = Trainer(**arguments)
    assert trainer.inputs["examples"].type is standard_artifacts.Examples
    assert "'transformed_examples' is deprecated" in caplog.text


def test_hyperparameters_are_an_input(arguments: dict[str, Any]) -> None:
    trainer = Trainer(**arguments, hyperparameters=channel(standard_artifacts.HyperParameters))
    require_outputs(trainer)
    assert trainer.inputs["hyperparameters"].type is standard_artifacts.HyperParameters


def test_a_secret_in_the_configuration_causes_a_warning(
    arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    Trainer(**arguments, custom_config={"database": {"password": "hunter2"}, "num_tokens": 512})
    assert "looks like a secret, under database.password. ML Metadata" in caplog.text
    assert "hunter2" not in caplog.text
    caplog.clear()
    Trainer(**arguments, custom_config={"num_tokens": 512, "epochs": 3})
    assert caplog.text == ""


# The executor


@pytest.fixture
def artifacts(tmp_path: pathlib.Path, iris: Any) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Two Examples artifacts with custom split names, and one artifact of each other kind."""
    inputs: dict[str, list[Any]] = {"examples": []}
    for name in ("first", "second"):
        examples = standard_artifacts.Examples()
        examples.uri, examples.split_names = str(tmp_path / name), '["training", "evaluating"]'
        for split, pattern in {"training": iris.train, "evaluating": iris.eval}.items():
            (tmp_path / name).mkdir(exist_ok=True)
            os.symlink(os.path.dirname(pattern), tmp_path / name / f"Split-{split}")
        inputs["examples"].append(examples)
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "schema.pbtxt").write_text(pathlib.Path(iris.schema).read_text())
    (tmp_path / "graph").mkdir()
    model = tmp_path / "previous" / "Format-Serving"
    model.mkdir(parents=True)
    (model / "saved_model.pb").write_bytes(b"")
    (tmp_path / "hp").mkdir()
    (tmp_path / "hp" / "hyperparameters.txt").write_text(json.dumps({"layers": 4, "decay": 0.7}))
    kinds = {
        "schema": standard_artifacts.Schema,
        "transform_graph": standard_artifacts.TransformGraph,
        "base_model": standard_artifacts.Model,
        "hyperparameters": standard_artifacts.HyperParameters,
    }
    places = {"schema": "schema", "transform_graph": "graph", "base_model": "previous", "hyperparameters": "hp"}
    for key, kind in kinds.items():
        inputs[key] = [kind()]
        inputs[key][0].uri = str(tmp_path / places[key])
    outputs = {"model": [standard_artifacts.Model()], "model_run": [standard_artifacts.ModelRun()]}
    for key, [artifact] in outputs.items():
        artifact.uri = str(tmp_path / key)
    return inputs, outputs


PROPERTIES = {
    "train_args": proto_utils.proto_to_json(trainer_pb2.TrainArgs(splits=["training"], num_steps=1000)),
    "eval_args": proto_utils.proto_to_json(trainer_pb2.EvalArgs(splits=["evaluating"], num_steps=500)),
    "warm_starting": False,  # TFX's drivers add it
}

# Like TFX's own module for these tests: writes its arguments, a model for evaluation and one for serving.
MODULE = """
    import glob
    import json
    import os
    import tensorflow as tf

    NAMES = ("train_files", "eval_files", "train_steps", "eval_steps", "schema_path", "transform_graph_path",
             "base_model", "hyperparameters", "custom_config")

    class Tiny(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples):
            return {"y": tf.strings.length(examples)}

    def run_fn(fn_args):
        assert sum(len(glob.glob(pattern)) for pattern in fn_args.train_files) == 2
        os.makedirs(fn_args.model_run_dir, exist_ok=True)
        with open(os.path.join(fn_args.model_run_dir, "given.json"), "w") as file:
            json.dump({name: getattr(fn_args, name) for name in NAMES}, file)
        model = Tiny()
        for folder in (fn_args.eval_model_dir, fn_args.serving_model_dir):
            tf.saved_model.save(model, folder, signatures={"serving_default": model.serve})
"""


@pytest.mark.slow
def test_the_executors_arguments_reach_the_module(artifacts: Any, module: Callable[..., str]) -> None:
    """TFX's executor runs the same module on the same artifacts, with the same arguments and the same outputs."""
    inputs, outputs = artifacts
    properties = {**PROPERTIES, "module_file": module(MODULE, "given.py"), "custom_config": '{"epochs": 3}'}
    seen = {}
    for executor, folder in ((GenericExecutor, "ours"), (TfxExecutor, "theirs")):
        copied = copy.deepcopy(outputs)
        for key, [artifact] in copied.items():
            artifact.uri = os.path.join(outputs[key][0].uri, folder)
        executor().Do(copy.deepcopy(inputs), copied, dict(properties))
        [model], [model_run] = copied["model"], copied["model_run"]
        for name in ("Format-Serving", "Format-TFMA"):
            assert os.path.exists(os.path.join(model.uri, name, "saved_model.pb")), (folder, name)
        seen[folder] = json.loads(pathlib.Path(model_run.uri, "given.json").read_text())
    assert seen["ours"] == seen["theirs"]
    assert [os.path.basename(os.path.dirname(one)) for one in seen["ours"]["train_files"]] == ["Split-training"] * 2
    assert seen["ours"]["hyperparameters"] == {"layers": 4, "decay": 0.7}
    assert (seen["ours"]["train_steps"], seen["ours"]["eval_steps"]) == (1000, 500)


def test_an_executor_without_a_module_raises(artifacts: Any) -> None:
    with pytest.raises(ModuleError, match="no module is given"):
        GenericExecutor().Do(*artifacts, dict(PROPERTIES))
    assert not os.path.exists(artifacts[1]["model"][0].uri)


# FnArgs


def test_fn_args_equal_those_of_tfx(artifacts: Any) -> None:
    inputs, _ = artifacts
    ours, theirs = common_fn_args(inputs, PROPERTIES), get_common_fn_args(inputs, PROPERTIES, "tempdir")
    names = (
        "train_files",
        "eval_files",
        "train_steps",
        "eval_steps",
        "schema_path",
        "transform_graph_path",
        "base_model",
    )
    assert {name: getattr(ours, name) for name in names} == {name: getattr(theirs, name) for name in names}
    assert ours.train_files == [f"{one.uri}/Split-training/*" for one in inputs["examples"]]
    assert ours.base_model == os.path.join(inputs["base_model"][0].uri, "Format-Serving")
    assert isinstance(ours.data_accessor, DataAccessor)
    assert FnArgs(working_dir="tempdir").working_dir == theirs.working_dir
