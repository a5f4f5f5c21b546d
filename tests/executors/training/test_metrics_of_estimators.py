"""The metrics of record of Estimators that a `run_fn` trains by itself are those of what it exported."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer import FnArgs, train
from generic_trainer.executors.monitoring.metrics_origin import weights_line
from generic_trainer.executors.monitoring.run_record import RunRecord

from ...world.data import outputs_in

X = np.linspace(-1, 1, 32, dtype="float32")
LABELS = 3 * X + 0.5

MODULE = """
    import os
    import shutil
    import tempfile

    import numpy as np
    import tensorflow as tf

    x = np.linspace(-1, 1, 32, dtype="float32")

    def input_fn():
        return tf.data.Dataset.from_tensor_slices(({"x": x}, 3 * x + 0.5)).batch(32).repeat(1)

    def training():
        return input_fn().repeat()

    def run_fn(fn_args):
        plan = fn_args.custom_config["plan"]
        folder = tempfile.mkdtemp()
        column = tf.feature_column.numeric_column("x")
        estimator = tf.estimator.LinearRegressor(
            [column], model_dir=folder, optimizer="SGD"
        )
        for word in plan.split():
            if word == "evaluate":
                estimator.evaluate(input_fn)
            elif word == "both":
                tf.estimator.train_and_evaluate(
                    estimator,
                    tf.estimator.TrainSpec(training, max_steps=20),
                    tf.estimator.EvalSpec(input_fn, throttle_secs=0),
                )
            else:
                estimator.train(training, steps=10)
        def receiver():
            x = tf.compat.v1.placeholder(tf.float32, [None], name="x")
            return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

        step = fn_args.custom_config.get("exported")
        path = os.path.join(folder, f"model.ckpt-{step}") if step else None
        exported = estimator.export_saved_model(folder + "/export", receiver, checkpoint_path=path)
        shutil.copytree(exported.decode(), fn_args.serving_model_dir)
        shutil.rmtree(folder)
"""


def loss_of_export(folder: pathlib.Path) -> float:
    model = tf.saved_model.load(str(folder))
    answers = model.signatures["predict"](x=tf.constant(X))["predictions"].numpy()
    return float(np.mean((answers[:, 0] - LABELS) ** 2))


@pytest.mark.thorough_but("both-None-origin2")
@pytest.mark.legacy
@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "exported", "origin"),
    [
        ("train evaluate", None, {"source": "evaluate", "step": 10}),
        ("train evaluate train evaluate", 10, {"source": "evaluate", "step": 10}),
        ("both", None, {"source": "evaluate", "step": 20}),
        ("train evaluate train", None, {"source": "evaluated again", "step": 20}),
        ("train", None, None),
    ],
)
def test_metrics_are_those_of_the_exported_step(
    module: Callable[..., str], iris: Any, tmp_path: pathlib.Path, plan: str, exported: int | None, origin: Any
) -> None:
    folder = tmp_path / "model" / "Format-Serving"
    fn_args = FnArgs(
        train_files=[iris.train],
        serving_model_dir=str(folder),
        model_run_dir=str(tmp_path / "model_run"),
        custom_config={"plan": plan, "exported": exported},
    )

    train(module(MODULE), fn_args)

    record = json.loads((tmp_path / "model_run" / "run.json").read_text())
    assert record["metrics"]["train"]["loss"] > 0
    assert record["metrics_from"].get("eval") == origin
    if origin is not None:
        assert record["metrics"]["eval"]["average_loss"] == pytest.approx(loss_of_export(folder), rel=1e-4)


@pytest.mark.legacy
@pytest.mark.slow
def test_a_weight_column_is_recorded(module: Callable[..., str], iris: Any, tmp_path: pathlib.Path) -> None:
    source = MODULE.replace('optimizer="SGD"', 'weight_column="w"').replace('{"x": x}, 3', '{"x": x, "w": 1 + x}, 3')
    fn_args = FnArgs(train_files=[iris.train], **outputs_in(tmp_path), custom_config={"plan": "train evaluate"})

    train(module(source), fn_args)

    record = json.loads((tmp_path / "model_run" / "run.json").read_text())
    assert record["evaluation_plan"]["weights"] == "weight column w"
    assert weights_line(RunRecord.from_json(record)) == "", "the Estimator's own metrics are weighted"
