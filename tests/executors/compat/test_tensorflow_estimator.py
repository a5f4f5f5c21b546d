"""Every private name of tensorflow-estimator that is used, called on one small Estimator, in a process with Keras 2."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from generic_trainer.executors.modules.keras_version import choose

from ...world.modules import ESTIMATOR_PARTS

pytestmark = pytest.mark.legacy

PROGRAM = """
import inspect, json, os, sys
from generic_trainer.executors.compat import tensorflow_estimator as compat
found = {"before": [compat.estimator_class() is None, compat.executor_class() is None]}

import tensorflow as tf
from generic_trainer.executors.compat.tensorflow import mark_variables_written, parse_saved_model
from generic_trainer.executors.estimator import restore_estimator
from generic_trainer.executors.compat.patching import replaced

restore_estimator()
FOLDER = sys.argv[1]
calls = []


def noted(name, argument=None):
    def call(original, *args, **options):
        given = inspect.signature(original).bind(*args, **options).arguments
        result = original(*args, **options)
        calls.append([name, repr(given[argument]) if argument else str(float(result))])
        return result
    return call


os.chdir(FOLDER)
estimator = tf.estimator.Estimator(model_fn, "first")
base = compat.import_estimator_class()
found["is base"] = [isinstance(estimator, base), base is compat.estimator_class()]
exporter = tf.estimator.FinalExporter("final", receiver_fn)
best = tf.estimator.BestExporter("best", receiver_fn)
found["receivers"] = [compat.serving_receiver_fn_of(one) is receiver_fn for one in (exporter, best)]
with tf.Graph().as_default():
    given = compat.call_input_fn(estimator, lambda mode, config: (mode, config.model_dir), tf.estimator.ModeKeys.EVAL)
found["input"] = [given[0], os.path.basename(given[1])]
found["no receiver"] = compat.serving_receiver_fn_of(object())

with tf.Graph().as_default():
    builder = tf.compat.v1.saved_model.Builder("graph")
    mark_variables_written(builder)
    compat.add_serving_graph(estimator, builder, receiver_fn, tf.estimator.ModeKeys.PREDICT)
    builder.save()
[graph] = parse_saved_model("graph").meta_graphs
found["graph"] = ["serving_default" in graph.signature_def, "serve" in graph.meta_info_def.tags]

compat.move(estimator, os.path.abspath("second"))
found["moved"] = [os.path.basename(estimator.model_dir), os.path.basename(estimator.config.model_dir)]
with (
    replaced(compat.executor_class(), "__init__", noted("specs", "train_spec")),
    replaced(base, compat.TRAINING_LOOP, noted("loss")),
    replaced(base, compat.MODEL_FN_CALL, noted("mode", "mode")),
    replaced(base, compat.EXPORT, noted("export", "export_dir_base")),
):
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(input_fn, max_steps=2),
        tf.estimator.EvalSpec(input_fn, steps=1, exporters=[exporter]),
    )
found["calls"] = calls
found["files"] = [os.path.exists("first/checkpoint"), os.path.exists("second/checkpoint")]
found["metrics"] = {step: sorted(metrics) for step, metrics in compat.read_eval_metrics(estimator.eval_dir()).items()}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if importlib.util.find_spec("tensorflow_estimator") is None:
        pytest.skip("tensorflow-estimator is not installed.")
    folder: pathlib.Path = tmp_path_factory.mktemp("estimator")
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ESTIMATOR_PARTS + PROGRAM), str(folder)],
        env={**os.environ, **choose("2", []).environment()}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    result: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return result


def test_the_class_is_found_once_it_is_imported(found: dict[str, Any]) -> None:
    assert found["before"] == [True, True]
    assert found["is base"] == [True, True]


def test_an_input_function_gets_the_arguments_that_it_takes(found: dict[str, Any]) -> None:
    assert found["input"] == ["eval", "first"]


def test_an_exporters_serving_input_function_is_found(found: dict[str, Any]) -> None:
    assert found["receivers"] == [True, True]
    assert found["no receiver"] is None


def test_a_serving_graph_is_made_without_a_checkpoint(found: dict[str, Any]) -> None:
    assert found["graph"] == [True, True]


def test_an_estimator_is_moved(found: dict[str, Any]) -> None:
    assert found["moved"] == ["second", "second"]
    assert found["files"] == [False, True]


def test_training_evaluation_and_export_pass_their_hook_points(found: dict[str, Any]) -> None:
    calls = [(name, value) for name, value in found["calls"]]
    assert "max_steps=2" in next(value for name, value in calls if name == "specs")
    [loss] = [value for name, value in calls if name == "loss"]
    assert float(loss) >= 0
    assert {"'train'", "'eval'", "'infer'"} == {value for name, value in calls if name == "mode"}
    [folder] = [value for name, value in calls if name == "export"]
    assert "export/final" in folder


def test_the_metrics_of_evaluations_are_read_by_their_steps(found: dict[str, Any]) -> None:
    assert {step: "loss" in names for step, names in found["metrics"].items()} == {"2": True}
