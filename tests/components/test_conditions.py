"""Metrics on the Model artifact decide in TFX's `Cond` whether later steps run, in both of TFX's local runners."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from tfx.components import Pusher
from tfx.dsl.components.common.importer import Importer
from tfx.dsl.experimental.conditionals.conditional import Cond
from tfx.orchestration import metadata, pipeline
from tfx.orchestration.beam.beam_dag_runner import BeamDagRunner
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.proto import pusher_pb2
from tfx.types import standard_artifacts

from generic_trainer import Trainer

REPORTING = """
    import tensorflow as tf
    from generic_trainer import report_progress

    def run_fn(fn_args):
        for step in range(3):
            report_progress(step, metrics={"loss": 1.0 / (step + 1), "val_auc": 0.75})
        module = tf.Module()
        module.weight = tf.Variable(1.0)
        serve = tf.function(lambda x: {"y": module.weight * x}, input_signature=[tf.TensorSpec([None], name="x")])
        tf.saved_model.save(module, fn_args.serving_model_dir, signatures=serve)
"""


@pytest.mark.thorough_but("BeamDagRunner")
@pytest.mark.slow
@pytest.mark.parametrize("runner", [LocalDagRunner, BeamDagRunner])
def test_a_step_runs_if_a_metric_of_the_model_is_good_enough(
    module: Callable[..., str], iris: Any, tmp_path: pathlib.Path, runner: Any
) -> None:
    (tmp_path / "examples").mkdir()
    for split in ("train", "eval"):
        (tmp_path / "examples" / f"Split-{split}").symlink_to(pathlib.Path(iris.train).parents[1] / split)
    examples = Importer(
        source_uri=str(tmp_path / "examples"),
        artifact_type=standard_artifacts.Examples,
        properties={"split_names": '["train", "eval"]'},
    ).with_id("Examples")
    trainer = Trainer(examples=examples.outputs["result"], module_file=module(REPORTING), isolate=False)
    model = trainer.outputs["model"].future()[0]

    def push(name: str) -> Pusher:
        place = pusher_pb2.PushDestination.Filesystem(base_directory=str(tmp_path / name))
        destination = pusher_pb2.PushDestination(filesystem=place)
        return Pusher(model=trainer.outputs["model"], push_destination=destination).with_id(name)

    with Cond(model.custom_property("train/loss") < 0.5):
        good = push("good")
    with Cond(model.custom_property("eval/auc") > 0.9):
        better = push("better")

    runner().run(
        pipeline.Pipeline(
            pipeline_name="conditions",
            pipeline_root=str(tmp_path / "root"),
            components=[examples, trainer, good, better],
            metadata_connection_config=metadata.sqlite_metadata_connection_config(str(tmp_path / "metadata.sqlite")),
        )
    )

    assert (tmp_path / "good").is_dir()
    assert not (tmp_path / "better").exists()
