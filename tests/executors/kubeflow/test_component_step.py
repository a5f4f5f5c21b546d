"""The Kubeflow component's step: its accepted examples and parameters, its input and output paths, its messages."""

from __future__ import annotations

import functools
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import InputError, TrainingProcessError
from generic_trainer.executors.checkpoints import directory
from generic_trainer.executors.kubeflow import component_step, step, storage
from generic_trainer.executors.kubeflow.inputs import fn_args_for_step
from generic_trainer.executors.kubeflow.parameters import StepParameters, read_parameters
from generic_trainer.executors.kubeflow.step import StepArtifact
from generic_trainer.executors.monitoring import display
from generic_trainer.executors.runtime.files.local_disks import disk_kind

# Killed on the first attempt after writing a checkpoint; succeeds on the second.
KILLED_ONCE = """
    import os, pathlib, signal
    import tensorflow as tf

    def run_fn(fn_args):
        saved = pathlib.Path(fn_args.checkpoint_dir) / "step"
        if not saved.exists():
            saved.write_text("20")
            os.kill(os.getpid(), signal.SIGKILL)
        model = tf.Module()
        model.serve = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None], tf.float32)])
        for folder in (fn_args.serving_model_dir, fn_args.eval_model_dir):
            tf.saved_model.save(model, folder, signatures=model.serve)
        pathlib.Path(fn_args.custom_config["notes"]).write_text(saved.read_text())
"""
# Waits until its progress has been read.
REPORTING = """
    import pathlib, time
    import tensorflow as tf
    from generic_trainer import report_progress

    def run_fn(fn_args):
        report_progress(0, total=fn_args.train_steps)
        report_progress(1240)
        while not pathlib.Path(fn_args.custom_config["heard"]).exists():
            time.sleep(0.05)
        model = tf.Module()
        model.serve = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None], tf.float32)])
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""
RUN = "0123abcd-0000-0000-0000-00000000000"
OUTPUTS = ("model", "metrics", "classification", "report", "tensorboard")


def invocation(folder: pathlib.Path | str, inputs: dict[str, str] | None = None, **parameters: Any) -> dict[str, Any]:
    def listed(uri: str) -> dict[str, Any]:
        return {"artifacts": [{"name": os.path.basename(uri), "uri": uri, "metadata": {}}]}

    return {
        "inputs": {
            "parameterValues": parameters,
            "artifacts": {name: listed(uri) for name, uri in (inputs or {}).items()},
        },
        "outputs": {
            "artifacts": {name: listed(f"{folder}/{name}") for name in OUTPUTS},
            "outputFile": f"{folder}/executor_output.json",
        },
    }


def fn_args_of(inputs: dict[str, StepArtifact], **parameters: Any) -> Any:
    found = {key: [artifact] for key, artifact in inputs.items()}
    return fn_args_for_step(found, StepParameters(module="a.py", **parameters), "out/model", "out/logs")


def files(folder: pathlib.Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return str(folder)


@pytest.mark.parametrize(
    ("names", "train", "evaluation"),
    [
        (["Split-train/a.gz", "Split-eval/a.gz"], ["Split-train/*"], ["Split-eval/*"]),
        (["train/a.gz", "eval/a.gz", "schema.pbtxt"], ["train/*"], ["eval/*"]),
        (["train-0.tfrecord", "train-1.tfrecord", "eval.tfrecord"], ["train*"], ["eval*"]),
        (["part-0", "part-1"], ["*"], []),
    ],
)
def test_examples_without_metadata_are_found(
    tmp_path: pathlib.Path, names: list[str], train: list[str], evaluation: list[str]
) -> None:
    folder = files(tmp_path / "data", *names)
    got = fn_args_of({"examples": StepArtifact({"uri": folder})})
    assert got.train_files == [f"{folder}/{name}" for name in train]
    assert got.eval_files == [f"{folder}/{name}" for name in evaluation]
    assert got.examples_format.payload == "FORMAT_TF_EXAMPLE"


def test_examples_are_one_file_or_one_file_per_split(tmp_path: pathlib.Path) -> None:
    folder = files(tmp_path, "dataset", "held_out", "rows/part-0.parquet")
    one, other = (StepArtifact({"uri": f"{folder}/{name}"}) for name in ("dataset", "held_out"))
    got = fn_args_of({"examples": one})
    assert (got.train_files, got.eval_files) == ([f"{folder}/dataset"], [])
    got = fn_args_of({"examples": one, "eval_examples": other})
    assert (got.train_files, got.eval_files) == ([f"{folder}/dataset"], [f"{folder}/held_out"])
    got = fn_args_of({"examples": StepArtifact({"uri": f"{folder}/rows"}), "eval_examples": other})
    assert got.examples_format.payload == "FORMAT_PARQUET"


def test_tfx_metadata_of_examples_is_used(tmp_path: pathlib.Path) -> None:
    folder = files(tmp_path, "a/1", "b/1")
    metadata = {
        "custom_split_pattern": '{"train": "a/*", "eval": "b/*"}',
        "payload_format": "FORMAT_PROTO",
        "data_view_uri": str(tmp_path),
    }
    got = fn_args_of({"examples": StepArtifact({"uri": folder, "metadata": metadata})})
    assert (got.train_files, got.eval_files) == ([f"{folder}/a/*"], [f"{folder}/b/*"])
    assert (got.examples_format.payload, got.examples_format.data_view) == ("FORMAT_PROTO", folder)


def test_a_missing_split_is_reported_with_the_existing_ones(tmp_path: pathlib.Path) -> None:
    splits = StepArtifact({"uri": files(tmp_path / "splits", "training/1", "test/1")})
    with pytest.raises(InputError, match=r"no split 'train'\. Available: test, training. Did you mean 'training'\?"):
        fn_args_of({"examples": splits})
    got = fn_args_of({"examples": splits}, train_splits=("training",), eval_splits=("test",))
    assert got.eval_files == [f"{splits.uri}/test/*"]
    with pytest.raises(InputError, match=r"\* includes .*eval.*\. Set train_splits"):
        fn_args_of({"examples": StepArtifact({"uri": files(tmp_path / "mixed", "data.tfrecord", "eval.tfrecord")})})
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="the folder is empty"):
        fn_args_of({"examples": StepArtifact({"uri": str(tmp_path / "empty")})})


def test_a_schema_is_a_file_or_the_only_one_of_a_folder(tmp_path: pathlib.Path) -> None:
    folder = files(tmp_path, "data", "schema/schema.pbtxt", "two/a", "two/b", "hp/best.json")
    (tmp_path / "hp" / "best.json").write_text('{"space": []}')
    examples = StepArtifact({"uri": f"{folder}/data"})
    for uri in (f"{folder}/schema", f"{folder}/schema/schema.pbtxt"):
        got = fn_args_of({"examples": examples, "schema": StepArtifact({"uri": uri})})
        assert got.schema_path == f"{folder}/schema/schema.pbtxt"
    assert fn_args_of({"examples": examples, "hyperparameters": StepArtifact({"uri": f"{folder}/hp"})}).hyperparameters
    with pytest.raises(InputError, match="expected one file in it, found a, b"):
        fn_args_of({"examples": examples, "schema": StepArtifact({"uri": f"{folder}/two"})})


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, "nothing to train: set 'module' or 'module_text'"),
        ({"module": "a.py", "module_text": "x"}, "are mutually exclusive: set only one of them"),
        ({"module": "a.py"}, "got neither"),
        ({"module": "a.py", "eval_files": ["x"]}, "eval_files requires train_files"),
        ({"module": "a.py", "train_splits": []}, "train_splits=[]: set at least one split"),
        ({"module": "a.py", "train_file": ["x"]}, "Did you mean 'train_files'"),
        ({"module": "a.py", "isolate": False}, "Unknown parameter 'isolate'"),
        ({"module": "a.py", "train_steps": 1.5}, "train_steps=1.5: expected a whole number, got float"),
        ({"module": "a.py", "train_steps": float("inf")}, "train_steps=inf: expected a whole number"),
        ({"module": "a.py", "train_steps": True}, "train_steps=True: expected a whole number"),
        ({"module": "a.py", "train_steps": -1}, "train_steps=-1: give an integer from 0"),
        ({"module": "a.py", "train_steps": 2**70}, f"train_steps={2**70}: give an integer from 0"),
        ({"module": "a.py", "train_steps": 10**400}, "give an integer from 0"),
        ({"module": "a.py", "timeout": float("nan")}, "timeout=nan: give a number above 0"),
        ({"module": "a.py", "train_files": "x"}, "train_files='x': expected a list of strings, got str"),
        ({"module": "a.py", "custom_config": "{}"}, "custom_config='{}': expected a JSON object"),
        ({"module": "a.py", "payload_format": "FORMAT_PARKET"}, "Did you mean 'FORMAT_PARQUET'"),
        ({"module": "a.py", "keras": "4"}, "keras='4': choose from auto, 2, 3"),
        ({"module": "a.py", "seed": "x"}, "seed='x' is not usable"),
        ({"module": "a.py", "workers": "2"}, "workers='2' needs engine='ray'"),
        ({"module": "none.py", "train_files": ["x"]}, "none.py does not exist"),
    ],
)
def test_bad_input_is_reported_in_the_log_and_in_the_output_file(
    tmp_path: pathlib.Path, parameters: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(invocation(tmp_path, **parameters))
    assert component_step.main(["--executor_input", text]) == 2
    assert said in capsys.readouterr().err
    reported = json.loads((tmp_path / "executor_output.json").read_text())["artifacts"]
    assert set(reported) == {"report", "tensorboard"}
    assert said in reported["report"]["artifacts"][0]["metadata"]["error"]
    assert "failed" in (tmp_path / "report").read_text()


def test_data_must_come_from_one_source(tmp_path: pathlib.Path) -> None:
    data = files(tmp_path, "data/1")
    with pytest.raises(InputError, match="got both"):
        component_step.run(invocation(tmp_path, {"examples": data}, module="a.py", train_files=["x"]))
    with pytest.raises(InputError, match=r"input examples .*/gone does not exist"):
        component_step.run(invocation(tmp_path, {"examples": f"{data}/gone"}, module="a.py"))
    with pytest.raises(InputError, match="input examples: the artifact has no URI"):
        component_step.run(invocation(tmp_path, {"examples": ""}, module="a.py"))


def test_an_unreadable_address_is_reported_with_what_is_missing() -> None:
    with pytest.raises(
        InputError, match=r"examples minio://b/x cannot be read: .* copies it to /minio/b/x, which does not exist"
    ):
        storage.resolve_input("minio://b/x", "examples")
    with pytest.raises(InputError, match=r"hdfs://h/x cannot be read: TensorFlow has no file system for hdfs://"):
        storage.require_readable_pattern("hdfs://h/x", "train_files")


def test_paths_equal_those_of_kubeflows_own_sdk() -> None:
    dsl = pytest.importorskip("kfp.dsl", reason="needs the extra kfp")
    for uri in ("gs://b/x/y", "s3://b/x/y", "minio://b/x/y", "oci://host/x:1", "/local/x"):
        assert storage.local_path(uri) == dsl.Model(uri=uri).path
    marked = {"_kfp_workspace": True}
    assert storage.local_path("gs://b/x", marked) == dsl.Dataset(uri="gs://b/x", metadata=marked).path
    assert storage.local_path("hdfs://b/x") is None


def test_artifacts_are_read_and_written_where_the_launcher_copies_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "MOUNTS", {"gs": "/gcs", "minio": str(tmp_path / "minio")})
    files(tmp_path / "minio" / "bucket", "data/1")
    assert storage.resolve_input("minio://bucket/data", "examples") == f"{tmp_path}/minio/bucket/data"
    assert storage.resolve_output("minio://bucket/out/model", "model") == f"{tmp_path}/minio/bucket/out/model"
    assert storage.resolve_output("/work/out", "model") == "/work/out"
    assert storage.resolve_output("gs://bucket/out", "model") == "gs://bucket/out"  # TensorFlow writes it
    shutil.rmtree(tmp_path / "minio")
    with pytest.raises(InputError, match=r"output model minio://b/x: this container has no folder .*/minio, from"):
        storage.resolve_output("minio://b/x", "model")
    with pytest.raises(InputError, match=r"output model 'hdfs://b/x': Kubeflow copies outputs from gs, minio only"):
        storage.resolve_output("hdfs://b/x", "model")


def test_a_step_under_kubeflows_launcher_reads_and_writes_its_copies(
    iris: Any,
    tiny_module: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = tmp_path / "minio"
    monkeypatch.setattr(storage, "MOUNTS", {"minio": str(disk)})
    shutil.copytree(pathlib.Path(iris.schema).parent, disk / "bucket" / "data")
    uri = f"minio://bucket/v2/{RUN}1/trainer/{RUN}2"
    content = invocation(uri, {"examples": "minio://bucket/data"}, module=tiny_module)
    output_file = tmp_path / "kfp_outputs" / "output_metadata.json"
    content["outputs"]["outputFile"] = str(output_file)
    with caplog.at_level(logging.INFO, "absl"):
        component_step.run(content)
    copies = disk / uri.removeprefix("minio://")
    assert sorted(os.listdir(copies)) == sorted(OUTPUTS)
    assert (copies / "model" / "saved_model.pb").exists()
    [model] = json.loads(output_file.read_text())["artifacts"]["model"]["artifacts"]
    assert (model["uri"], model["metadata"]["saved_model"]) == (f"{uri}/model", f"{uri}/model")
    assert f"Model published to {uri}/model." in caplog.text
    assert "Checkpoints are stored in this pod only" in caplog.text
    assert not list(disk.rglob(directory.ROOT))


def test_only_the_chief_of_a_cluster_writes_the_output_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    for task in ("worker", "chief"):
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": task, "index": 0}}))
        step.write_output(str(tmp_path / task), {"model": [StepArtifact({"uri": "x"})]})
    assert os.listdir(tmp_path) == ["chief"]


def test_checkpoints_outlive_the_pod(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mounts"
    mounts = {"/": "overlay", "/gcs": "fuse.gcsfuse", "/minio": "ext4"}
    table.write_text("".join(f"1 1 0:1 / {path} rw - {kind} disk rw\n" for path, kind in mounts.items()))
    monkeypatch.setattr(storage, "disk_kind", functools.partial(disk_kind, mounts=str(table)))
    of_a_run = f"b/root/iris/{RUN}1/trainer/{RUN}2/tensorboard"
    found = storage.checkpoint_root
    assert found(f"gs://{of_a_run}", f"/gcs/{of_a_run}") == "/gcs/b/root/iris/.checkpoints/trainer"
    assert found(f"gs://{of_a_run}", f"gs://{of_a_run}") == "gs://b/root/iris/.checkpoints/trainer"
    assert found(f"minio://{of_a_run}", f"/minio/{of_a_run}") is None
    local = "/work/local_outputs/iris-2026-01-02-03-04-05-678901/trainer/tensorboard"  # of kfp.local
    assert found(local, local) == "/work/local_outputs/.checkpoints/trainer"


@pytest.mark.parametrize("given", [False, True], ids=["beside the runs", "checkpoint_root"])
def test_the_next_run_resumes_from_the_checkpoint(
    given: bool, iris: Any, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    parameters = {
        "module": module(KILLED_ONCE),
        "train_files": [iris.train],
        "custom_config": {"notes": str(tmp_path / "notes")},
        "skip_checks": ["answers"],
    }
    if given:
        parameters["checkpoint_root"] = str(tmp_path / "volume")

    def run(number: int) -> pathlib.Path:
        folder = tmp_path / "root" / "iris" / f"{RUN}{number}" / "trainer" / f"{RUN}{9 - number}"
        component_step.run(invocation(folder, **parameters))
        return folder

    with pytest.raises(TrainingProcessError, match="SIGKILL"):
        run(1)
    root = tmp_path / "volume" if given else tmp_path / "root" / "iris" / directory.ROOT / "trainer"
    [key] = os.listdir(root)
    assert (root / key / "step").read_text() == "20"
    folder = run(2)
    assert (tmp_path / "notes").read_text() == "20"
    assert not root.exists()

    assert sorted(os.listdir(folder)) == sorted(["executor_output.json", *OUTPUTS])  # Kubeflow accepts only these
    [model] = json.loads((folder / "executor_output.json").read_text())["artifacts"]["model"]["artifacts"]
    assert model["metadata"]["eval_saved_model"] == f"{folder}/tensorboard/eval_model"
    assert (folder / "tensorboard" / "eval_model" / "saved_model.pb").exists()


def test_the_log_shows_the_progress_of_a_long_training(
    iris: Any,
    module: Callable[..., str],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(display, "_FIRST_SECONDS", 0.05)
    heard = tmp_path / "heard"

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("Step 1,240 of 5,000"):
                heard.touch()

    caplog.set_level("INFO", logger="absl")
    listener = Listener()
    logging.getLogger("absl").addHandler(listener)
    try:
        component_step.run(
            invocation(
                tmp_path / "run",
                module=module(REPORTING),
                train_files=[iris.train],
                train_steps=5000,
                custom_config={"heard": str(heard)},
                timeout=120,
                skip_checks=["answers"],
            )
        )
    finally:
        logging.getLogger("absl").removeHandler(listener)
    assert heard.exists()


def test_tfxs_step_accepts_examples_without_metadata_and_reports_a_failure(
    iris: Any, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    for split in ("train", "eval"):
        shutil.copytree(pathlib.Path(iris.schema).parent / split, tmp_path / "examples" / f"Split-{split}")
    listed = {key: {"artifacts": [{"name": key, "uri": str(tmp_path / key)}]} for key in ("model", "model_run")}
    output = tmp_path / "executor_output.json"
    output.write_text(json.dumps({"parameterValues": {"module_file": module("def run_fn(fn_args): fn_args.gone")}}))
    content = {
        "inputs": {"artifacts": {"examples": {"artifacts": [{"name": "e", "uri": str(tmp_path / "examples")}]}}},
        "outputs": {"artifacts": listed, "outputFile": str(output)},
    }
    line = [
        sys.executable,
        "-m",
        "generic_trainer.executors.kubeflow_step",
        "--json_serialized_invocation_args",
        json.dumps(content),
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 1
    assert "line 1, in run_fn" in done.stderr  # it received its examples
    assert "failed: AttributeError: fn_args has no attribute 'gone'" in done.stderr
    said = json.loads(output.read_text())
    assert set(said["artifacts"]) == {"model_run"}
    assert said["artifacts"]["model_run"]["artifacts"][0]["metadata"]["error_type"] == "AttributeError"
    assert said["parameterValues"]  # the driver's, for the next attempt
    kfp = pytest.importorskip("kfp.pipeline_spec", reason="needs kfp-pipeline-spec")
    from google.protobuf import json_format

    json_format.Parse(output.read_text(), kfp.pipeline_spec_pb2.ExecutorOutput())


def test_parameters_keep_their_types() -> None:
    own, options = read_parameters(
        {
            "module": "a.py",
            "train_steps": 300.0,
            "seed": 7.0,
            "timeout": 60.0,
            "profile": True,
            "skip_checks": ["finite"],
            "custom_config": {"epochs": 3.0, "rates": [0.5, 1.0], "deep": {"n": 2.0}},
            "function": "",
            "memory_gb_per_worker": None,
        }
    )
    assert (own.train_steps, own.function) == (300, None)
    assert own.custom_config == {"epochs": 3, "rates": [0.5, 1], "deep": {"n": 2}}
    assert isinstance(own.custom_config["epochs"], int)
    assert (options.seed, options.timeout, options.profile, options.skip_checks) == (7, 60.0, True, ("finite",))
