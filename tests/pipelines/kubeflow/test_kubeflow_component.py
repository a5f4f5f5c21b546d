"""The Kubeflow component: compiled by kfp, filled in as its driver does, and run as its container's command."""

# Without `from __future__ import annotations`: kfp wants a pipeline's types themselves.
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from typing import Any

import pytest

kfp = pytest.importorskip("kfp", reason="needs the extra kfp")
import yaml  # noqa: E402
from google.protobuf import json_format  # noqa: E402
from kfp import compiler, components, dsl  # noqa: E402
from kfp.local import executor_output_utils, placeholder_utils  # noqa: E402
from kfp.pipeline_spec import pipeline_spec_pb2  # noqa: E402

from generic_trainer.pipelines.kubeflow import component as kubeflow_component  # noqa: E402
from generic_trainer.pipelines.kubeflow.component import trainer_component, trainer_op  # noqa: E402

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
FAILING = """
    def run_fn(fn_args):
        raise ValueError("the <b>labels</b> are gone")
"""
CONTINUING = """
    import os

    import tensorflow as tf

    def run_fn(fn_args):
        saved = os.path.join(fn_args.base_model, "saved_model.pb")
        assert os.path.exists(saved), saved
        tf.saved_model.save(tf.saved_model.load(fn_args.base_model), fn_args.serving_model_dir)
"""
WAITING = """
    import pathlib, time

    def run_fn(fn_args):
        pathlib.Path(fn_args.custom_config["mark"]).touch()
        time.sleep(600)
"""


class Step:
    """A pipeline's task `trainer` in one run: its ExecutorInput, and the command that Kubeflow starts for it."""

    def __init__(
        self, pipeline: Any, root: pathlib.Path, artifacts: Mapping[str, str], arguments: Mapping[str, Any]
    ) -> None:
        file = root / "pipeline.yaml"
        root.mkdir(parents=True, exist_ok=True)
        compiler.Compiler().compile(pipeline, str(file))
        components.load_component_from_file(str(file))
        ir = yaml.safe_load(file.read_text())
        task = ir["root"]["dag"]["tasks"]["trainer"]
        component = ir["components"][task["componentRef"]["name"]]
        self.container = ir["deploymentSpec"]["executors"][component["executorLabel"]]["container"]
        values = {
            name: spec["defaultValue"]
            for name, spec in component["inputDefinitions"]["parameters"].items()
            if "defaultValue" in spec
        }
        for name, given in task.get("inputs", {}).get("parameters", {}).items():
            parameter = given.get("componentInputParameter")
            values[name] = arguments[parameter] if parameter else given["runtimeValue"]["constant"]

        def listed(name: str, uri: str, kind: str) -> dict[str, Any]:
            schema = component[kind]["artifacts"][name]["artifactType"]
            return {"artifacts": [{"name": name, "uri": uri, "type": schema, "metadata": {}}]}

        wired = task.get("inputs", {}).get("artifacts", {})
        assert set(wired) == set(artifacts)
        outputs = component["outputDefinitions"]["artifacts"]
        content = {
            "inputs": {
                "parameterValues": values,
                "artifacts": {name: listed(name, uri, "inputDefinitions") for name, uri in artifacts.items()},
            },
            "outputs": {
                "artifacts": {name: listed(name, str(root / name), "outputDefinitions") for name in outputs},
                "outputFile": str(root / "executor_output.json"),
            },
        }
        self.executor_input = json_format.ParseDict(content, pipeline_spec_pb2.ExecutorInput())
        self.component = json_format.ParseDict(component, pipeline_spec_pb2.ComponentSpec())
        line = placeholder_utils.replace_placeholders(
            [*self.container["command"], *self.container["args"]],
            json_format.MessageToDict(self.executor_input),  # what the launcher has: the JSON of the message
            *("run", "trainer", str(root), "1"),
        )
        assert line[0] == "python3"
        self.line = [sys.executable, *line[1:]]
        self.root = root

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.line,
            **{"capture_output": True, "text": True, "check": False, "timeout": 600},
            cwd=self.root,
            env={**os.environ, **environment},
        )

    def outputs(self) -> dict[str, Any]:
        """Reads the output file as kfp does; a field that it does not know is an error."""
        return executor_output_utils.get_outputs_for_task(self.executor_input, self.component)


