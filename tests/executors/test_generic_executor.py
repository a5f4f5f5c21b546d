"""GenericExecutor as orchestrators call it: with artifacts, and through TFX's Kubeflow container command."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import tfx.version
from tfx.types import standard_artifacts

from generic_trainer import GenericExecutor, InputError, ModuleError
from generic_trainer.executors.runtime.logs.remembered_error import pop_remembered_error
from generic_trainer.executors.training import step

from ..world.modules import with_tiny

TRAIN_ARGS = {"train_args": '{"num_steps": 5}', "eval_args": '{"num_steps": 2}'}


@pytest.fixture
def artifacts(iris: Any, tmp_path: pathlib.Path) -> tuple[dict[str, list], dict[str, list]]:
    """Input and output artifacts over iris, laid out as TFX's ExampleGen and SchemaGen do."""
    source = pathlib.Path(iris.schema).parent
    shutil.copytree(source / "train", tmp_path / "examples" / "Split-train")
    shutil.copytree(source / "eval", tmp_path / "examples" / "Split-eval")
    (tmp_path / "schema").mkdir()
    shutil.copy(iris.schema, tmp_path / "schema")
    examples, schema = standard_artifacts.Examples(), standard_artifacts.Schema()
    examples.uri, schema.uri = str(tmp_path / "examples"), str(tmp_path / "schema")
    examples.split_names = '["train", "eval"]'
    model, model_run = standard_artifacts.Model(), standard_artifacts.ModelRun()
    model.uri, model_run.uri = str(tmp_path / "model"), str(tmp_path / "model_run")
    return {"examples": [examples], "schema": [schema]}, {"model": [model], "model_run": [model_run]}


def test_the_model_artifact_says_what_is_known_of_it(artifacts: Any, module: Callable[..., str]) -> None:
    from_module = module(TINY)
    inputs, outputs = artifacts
    properties = {**TRAIN_ARGS, "module_file": from_module, "custom_config": '{"auc": 0.5}', "isolate": 0}
    assert GenericExecutor().Do(inputs, outputs, properties) is None
    [model], [model_run] = outputs["model"], outputs["model_run"]
    assert os.listdir(model.uri) == ["Format-Serving"]
    assert model.get_float_custom_property("eval/auc") == 0.5
    assert model.get_string_custom_property("signatures") == "serving_default"
    assert "answers: passed" in model.get_string_custom_property("checks")
    assert model.get_string_custom_property("answer").startswith("{'y': [")
    assert model.get_int_custom_property("size_bytes") > 1000
    assert len(model.get_string_custom_property("module_fingerprint")) == 64
    record = json.loads(pathlib.Path(model_run.get_string_custom_property("run_record")).read_text())
    assert record["arguments"]["train_steps"] == 5
    assert record["arguments"]["train_files"] == [f"{inputs['examples'][0].uri}/Split-train/*"]


