"""The pipeline compiled for Kubeflow: accepted by Kubeflow's loader, and every step run by the command in the YAML."""

from __future__ import annotations

import gzip
import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

pytest.importorskip("kfp")

from generic_trainer import InputError, TrainingOptions
from generic_trainer.cli.main import cli
from generic_trainer.pipelines.kubeflow import KubeflowPipeline, StepResources, compile_pipeline
from generic_trainer.pipelines.submit.pods import PodSettings, variables, volume_claims

from .driver import Driver, Failed

Command = Callable[..., subprocess.CompletedProcess[str]]
SCHEMAS = pathlib.Path(__file__).resolve().parents[1] / "schemas"
MODULES = pathlib.Path(__file__).resolve().parents[3] / "module_files"
REMOTE = {
    "data": "gs://bucket/taxi",
    "data_format": "csv",
    "pipeline_root": "gs://bucket/pipelines",
    "module_file": "generic_trainer.module_files.taxi_keras",
    "image": "registry/trainer:1",
}


PATCH = """
metadata: {labels: {team: ads}, annotations: {a.b/c: d e}}
spec:
  nodeSelector: {zone: a}
  tolerations: [{key: dedicated, operator: Equal, value: ml, effect: NoSchedule}]
  securityContext: {runAsUser: 1000}
  volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 2000M}}]
  containers:
  - imagePullPolicy: Always
    env: [{name: P, value: $(A)/p}]
    volumeMounts: [{name: shm, mountPath: /dev/shm}]
"""


def compiled(path: pathlib.Path, **options: Any) -> dict[str, Any]:
    """Compiles and writes; returns the first document."""
    compile_pipeline(KubeflowPipeline(**{**REMOTE, **options})).write(str(path))
    spec: dict[str, Any] = next(iter(yaml.safe_load_all(path.read_text())))
    return spec


def patched(**spec: Any) -> dict[str, Any]:
    """Returns the option of a pipeline whose pods are patched."""
    return {"pods": PodSettings(patch={"spec": spec})}