@pytest.fixture(scope="module")
def iris_folder(iris: Any) -> pathlib.Path:
    return pathlib.Path(iris.schema).parent


@dsl.pipeline(name="iris")
def iris_pipeline(examples_uri: str, schema_uri: str, module: str, steps: int):
    examples = dsl.importer(artifact_uri=examples_uri, artifact_class=dsl.Dataset)
    schema = dsl.importer(artifact_uri=schema_uri, artifact_class=dsl.Artifact)
    trainer_op(
        examples=examples.output,
        schema=schema.output,
        module=module,
        train_steps=steps,
        seed=7,
        custom_config={"batch_size": 16, "learning_rate": 0.02},
        required_signatures=["serving_default"],
    ).set_memory_limit("4G").set_retry(2)


@pytest.mark.slow
def test_a_pipelines_step_trains_and_leaves_everything_where_kubeflow_looks(
    iris: Any, iris_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    given = {
        "module": str(REPOSITORY / "module_files" / "iris_keras.py"),
        "steps": 200,
        "examples_uri": str(iris_folder),
        "schema_uri": iris.schema,
    }
    # The folder holds train/, eval/ and the schema, and the artifact says nothing about itself.
    step = Step(iris_pipeline, tmp_path / "run", {"examples": str(iris_folder), "schema": iris.schema}, given)
    done = step.run()
    assert done.returncode == 0, done.stderr
    assert f"Training examples: {iris_folder}/train/*" in done.stderr
    assert f"Model published to {tmp_path}/run/model." in done.stderr
    outputs = step.outputs()

    model = outputs["model"]
    assert isinstance(model, dsl.Model)
    assert model.framework == "TensorFlow"
    assert model.metadata["saved_model"] == model.uri == str(tmp_path / "run" / "model")
    assert (pathlib.Path(model.path) / "saved_model.pb").exists()
    assert (model.metadata["dialect"], model.metadata["signatures"]) == ("run_fn", "serving_default")
    assert "loads: passed; answers: passed" in model.metadata["checks"]
    assert model.metadata["size_bytes"] == sum(
        file.stat().st_size for file in pathlib.Path(model.path).rglob("*") if file.is_file()
    )
    _ask_iris(model.path, iris)

    assert isinstance(outputs["metrics"], dsl.Metrics)
    accuracy = outputs["metrics"].metadata["eval/accuracy"]
    assert 0.8 < accuracy <= 1.0
    assert json.loads((tmp_path / "run" / "metrics").read_text())["eval"]["accuracy"] == accuracy
    assert model.metadata["eval/accuracy"] == accuracy

    page = (tmp_path / "run" / "report").read_text()
    assert isinstance(outputs["report"], dsl.HTML)
    assert f"{accuracy:.5g}" in page
    assert "iris_keras.py" in page
    assert "default-src 'none'" in page  # nothing to load from anywhere

    logs = pathlib.Path(outputs["tensorboard"].path)
    record = json.loads((logs / "run.json").read_text())
    assert record["status"] == "succeeded"
    assert outputs["tensorboard"].metadata["run_id"] == record["id"]
    assert record["arguments"]["train_steps"] == 200
    assert record["arguments"]["custom_config"] == {"batch_size": 16, "learning_rate": 0.02}
    assert isinstance(record["arguments"]["custom_config"]["batch_size"], int)  # protobuf has 16.0
    assert list(logs.rglob("events.out.tfevents.*"))
    assert not list(logs.rglob("ckpt-*"))
    assert sorted(os.listdir(step.root)) == sorted([*outputs, "executor_output.json", "pipeline.yaml"])


def _ask_iris(folder: str, iris: Any) -> None:
    import tensorflow as tf

    [file] = tf.io.gfile.glob(iris.eval)
    records = list(tf.data.TFRecordDataset(file, "GZIP").take(5).as_numpy_iterator())
    answer = tf.saved_model.load(folder).signatures["serving_default"](examples=tf.constant(records))
    assert answer["probabilities"].shape == (5, 3)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_module_comes_as_text_and_its_model_is_the_next_ones_base(
    iris: Any, tiny_module: str, tmp_path: pathlib.Path
) -> None:
    @dsl.pipeline(name="text")
    def from_text():
        trainer_component("registry/trainer:1")(
            module_text=pathlib.Path(tiny_module).read_text(),
            train_files=[iris.train],
            eval_files=[iris.eval],
            serving_version=7,
        )

    step = Step(from_text, tmp_path / "first", {}, {})
    assert step.container["image"] == "registry/trainer:1"
    done = step.run()
    assert done.returncode == 0, done.stderr
    model = step.outputs()["model"]
    assert os.listdir(model.path) == ["7"]
    assert model.metadata["saved_model"] == f"{model.uri}/7"
    assert (tmp_path / "first" / "model" / "7" / "saved_model.pb").exists()

    @dsl.pipeline(name="base")
    def from_base(uri: str):
        base = dsl.importer(artifact_uri=uri, artifact_class=dsl.Model)
        task = trainer_op(base_model=base.output, module_text=textwrap.dedent(CONTINUING), train_files=[iris.train])
        task.set_container_image("other:2")

    step = Step(from_base, tmp_path / "second", {"base_model": model.uri}, {"uri": model.uri})
    assert step.container["image"] == "other:2"
    done = step.run()
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "second" / "model" / "saved_model.pb").exists()
    assert "Evaluation examples: none" in done.stderr