def test_an_artifact_that_takes_no_properties_does_not_fail_a_published_model(
    artifacts: Any, module: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, outputs = artifacts
    monkeypatch.setattr(step, "_describe", lambda model, record: model.set_int_custom_property("auc", "none"))
    GenericExecutor().Do(inputs, outputs, {**TRAIN_ARGS, "module_file": module(TINY), "isolate": 0})
    assert os.listdir(outputs["model"][0].uri) == ["Format-Serving"]


def test_the_results_are_printed_although_tfx_hides_log_lines(
    artifacts: Any, module: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs, outputs = artifacts
    [model], [model_run] = outputs["model"], outputs["model_run"]
    monkeypatch.delenv("GENERIC_TRAINER_LOGS", raising=False)  # set by the commands
    GenericExecutor().Do(inputs, outputs, {**TRAIN_ARGS, "module_file": module(TINY), "isolate": 0})
    shown = capsys.readouterr().out.splitlines()
    assert shown[-3].startswith(f"Model published to {model.uri}/Format-Serving;")
    assert shown[-2:] == ["Eval metrics: auc 1", f"Report: {model_run.uri}/report.html"]


TINY = with_tiny("""
    def run_fn(fn_args):
        model = Tiny()
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
        return {"val_auc": (fn_args.custom_config or {}).get("auc", 1.0)}

    def train_it(fn_args):
        return run_fn(fn_args)
""")


def test_tfxs_precedence_of_module_parameters(
    artifacts: Any, module: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, outputs = artifacts
    path = module(TINY, "precedence.py")
    monkeypatch.syspath_prepend(os.path.dirname(path))
    serving = pathlib.Path(outputs["model"][0].uri, "Format-Serving")
    for choice in (
        {"run_fn": "precedence.train_it"},
        {"module_file": path, "run_fn": "train_it"},
        {"module_path": "precedence", "module_file": "/nowhere.py"},
    ):
        GenericExecutor().Do(inputs, outputs, {**TRAIN_ARGS, **choice, "isolate": "false", "skip_checks": '["loads"]'})
        assert (serving / "saved_model.pb").exists()
        shutil.rmtree(serving)
    with pytest.raises(ModuleError, match="no module is given"):
        GenericExecutor().Do(inputs, outputs, TRAIN_ARGS)


def test_a_failure_leaves_no_model_and_can_be_asked_for(artifacts: Any, module: Callable[..., str]) -> None:
    inputs, outputs = artifacts
    path = module("def run_fn(fn_args): raise OSError('disk')")
    with pytest.raises(OSError, match="disk") as caught:
        GenericExecutor().Do(inputs, outputs, {**TRAIN_ARGS, "module_file": path, "isolate": 0})
    assert pop_remembered_error() is caught.value
    assert pop_remembered_error() is None
    assert os.listdir(outputs["model"][0].uri) == []
    args = {"train_args": '{"splits": ["tset"]}', "eval_args": "{}", "module_file": path}
    inputs["examples"][0].split_names = '["test", "eval"]'
    with pytest.raises(InputError, match=r"split 'tset' does not exist in the examples at .*Did you mean"):
        GenericExecutor().Do(inputs, outputs, args)


def test_a_custom_config_may_hold_what_tfx_serializes(artifacts: Any, module: Callable[..., str]) -> None:
    from tfx.proto import trainer_pb2
    from tfx.utils import json_utils

    inputs, outputs = artifacts
    path = module("""
        def run_fn(fn_args):
            raise ValueError(f"steps: {fn_args.custom_config['args'].num_steps}")
    """)
    config = json_utils.dumps({"args": trainer_pb2.TrainArgs(num_steps=9)})
    with pytest.raises(ValueError, match="steps: 9"):
        GenericExecutor().Do(inputs, outputs, {**TRAIN_ARGS, "module_file": path, "custom_config": config})


@pytest.mark.thorough_but("generic_trainer.executors.kubeflow_step")
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ["tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor", "generic_trainer.executors.kubeflow_step"],
)
def test_the_kubeflow_container_command(
    artifacts: Any, module: Callable[..., str], tmp_path: pathlib.Path, command: str
) -> None:
    if command.startswith("tfx"):
        pytest.importorskip("kfp.pipeline_spec", reason="the container entry point needs kfp-pipeline-spec")
    inputs, _ = artifacts

    def artifact(name: str, title: str, uri: str, **metadata: str) -> dict[str, Any]:
        schema = f"title: tfx.{title}\ntype: object\nproperties:\n" + (
            "".join(f"  {key}:\n    type: string\n" for key in metadata) or "  {}\n"
        )
        schema = schema.replace("properties:\n  {}\n", "")
        return {"artifacts": [{"name": name, "uri": uri, "metadata": metadata, "type": {"instanceSchema": schema}}]}

    parameters = {
        **TRAIN_ARGS,
        "module_file": module(TINY),
        "custom_config": '{"auc": 0.25}',
        "isolate": 1,
        "required_signatures": '["serving_default"]',
    }
    invocation = {
        "inputs": {
            "artifacts": {
                "examples": artifact("e/1", "Examples", inputs["examples"][0].uri, split_names='["train", "eval"]'),
                "schema": artifact("s/1", "Schema", inputs["schema"][0].uri),
            },
            "parameterValues": parameters,
        },
        "outputs": {
            "artifacts": {
                "model": artifact("m/1", "Model", str(tmp_path / "kfp" / "model")),
                "model_run": artifact("r/1", "ModelRun", str(tmp_path / "kfp" / "model_run")),
            },
            "outputFile": str(tmp_path / "kfp" / "executor_output.json"),
        },
    }
    kinds = {"isolate": "NUMBER_INTEGER"}
    spec = {"parameters": {name: {"parameterType": kinds.get(name, "STRING")} for name in parameters}}
    line = [
        *[sys.executable, "-m", command],
        *["--executor_class_path", "generic_trainer.executors.generic_executor.GenericExecutor"],
        *["--json_serialized_invocation_args", json.dumps(invocation)],
        *["--json_serialized_inputs_spec_args", json.dumps(spec)],
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "kfp" / "model" / "Format-Serving" / "saved_model.pb").exists()
    assert json.loads((tmp_path / "kfp" / "model_run" / "run.json").read_text())["status"] == "succeeded"
    output = json.loads((tmp_path / "kfp" / "executor_output.json").read_text())
    [model] = output["artifacts"]["model"]["artifacts"]
    assert model["metadata"]["eval/auc"] == 0.25
    assert model["metadata"]["signatures"] == "serving_default"
    assert model["metadata"]["tfx_version"] == tfx.version.__version__
    assert (model["name"], model["uri"]) == ("m/1", str(tmp_path / "kfp" / "model"))
    assert model["metadata"]["size_bytes"] > 1000
