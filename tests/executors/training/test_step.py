"""A pipeline's step that is killed and tried again: with other folders for its outputs, from its last checkpoint on."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import GenericExecutor, ModelCheckError, TrainingProcessError
from generic_trainer.executors.kubeflow import step
from generic_trainer.executors.kubeflow.step import StepArtifact

KILL = """
    import os, pathlib, signal
    import tensorflow as tf

    def note(fn_args, step):
        with open(fn_args.custom_config["notes"], "a") as file:
            file.write(f"{step}\\n")

    def kill_in_first_try(fn_args):
        if len(open(fn_args.custom_config["notes"]).readlines()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
"""
LOOP = """
    from generic_trainer import AsyncCheckpoints

    class Tiny(tf.Module):
        def __init__(self):
            super().__init__()
            self.step = tf.Variable(0.0)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def serve(self, examples):
            return {"step": tf.fill([tf.size(examples)], self.step)}

    def run_fn(fn_args):
        model = Tiny()
        with AsyncCheckpoints(tf.train.Checkpoint(model=model), fn_args.checkpoint_dir) as checkpoints:
            checkpoints.restore()
            note(fn_args, int(model.step))
            for step in range(int(model.step), fn_args.train_steps):
                model.step.assign_add(1.0)
                if step + 1 == 20:
                    checkpoints.save(step + 1)
                    checkpoints.wait()
                if step + 1 == 23:
                    kill_in_first_try(fn_args)
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""
ESTIMATOR = """
    SPEC = {"sepal_length": tf.io.FixedLenFeature([1], tf.float32)}

    def model_fn(features, labels, mode):
        predictions = tf.compat.v1.layers.dense(features["sepal_length"], 1)
        loss = tf.reduce_mean(predictions ** 2)
        train_op = tf.compat.v1.train.AdamOptimizer(0.1).minimize(loss, tf.compat.v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)

    def input_fn(file_pattern):
        data = tf.data.TFRecordDataset(tf.io.gfile.glob(file_pattern), "GZIP").batch(8)
        return data.map(lambda records: (tf.io.parse_example(records, SPEC), tf.zeros([]))).repeat()

    def serving_input_receiver_fn():
        return tf.estimator.export.build_parsing_serving_input_receiver_fn(SPEC)()

    def run_config():
        return tf.estimator.RunConfig(save_checkpoints_steps=10, keep_checkpoint_max=2)

    class Noting(tf.compat.v1.train.SessionRunHook):
        def __init__(self, fn_args):
            self.fn_args = fn_args

        def after_create_session(self, session, coordinator):
            self.step = session.run(tf.compat.v1.train.get_global_step())
            note(self.fn_args, self.step)

        def after_run(self, context, values):
            self.step += 1
            if self.step == 23:
                while not (tf.train.latest_checkpoint(self.fn_args.serving_model_dir) or "").endswith("-20"):
                    pass  # it is written in the background
                kill_in_first_try(self.fn_args)

    def hooks(fn_args):
        return [Noting(fn_args)]
"""


@pytest.fixture
def examples(iris: Any, tmp_path: pathlib.Path) -> StepArtifact:
    for split in ("train", "eval"):
        shutil.copytree(pathlib.Path(iris.schema).parent / split, tmp_path / "examples" / f"Split-{split}")
    return StepArtifact({"uri": str(tmp_path / "examples"), "metadata": {"split_names": '["train", "eval"]'}})


def outputs(*uris: pathlib.Path) -> dict[str, list[StepArtifact]]:
    return {key: [StepArtifact({"uri": str(uri)})] for key, uri in zip(("model", "model_run"), uris, strict=True)}


def properties(module: str, tmp_path: pathlib.Path) -> dict[str, Any]:
    return {
        "module_file": module,
        "train_args": '{"num_steps": 30}',
        "eval_args": '{"num_steps": 1}',
        "custom_config": json.dumps({"notes": str(tmp_path / "notes")}),
    }


@pytest.mark.legacy
def test_an_estimator_goes_on_and_leaves_its_files_in_the_model_run(
    examples: StepArtifact, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    given = properties(module(KILL + ESTIMATOR), tmp_path)

    def do(execution: str) -> pathlib.Path:
        folders = [tmp_path / "Trainer" / key / execution for key in ("model", "model_run")]
        try:
            GenericExecutor().Do({"examples": [examples]}, outputs(*folders), given)
        except TrainingProcessError:
            for folder in folders:
                shutil.rmtree(folder)  # as TFX does
            raise
        return folders[1]

    with pytest.raises(TrainingProcessError, match="SIGKILL"):
        do("1")
    root = tmp_path / "Trainer" / "model_run" / ".checkpoints"
    [key] = os.listdir(root)
    assert (root / key / "model_run" / "Format-Serving" / "model.ckpt-20.index").exists()
    model_run = do("2")
    assert (tmp_path / "notes").read_text().splitlines() == ["0", "20"]
    left = os.listdir(model_run / "Format-Serving")
    assert {"checkpoint", "model.ckpt-20.index", "model.ckpt-30.index", "export"} <= set(left)
    assert json.loads((model_run / "run.json").read_text())["arguments"]["model_run_dir"] == str(model_run)
    assert not root.exists()


def test_a_loop_of_ones_own_goes_on_in_kubeflows_next_run(
    examples: StepArtifact, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    given = properties(module(KILL + LOOP), tmp_path)

    def do(run: str) -> None:
        folder = tmp_path / "root" / f"0123abcd-0000-0000-0000-00000000000{run}" / "Trainer"
        found = {key: {"artifacts": [one.to_json() for one in ones]} for key, ones in outputs(
            folder / "model", folder / "model_run").items()}  # fmt: skip
        invocation = {
            "inputs": {"artifacts": {"examples": {"artifacts": [examples.to_json()]}}, "parameterValues": given},
            "outputs": {"artifacts": found, "outputFile": str(folder / "executor_output.json")},
        }
        step.run(invocation, {})

    with pytest.raises(TrainingProcessError, match="SIGKILL"):
        do("1")
    root = tmp_path / "root" / ".checkpoints" / "Trainer"
    [key] = os.listdir(root)
    assert (root / key / "ckpt-20.index").exists()
    do("2")
    assert (tmp_path / "notes").read_text().splitlines() == ["0", "20"]
    assert not root.exists()


def test_a_rejected_model_outlives_the_folders_that_tfx_deletes(
    examples: StepArtifact, module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    given = properties(module("def run_fn(fn_args): open(fn_args.serving_model_dir, 'w').write('no model')"), tmp_path)
    folders = [tmp_path / "Trainer" / key / "7" for key in ("model", "model_run")]
    with pytest.raises(ModelCheckError) as caught:
        GenericExecutor().Do({"examples": [examples]}, outputs(*folders), given)
    for folder in folders:
        shutil.rmtree(folder)
    kept = tmp_path / "Trainer" / "model_run" / ".failed" / "7"
    rejected = json.loads((kept / "run.json").read_text())["rejected"]
    assert pathlib.Path(rejected).parent == kept / "rejected"
    assert rejected in str(caught.value)
    assert pathlib.Path(rejected, "Format-Serving").read_text() == "no model"
    assert rejected in (kept / "report.html").read_text()