def test_a_module_that_fails_says_why_in_the_log_the_page_and_the_output_file(
    iris: Any, tmp_path: pathlib.Path
) -> None:
    @dsl.pipeline(name="failing")
    def failing():
        trainer_op(module_text=textwrap.dedent(FAILING), train_files=[iris.train])

    step = Step(failing, tmp_path / "run", {}, {})
    done = step.run()
    assert done.returncode == 1
    assert 'raise ValueError("the <b>labels</b> are gone")' in done.stderr
    assert done.stderr.count("Traceback (most recent call last)") == 1
    assert done.stderr.rstrip().endswith("failed: ValueError: the <b>labels</b> are gone")
    outputs = step.outputs()
    assert set(outputs) == {"report", "tensorboard"}
    told = outputs["tensorboard"].metadata
    assert (told["status"], told["error_type"], told["error"]) == (
        *("failed", "ValueError"),
        "the <b>labels</b> are gone",
    )
    page = (tmp_path / "run" / "report").read_text()
    assert "ValueError: the &lt;b&gt;labels&lt;/b&gt; are gone" in page
    assert json.loads((tmp_path / "run" / "tensorboard" / "run.json").read_text())["status"] == "failed"
    assert not (tmp_path / "run" / "model").exists()
    assert not (tmp_path / "run" / "metrics").exists()


def test_a_step_that_is_cancelled_cleans_up_and_says_so(iris: Any, tmp_path: pathlib.Path) -> None:
    @dsl.pipeline(name="waiting")
    def waiting():
        config = {"mark": str(tmp_path / "began")}
        trainer_op(module_text=textwrap.dedent(WAITING), train_files=[iris.train], custom_config=config)

    step = Step(waiting, tmp_path / "run", {}, {})
    process = subprocess.Popen(step.line, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "began").exists():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "The step was ended by SIGTERM" in step.outputs()["tensorboard"].metadata["error"]
    assert "The step was ended by SIGTERM" in (tmp_path / "run" / "report").read_text()
    assert not [name for name in os.listdir(tmp_path / "run") if name.startswith(".staging")]


