"""The Trainer component against TFX's: the same arguments, channels and properties, and light to import."""

from __future__ import annotations

import inspect
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tfx import types
from tfx.components import Trainer as TfxTrainer
from tfx.dsl.components.base.executor_spec import ExecutorClassSpec
from tfx.orchestration import data_types, metadata, pipeline
from tfx.orchestration.portable import python_executor_operator
from tfx.proto import trainer_pb2
from tfx.proto.orchestration import executable_spec_pb2
from tfx.types import standard_artifacts, standard_component_specs

from generic_trainer import (
    GenericExecutor,
    InputError,
    ModuleError,
    Trainer,
    TrainingOptions,
)

from ..executors.test_options import ALL
from ..world.snapshots import assert_unchanged, masked


def channel(kind: type) -> types.Channel:
    return types.Channel(type=kind)


EXAMPLES = channel(standard_artifacts.Examples)


def test_the_arguments_are_those_of_tfx_and_the_training_options() -> None:
    ours, theirs = (list(inspect.signature(cls.__init__).parameters.values())[1:] for cls in (Trainer, TfxTrainer))
    positional = [parameter.name for parameter in ours if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    expected = [parameter.name for parameter in theirs if parameter.name != "trainer_fn"]
    assert positional == ([] if "statistics" in expected else ["statistics"]) + expected
    options = {parameter.name: parameter.default for parameter in ours if parameter.kind is parameter.KEYWORD_ONLY}
    added = dict.fromkeys(("trainer_fn", "raw_examples", "train_steps", "eval_steps"))
    assert options == {**added, **vars(TrainingOptions())}


def test_inputs_outputs_and_properties_are_those_of_tfx(tiny_module: str) -> None:
    spec = standard_component_specs.TrainerSpec
    for ours, theirs in ((Trainer.SPEC_CLASS.INPUTS, spec.INPUTS), (Trainer.SPEC_CLASS.OUTPUTS, spec.OUTPUTS)):
        assert {key: (p.type, p.optional) for key, p in theirs.items()}.items() <= {
            key: (p.type, p.optional) for key, p in ours.items()
        }.items()
    assert set(spec.PARAMETERS) - {"trainer_fn"} <= set(Trainer.SPEC_CLASS.PARAMETERS)
    assert Trainer.SPEC_CLASS.TYPE_ANNOTATION is spec.TYPE_ANNOTATION
    arguments: dict[str, Any] = {
        "examples": EXAMPLES,
        "transform_graph": channel(standard_artifacts.TransformGraph),
        "schema": channel(standard_artifacts.Schema),
        "base_model": channel(standard_artifacts.Model),
        "hyperparameters": channel(standard_artifacts.HyperParameters),
        "module_file": tiny_module,
        "train_args": trainer_pb2.TrainArgs(splits=["a", "b"], num_steps=7),
        "eval_args": trainer_pb2.EvalArgs(num_steps=3),
        "custom_config": {"x": [1, {"y": None}]},
    }
    ours, theirs = Trainer(**arguments), TfxTrainer(**arguments)
    expected = {key: value for key, value in theirs.exec_properties.items() if value is not None}
    assert ours.exec_properties.items() >= expected.items()
    assert {key for key, value in ours.exec_properties.items() if value is not None} - set(expected) == {
        "module_fingerprint"
    }
    assert ours.inputs.keys() == theirs.inputs.keys()
    assert {key: c.type for key, c in ours.outputs.items()} == {key: c.type for key, c in theirs.outputs.items()}
    assert ours.id == theirs.id == "Trainer"


def test_options_become_properties_and_come_back(tiny_module: str) -> None:
    options: dict[str, Any] = {
        "isolate": False,
        "keras": "2",
        "required_signatures": ["serving_default"],
        "skip_checks": ["finite"],
        "seed": 4,
    }
    trainer = Trainer(examples=EXAMPLES, module_file=tiny_module, **options)
    read = TrainingOptions.from_exec_properties(trainer.exec_properties)
    assert read == TrainingOptions(
        isolate=False, keras="2", required_signatures=("serving_default",), skip_checks=("finite",), seed=4
    )
    with pytest.raises(InputError, match="keras='4': choose from auto, 2, 3"):
        Trainer(examples=EXAMPLES, module_file=tiny_module, keras="4")


def test_execution_properties_are_as_before(tiny_module: str) -> None:
    arguments: dict[str, Any] = {"train_steps": 7, "eval_steps": 2, "custom_config": {"x": [1]}, **vars(ALL)}
    properties = Trainer(examples=EXAMPLES, module_file=tiny_module, **arguments).exec_properties
    stored = {name: value for name, value in properties.items() if value is not None}
    text = json.dumps(masked(stored, {"MODULE": tiny_module}), indent=2, sort_keys=True)
    assert_unchanged("snapshots/execution_properties.json", text + "\n")


def test_runtime_parameters_pass_through() -> None:
    parameters = {
        name: data_types.RuntimeParameter(name=name, ptype=str)
        for name in ("module_file", "train_args", "eval_args", "custom_config")
    }
    trainer = Trainer(examples=EXAMPLES, **parameters)
    for name, parameter in parameters.items():
        assert trainer.exec_properties[name] is parameter
    assert trainer.exec_properties.get("module_fingerprint") is None


def test_the_fingerprint_follows_the_helpers(module: Callable[..., str]) -> None:
    path = module("import helpers\ndef run_fn(fn_args): pass\n", helpers="A = 1\n")
    before = Trainer(examples=EXAMPLES, module_file=path).exec_properties["module_fingerprint"]
    pathlib.Path(path).with_name("helpers.py").write_text("A = 2\n")
    assert Trainer(examples=EXAMPLES, module_file=path).exec_properties["module_fingerprint"] != before


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"examples": EXAMPLES}, ValueError, "Exactly one of 'module_file', 'run_fn' and 'trainer_fn'"),
        ({"module_file": "m.py", "run_fn": "a.b", "examples": EXAMPLES}, ValueError, "both name a module"),
        ({"run_fn": "a.b"}, ValueError, "Exactly one of 'examples' or 'transformed_examples'"),
        ({"run_fn": "a.b", "transformed_examples": EXAMPLES}, ValueError, "'transform_graph' must be supplied"),
        ({"module_file": "/nowhere.py", "examples": EXAMPLES}, ModuleError, "/nowhere.py does not exist"),
        ({"run_fn": "a.b", "examples": EXAMPLES, "custom_config": "{}"}, InputError, "must be a dict; got str"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Trainer(**arguments)


ELSEWHERE = ("/only/in/the/image/model.py", "only_in_the_image.model", "model@/only/there/code.zip")


@pytest.mark.parametrize("reference", ELSEWHERE)
def test_a_module_of_another_machine_needs_no_fingerprint(reference: str, tmp_path: pathlib.Path) -> None:
    from tfx.dsl.compiler import compiler

    importer_examples = _example_gen(tmp_path)
    examples = importer_examples.outputs["examples"]
    steps = {"train_args": trainer_pb2.TrainArgs(num_steps=1), "eval_args": trainer_pb2.EvalArgs(num_steps=1)}
    trainer = Trainer(examples=examples, module_file=reference, **steps)
    assert trainer.exec_properties.get("module_fingerprint") is None
    compiler.Compiler().compile(
        pipeline.Pipeline(
            pipeline_name="test", pipeline_root=str(tmp_path / "root"), components=[importer_examples, trainer]
        )
    )


@pytest.mark.parametrize("reference", ["missing.py", "generic_trainer.missing.run_fn"])
def test_a_misspelled_module_fails_at_once(reference: str) -> None:
    with pytest.raises(ModuleError, match="missing"):
        Trainer(examples=EXAMPLES, module_file=reference)


def test_it_compiles_to_ir_and_the_executor_comes_back(tiny_module: str, tmp_path: pathlib.Path) -> None:
    from tfx.dsl.compiler import compiler

    importer_examples = _example_gen(tmp_path)
    trainer = Trainer(
        examples=importer_examples.outputs["examples"],
        module_file=tiny_module,
        train_args=trainer_pb2.TrainArgs(num_steps=1),
        eval_args=trainer_pb2.EvalArgs(num_steps=1),
        timeout=60,
    )
    ir = compiler.Compiler().compile(
        pipeline.Pipeline(
            pipeline_name="p",
            pipeline_root=str(tmp_path),
            components=[importer_examples, trainer],
            metadata_connection_config=metadata.sqlite_metadata_connection_config(str(tmp_path / "m.sqlite")),
        )
    )
    node = next(n.pipeline_node for n in ir.nodes if n.pipeline_node.node_info.id == "Trainer")
    assert node.parameters.parameters["timeout"].field_value.double_value == 60
    spec = executable_spec_pb2.PythonClassExecutableSpec()
    assert Trainer.EXECUTOR_SPEC.encode().class_path == ("generic_trainer.executors.generic_executor.GenericExecutor")
    spec.class_path = Trainer.EXECUTOR_SPEC.encode().class_path
    operator = python_executor_operator.PythonExecutorOperator(spec)
    assert operator._executor_cls is GenericExecutor
    assert isinstance(Trainer.EXECUTOR_SPEC, ExecutorClassSpec)


def _example_gen(folder: pathlib.Path) -> Any:
    from tfx.components import CsvExampleGen

    return CsvExampleGen(input_base=str(folder))


def test_importing_it_brings_in_neither_tfx_components_nor_tfma_nor_beam() -> None:
    program = "import sys; from generic_trainer import Trainer; import json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(json.loads(done.stdout.splitlines()[-1]))
    assert "tfx.types" in imported
    assert imported.isdisjoint(
        {"tfx.components", "tensorflow_model_analysis", "apache_beam", "tensorflow_transform", "tfx.v1"}
    )


def test_it_compiles_for_kubeflow(tiny_module: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("kfp")
    import yaml
    from tfx.orchestration.kubeflow.v2 import kubeflow_v2_dag_runner as kubeflow

    example_gen = _example_gen(tmp_path)
    trainer = Trainer(examples=example_gen.outputs["examples"], module_file=tiny_module, isolate=False, seed=60)
    config = kubeflow.KubeflowV2DagRunnerConfig(default_image="registry/image", use_pipeline_spec_2_1=True)
    runner = kubeflow.KubeflowV2DagRunner(config, str(tmp_path), "pipeline.yaml")
    runner.run(pipeline.Pipeline(pipeline_name="p", pipeline_root=str(tmp_path), components=[example_gen, trainer]))
    spec = yaml.safe_load((tmp_path / "pipeline.yaml").read_text())
    container = spec["deploymentSpec"]["executors"]["Trainer_executor"]["container"]
    assert "generic_trainer.executors.generic_executor.GenericExecutor" in container["args"]
    values = spec["root"]["dag"]["tasks"]["Trainer"]["inputs"]["parameters"]
    assert values["module_file"]["runtimeValue"]["constant"] == tiny_module
    assert values["isolate"]["runtimeValue"]["constant"] == 0
    assert values["seed"]["runtimeValue"]["constant"] == 60