@pytest.mark.thorough
@pytest.mark.slow
def test_every_step_runs_by_its_command_and_a_model_is_pushed(
    command: Command, taxi_csv: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    import tensorflow as tf

    # The module has a helper; both files are deleted before the pipeline runs.
    code = tmp_path / "user_code"
    code.mkdir()
    shutil.copy(MODULES / "taxi_keras.py", code / "helper.py")
    (code / "taxi.py").write_text("from helper import *\nfrom helper import preprocessing_fn, run_fn\n")
    volume = tmp_path / "volume"
    (volume / "data").mkdir(parents=True)
    shutil.copy(taxi_csv / "data.csv", volume / "data")

    done = command(
        *["compile", "--to", "kubeflow", "--image", "registry/trainer:1", "--output", tmp_path / "pipeline.yaml"],
        *["--data", volume / "data", "--module-file", code / "taxi.py", "--label", "big_tip", "--seed", 1],
        *["--pipeline-root", volume / "root", "--volume", f"claim:{volume}", "--retries", 2],
        *["--resources", "Trainer:cpus=4,memory_gb=16,gpus=1,accelerator=nvidia-l4", "--train-steps", 7],
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Kubeflow Pipelines cannot look up the last blessed model" in done.stderr
    shutil.rmtree(code)
    driver = Driver(tmp_path / "pipeline.yaml", tmp_path / "run", {"train_steps": 200.0, "eval_steps": 20.0})
    driver.run()

    [pushed] = (volume / "root" / "serving").iterdir()
    assert set(tf.saved_model.load(str(pushed)).signatures) == {"serving_default", "transform_features"}
    [model] = driver.outputs["Trainer"]["model"]
    assert model["metadata"]["signatures"] == "serving_default, transform_features"
    assert model["metadata"]["eval/auc"] > 0.85
    [blessing] = driver.outputs["Evaluator"]["blessing"]
    assert blessing["metadata"]["blessed"] == 1
    assert "Epoch 5/5\n40/40 - " in driver.logs["Trainer"]  # 200 steps, not the 7 that it was compiled with

    # Resources of the steps
    spec, platform = yaml.safe_load_all((tmp_path / "pipeline.yaml").read_text())
    trainer = spec["deploymentSpec"]["executors"]["Trainer_executor"]["container"]
    assert trainer["resources"]["resourceCpuLimit"] == "4"
    assert trainer["resources"]["accelerator"]["resourceType"] == "nvidia.com/gpu"
    told = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert told["Trainer_executor"] == {
        "nodeSelector": {"labels": {"cloud.google.com/gke-accelerator": "nvidia-l4"}},
        "pvcMount": [{"constant": "claim", "mountPath": str(volume)}],
    }
    assert told["Pusher_executor"] == {"pvcMount": told["Trainer_executor"]["pvcMount"]}
    tasks = spec["root"]["dag"]["tasks"]
    assert {task["retryPolicy"]["maxRetryCount"] for task in tasks.values()} == {2}
    assert {name for name, task in tasks.items() if "cachingOptions" not in task} == {"CsvExampleGen"}


@pytest.mark.parametrize("platform", ["kubeflow", "vertex"])
def test_kubeflows_own_loader_and_schema_accept_it(platform: str, tmp_path: pathlib.Path) -> None:
    from google.protobuf import json_format
    from kfp import components
    from kfp.pipeline_spec import pipeline_spec_pb2

    path = tmp_path / "pipeline.yaml"
    options = (
        {"pods": PodSettings((volume_claims(["claim:/data"]),))} if platform == "kubeflow" else {"warm_start": True}
    )
    accelerator = "nvidia-tesla-t4" if platform == "vertex" else "example.com/gpu=big"
    spec = compiled(
        path,
        platform=platform,
        label="big_tip",
        custom_config={"learning_rate": 0.1},
        resources={"Trainer": StepResources(0.5, 1.5, 2, accelerator), "Transform": StepResources(cpus=2)},
        **options,
    )
    loaded = components.load_component_from_file(str(path))
    assert loaded.name == "generic-trainer-module-files-taxi-keras" or "taxi-keras" in loaded.name
    assert set(loaded.component_spec.inputs) == {"data", "train_steps", "eval_steps", "custom_config"}
    # Strict: a field that is not in the schema is an error.
    parsed = json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
    deployed = json_format.ParseDict(spec["deploymentSpec"], pipeline_spec_pb2.PipelineDeploymentConfig())
    assert parsed.schema_version == "2.1.0"
    assert parsed.default_pipeline_root == "gs://bucket/pipelines"
    trainer = deployed.executors["Trainer_executor"].container
    assert (trainer.resources.cpu_limit, trainer.resources.memory_request) == (0.5, 1.5)
    assert trainer.resources.accelerator.count == 2
    defaults = {name: one["defaultValue"] for name, one in spec["root"]["inputDefinitions"]["parameters"].items()}
    assert defaults == {
        "data": "gs://bucket/taxi", "train_steps": 0, "eval_steps": 0, "custom_config": '{"learning_rate": 0.1}',
    }  # fmt: skip
    has_hook = deployed.executors["CsvExampleGen_executor"].container.HasField("lifecycle")
    assert has_hook == (platform == "vertex")
    resolves = [name for name, one in deployed.executors.items() if one.HasField("resolver")]
    assert bool(resolves) == (platform == "vertex")


def test_settings_of_pods_match_the_definition_of_kubeflows_executor(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.protobuf import descriptor_pool, json_format, message_factory
    from kfp.pipeline_spec import pipeline_spec_pb2

    assert pipeline_spec_pb2.DESCRIPTOR.package == "ml_pipelines"  # the definition below imports it
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(gzip.decompress((SCHEMAS / "kubernetes_executor_config.binpb.gz").read_bytes()))
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("kfp_kubernetes.KubernetesExecutorConfig"))
    path, patch = tmp_path / "pipeline.yaml", tmp_path / "patch.yaml"
    patch.write_text(PATCH)
    flags = (
        "--volume=claim:/data", "--queue=ml", "--env=A=b:c", "--env=Trainer:B=c", "--env-secret=T=s/k",
        "--env-secret=Trainer:U=s/l", "--image-pull-secret=registry", f"--pod-patch={patch}",
        "--resources=*:cpus=2,memory_gb=4", "--resources=Trainer:cpus=4",
    )  # fmt: skip
    data = ("--data=gs://bucket/taxi", "--data-format=csv", f"--module-file={REMOTE['module_file']}", "--label=big_tip")
    target = ("--to=kubeflow", "--image=i", f"--output={path}", "--pipeline-root=gs://bucket/root")
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds to it
    cli.main(["compile", *target, *data, *flags], standalone_mode=False)
    spec, platform = yaml.safe_load_all(path.read_text())
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    parsed = {name: json_format.ParseDict(one, kind()) for name, one in executors.items()}  # strict
    assert len(parsed) == len(spec["root"]["dag"]["tasks"])
    trainer, pusher = parsed["Trainer_executor"], parsed["Pusher_executor"]
    assert [one.secret_name for one in trainer.secret_as_env] == ["s", "s"]
    assert [one.key_to_env[0].env_var for one in pusher.secret_as_env] == ["T"]
    assert dict(pusher.pod_metadata.labels) == {"team": "ads", "kueue.x-k8s.io/queue-name": "ml"}
    assert (pusher.tolerations[0].value, pusher.enabled_shared_memory.size) == ("ml", "2000M")
    assert (pusher.security_context.run_as_user, pusher.image_pull_policy) == (1000, "Always")
    containers = {name: one["container"] for name, one in spec["deploymentSpec"]["executors"].items()}
    variables = {name: {one["name"]: one["value"] for one in containers[name]["env"]} for name in containers}
    assert variables["Trainer_executor"] == {"A": "b:c", "B": "c", "P": "$(A)/p"}
    assert variables["Pusher_executor"] == {"A": "b:c", "P": "$(A)/p"}
    assert [mount.mount_path for mount in pusher.pvc_mount] == ["/data"]
    assert dict(pusher.node_selector.labels) == {"zone": "a"}
    assert containers["Trainer_executor"]["resources"]["resourceCpuLimit"] == "4"
    assert containers["Pusher_executor"]["resources"]["resourceCpuLimit"] == "2"
    assert containers["Trainer_executor"]["resources"]["resourceMemoryLimit"] == "4000M"


@pytest.mark.thorough
def test_a_bucket_that_is_unreadable_here_is_not_read(tmp_path: pathlib.Path) -> None:
    """Compiled for Vertex AI; its hook records which files exist."""
    compiled(tmp_path / "pipeline.yaml", platform="vertex")
    data = tmp_path / "taxi"
    data.mkdir()
    (data / "data.csv").write_text("a,b\n" + "".join(f"{number},x\n" for number in range(50)))
    driver = Driver(tmp_path / "pipeline.yaml", tmp_path / "run", instead={"gs://bucket": str(tmp_path)})
    driver.run("CsvExampleGen", with_hooks=True)
    [examples] = driver.outputs["CsvExampleGen"]["examples"]
    assert "num_files:1" in examples["metadata"]["input_fingerprint"]
    assert examples["metadata"]["split_names"] == '["train", "eval"]'
    assert list(pathlib.Path(examples["uri"]).glob("Split-train/*.gz"))


def test_a_baseline_is_imported(tmp_path: pathlib.Path) -> None:
    spec = compiled(tmp_path / "pipeline.yaml", label="big_tip", baseline_model="gs://bucket/model/7", warm_start=True)
    assert spec["deploymentSpec"]["executors"]["baseline_model_executor"]["importer"]["artifactUri"] == {
        "constant": "gs://bucket/model/7"
    }
    tasks = spec["root"]["dag"]["tasks"]
    source = {"taskOutputArtifact": {"outputArtifactKey": "result", "producerTask": "baseline_model"}}
    assert tasks["Trainer"]["inputs"]["artifacts"]["base_model"] == source
    assert tasks["Evaluator"]["inputs"]["artifacts"]["baseline_model"] == source


def test_a_model_whose_answers_depend_on_the_batch_is_allowed_in_both_steps(tmp_path: pathlib.Path) -> None:
    spec = compiled(tmp_path / "pipeline.yaml", label="big_tip", allow_batch_dependent=True)
    tasks = spec["root"]["dag"]["tasks"]
    values = {
        task: {name: value["runtimeValue"]["constant"] for name, value in tasks[task]["inputs"]["parameters"].items()}
        for task in ("Evaluator", "Pusher")
    }
    assert values["Evaluator"]["allow_batch_dependent"] == 1
    assert json.loads(values["Pusher"]["custom_config"]) == {"allow_batch_dependent": True}


def test_an_image_without_this_package_is_reported(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(tmp_path / "pipeline.yaml")
    bare = tmp_path / "bin"
    bare.mkdir()
    python = bare / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')  # without site-packages
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(Failed, match="generic-trainer is not installed in this image"):
        Driver(tmp_path / "pipeline.yaml", tmp_path / "run").run("CsvExampleGen")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"data": "taxi", "pipeline_root": "/root"}, r"--data taxi, --pipeline-root /root.*on this machine only"),
        ({"schema": "schema.pbtxt", "platform": "vertex"}, r"--schema schema.pbtxt: .*Use a gs:// URI"),
        ({"module_file": str(MODULES / "iris_keras.py"), "code_root": "code"}, r"--code-root code: on this machine"),
        ({"pipeline_root": "minio://bucket/root"}, r"TensorFlow has no file system for minio://"),
        ({"pipeline_root": "s3://bucket/root", "platform": "vertex"}, r"Vertex AI requires a bucket"),
        ({"image": ""}, r"--image is missing"),
        ({"warm_start": True}, r"--warm-start: .* --baseline-model URI"),
        ({"name": "My Pipeline"}, r"--pipeline-name 'My Pipeline': .* 'my-pipeline'"),
        ({"resources": {"Trainr": StepResources(cpus=1)}}, r"--resources Trainr: .*Did you mean 'Trainer'"),
        (
            {"platform": "vertex", "resources": {"Trainer": StepResources(gpus=1, accelerator="t4")}},
            r"accelerator=t4: Vertex AI offers",
        ),
        (
            {"platform": "vertex", "pods": PodSettings((volume_claims(["a:/b"]),))},
            r"Vertex AI does not mount volume claims",
        ),
        (
            {"platform": "vertex", "pods": PodSettings(queue="ml")},
            r"metadata: .*queue.*Vertex AI sets variables only",
        ),
        (
            patched(priorityClassName="high"),
            r"spec.priorityClassName: high: a pipeline --to kubeflow has no such field.*admission policy",
        ),
        (patched(securityContext={"fsGroup": 0}), r"spec.securityContext.fsGroup: 0: a pipeline"),
        (patched(containers=[{"securityContext": {}}]), r"spec.containers\[0\].securityContext: {}: a pipeline"),
        (patched(containers=[{"name": "log"}]), r"spec.containers\[1\]: .*log.*: a pipeline"),
        (
            patched(containers=[{"volumeMounts": [{"name": "a", "mountPath": "/a"}]}]),
            r"\[0\].volumeMounts: .*/a.*A step mounts claims, and at /dev/shm",
        ),
        (patched(volumes=[{"name": "x", "emptyDir": {}}]), r"spec.volumes: .*'x'.*Mount it in"),
        (patched(nodeSelector="gpu"), r"--pod-patch: spec.nodeSelector: gpu must be an object, of texts only"),
        (patched(containers=[{"env": [{"name": "A", "value": 5}]}]), r"env\[\d\].value: 5 must be a text"),
        (
            patched(containers=[{"env": [{"name": "A", "valueFrom": {}}]}]),
            r"\[0\].env: .*A",
        ),
        (patched(nodeName="a"), r"spec.nodeName: a: a pipeline"),
        (patched(securityContext=5), r"--pod-patch: spec.securityContext: 5 must be an object"),
        ({"step_patches": {"Trainer": variables([], ["all"])}}, r"envFrom: .*Write --env-secret NAME=SECRET/KEY"),
        (
            {"step_patches": {"Trainr": variables(["A=b"], [])}},
            r"--env-secret Trainr: .*Did you mean 'Trainer'",
        ),
        (
            {"pods": PodSettings((volume_claims(["a:/b:ro"]),))},
            r"readOnly: .*Claims are mounted writable only: omit :ro",
        ),
    ],
)
def test_a_pipeline_that_cannot_run_there_is_rejected(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        compile_pipeline(KubeflowPipeline(**{**REMOTE, **options}))


@pytest.mark.parametrize("text", ["Trainer", "Trainer:", "Trainer:cpu=2", "Trainer:cpus=x", "Trainer:cpus=-1"])
def test_invalid_resources(text: str) -> None:
    with pytest.raises(InputError, match=r"--resources Trainer.* is invalid(\. Expected STEP:cpus=4|: give a number)"):
        StepResources.parse(text)


def test_an_accelerator_needs_a_count() -> None:
    with pytest.raises(InputError, match="add gpus=1"):
        StepResources.parse("Trainer:accelerator=nvidia-l4")
    assert StepResources.parse("Trainer:gpus=2,memory_gb=1.5") == ("Trainer", StepResources(memory_gb=1.5, gpus=2))


def test_an_output_that_cannot_be_written_keeps_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    done = compile_pipeline(KubeflowPipeline(**REMOTE, training=TrainingOptions(seed=1)))
    with pytest.raises(InputError, match=r"The output .*pipeline.yaml: .*is not a fo"):
        done.write(str(tmp_path / "file" / "pipeline.yaml"))
    done.write(str(tmp_path / "pipeline.json"))
    assert (tmp_path / "pipeline.json").read_text().startswith("{")