def test_wrong_types_are_found_when_the_pipeline_is_compiled() -> None:
    def compiled(**arguments: Any) -> None:
        @dsl.pipeline(name="wrong")
        def wrong():
            trainer_op(**arguments)

    with pytest.raises(Exception, match=r"train_steps.*STRING.*NUMBER_INTEGER"):
        compiled(module="a.py", train_steps="many")
    with pytest.raises(Exception, match="custom_config"):
        compiled(module="a.py", custom_config="learning_rate=0.1")
    with pytest.raises(TypeError, match='unexpected keyword argument "train_file"'):
        compiled(module="a.py", train_file=["x"])
    with pytest.raises(Exception, match=r"system\.Metrics"):

        @dsl.pipeline(name="wrong")
        def metrics_for_examples():
            first = trainer_op(module="a.py", train_files=["x"])
            trainer_op(module="a.py", examples=first.outputs["metrics"])


def test_the_component_file_is_the_component(tmp_path: pathlib.Path) -> None:
    kubeflow_component.write_component(tmp_path / "now.yaml")
    now, kept = (
        yaml.safe_load(path.read_text()) for path in (tmp_path / "now.yaml", kubeflow_component.COMPONENT_FILE)
    )
    for ir in (now, kept):
        del ir["sdkVersion"]
    assert now == kept, "write it again: python -m generic_trainer.pipelines.kubeflow.component"

    loaded = components.load_component_from_file(str(kubeflow_component.COMPONENT_FILE))
    [container] = loaded.pipeline_spec.deployment_spec["executors"].values()
    assert container["container"]["image"] == kubeflow_component.DEFAULT_IMAGE

    @dsl.pipeline(name="from-file")
    def from_file(steps: int):
        train = loaded(module="a.py", train_files=["x"], train_steps=steps)
        loaded(module="a.py", train_files=["x"], base_model=train.outputs["model"])

    compiler.Compiler().compile(from_file, str(tmp_path / "pipeline.yaml"))


def test_every_option_is_an_input_with_type_default_and_description() -> None:
    import dataclasses

    from generic_trainer import TrainingOptions

    inputs = trainer_op.component_spec.inputs
    for field in dataclasses.fields(TrainingOptions):
        if field.name == "isolate":
            assert field.name not in inputs
            continue
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        assert inputs[field.name].default == default
        assert inputs[field.name].optional
    spec = trainer_op.pipeline_spec.components["comp-trainer"]
    kinds = pipeline_spec_pb2.ParameterType.ParameterTypeEnum
    types = {name: kinds.Name(one.parameter_type) for name, one in spec.input_definitions.parameters.items()}
    assert {name: types[name] for name in ("keras", "seed", "timeout", "profile", "skip_checks", "custom_config")} == {
        "keras": "STRING",
        "seed": "NUMBER_INTEGER",
        "timeout": "NUMBER_DOUBLE",
        "profile": "BOOLEAN",
        "skip_checks": "LIST",
        "custom_config": "STRUCT",
    }
    described = [*spec.input_definitions.parameters.values(), *spec.input_definitions.artifacts.values()]
    assert all(one.description and one.is_optional for one in described)
    assert all(one.description for one in spec.output_definitions.artifacts.values())
    assert spec.input_definitions.parameters["keras"].description.endswith("'auto' detects it. One of: auto, 2, 3.")


def test_importing_the_component_imports_neither_tensorflow_nor_tfx() -> None:
    program = (
        "import sys, json; from generic_trainer.pipelines.kubeflow import trainer_op;"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    assert imported.isdisjoint({"tensorflow", "tfx", "tfx_bsl", "keras", "apache_beam", "numpy", "ml_metadata"})
