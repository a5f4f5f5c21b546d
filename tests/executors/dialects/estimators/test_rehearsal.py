"""An Estimator's export is rehearsed before training; and Estimators that a run_fn trains and exports by itself."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from generic_trainer import FnArgs, train
from generic_trainer.executors.modules.keras_version import choose

pytestmark = [pytest.mark.slow, pytest.mark.legacy]
TAKES_KEYWORDS = tf.__version__.startswith("2.15.")  # as names of a signature's inputs

PROGRAM = '''
import json, os, random, sys, traceback
import numpy as np
import tensorflow as tf
from generic_trainer import FnArgs, TrainingOptions
from generic_trainer.executors import dialects
from generic_trainer.executors.dialects import selection
from generic_trainer.executors.estimator import restore_estimator
from generic_trainer.executors.dialects.loading import loaded
from generic_trainer.executors.modules.source import find_source

MODULE = """
import random
import tensorflow as tf
STEPS = []
NAMES = %r

def model_fn(features, labels, mode):
    if mode == tf.estimator.ModeKeys.PREDICT:
        random.random()
        %s
    weight = tf.compat.v1.get_variable("weight", [len(NAMES), 1])
    logits = tf.stack(list(features.values()), 1) @ weight
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"y": logits})
    loss = tf.reduce_mean((logits - labels) ** 2)
    step = tf.compat.v1.train.get_global_step()
    train_op = tf.compat.v1.train.GradientDescentOptimizer(0.01).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, {"y": logits}, loss, train_op)

def input_fn():
    features = {name: [float(number), 1.0] for number, name in enumerate(NAMES)}
    return tf.data.Dataset.from_tensors((features, [[1.0], [2.0]])).repeat(3)

class Noting(tf.compat.v1.train.SessionRunHook):
    def after_run(self, context, values):
        STEPS.append(random.random())

def serving_input_receiver_fn():
    %s
    raw = {name: tf.compat.v1.placeholder(tf.float32, [None]) for name in NAMES}
    return tf.estimator.export.ServingInputReceiver(dict(raw), raw)

hooks = [Noting()]
"""
CASES = {
    "sound": (["a", "capital-gain"], "", ""),
    "receiver": (["a"], "", "{}['label']"),
    "model_fn": (["a"], "1 // 0", ""),
    "late file": (["a"], "", "tf.io.gfile.GFile(__file__ + '.txt').read() if not STEPS else None"),
    "names": (["a", "class"], "", ""),
    "colliding names": (["x.y", "x-y"], "", ""),
}
restore_estimator()
for name, (names, in_model_fn, in_receiver) in CASES.items():
    folder = os.path.join(sys.argv[1], name.replace(" ", "_"))
    os.makedirs(folder)
    path = os.path.join(folder, "job.py")
    with open(path, "w") as file:
        file.write(MODULE % (names, in_model_fn or "pass", in_receiver or "pass"))
    fn_args = FnArgs(serving_model_dir=f"{folder}/model", model_run_dir=f"{folder}/run", seed=1, train_steps=3)
    random.seed(5)
    answer = {}
    with loaded(find_source(path, folder)) as module:
        known = dialects.adapters()
        dialect, _ = selection.choose(module, None, TrainingOptions(), known)
        run_fn = known[dialect].run_fn(module, None, TrainingOptions())
        try:
            run_fn(fn_args)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            answer = {
                "error": f"{type(error).__name__}: {error}", "notes": getattr(error, "__notes__", []),
                "own_line": any(frame.filename == path for frame in frames),
            }
        answer["steps"] = module.STEPS
    if "error" not in answer:
        signatures = tf.saved_model.load(fn_args.serving_model_dir).signatures
        answer["inputs"] = sorted(signatures["serving_default"].structured_input_signature[1])
    answer["checkpoints"] = [file for _, _, files in os.walk(f"{folder}/run") for file in files if "ckpt" in file]
    print(json.dumps([name, answer]), flush=True)
random.seed(5)
print(json.dumps(["expected", [random.random()]]))
print(json.dumps(["left", tf.io.gfile.glob("ram://*")]))
'''


@pytest.fixture(scope="module")
def found(program: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    environment = {**os.environ, **choose("2", []).environment()}
    printed = program(PROGRAM, tmp_path_factory.mktemp("rehearsed"), env=environment)
    return dict(map(json.loads, printed.splitlines()))


@pytest.mark.thorough
def test_a_sound_estimator_trains_and_is_exported(found: dict[str, Any]) -> None:
    answer = found["sound"]
    assert "error" not in answer, answer
    assert len(answer["steps"]) == 3
    assert answer["inputs"] == ["a", "capital-gain"]
    assert answer["steps"][0] == found["expected"][0]  # the rehearsal drew from the same generator
    assert found["left"] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("receiver", "KeyError: 'label'"),
        ("model_fn", "ZeroDivisionError"),
        pytest.param("names", "ModuleError: ", marks=pytest.mark.skipif(TAKES_KEYWORDS, reason="loads there")),
        ("colliding names", "ModuleError: "),
    ],
)
def test_what_the_export_would_raise_is_raised_before_the_first_step(
    found: dict[str, Any], name: str, text: str
) -> None:
    answer = found[name]
    assert answer["error"].startswith(text)
    assert any("before the first training step" in note for note in answer["notes"])
    assert answer["own_line"] or "names" in name
    assert answer["steps"] == []
    assert answer["checkpoints"] == []


def test_an_input_that_cannot_be_loaded_is_named(found: dict[str, Any]) -> None:
    error = found["colliding names"]["error"]
    assert "the signature 'serving_default' has input names with which TensorFlow cannot load the model" in error
    assert "'x-y', 'x.y'" in error
    if TAKES_KEYWORDS:
        assert found["names"]["inputs"] == ["a", "class"]
    else:
        assert "'class'" in found["names"]["error"]


def test_a_file_that_is_not_there_yet_stops_no_training(found: dict[str, Any]) -> None:
    assert "error" not in found["late file"], found["late file"]
    assert len(found["late file"]["steps"]) == 3


# As tensorflow_ranking, which is imported only where tf.estimator is.
RANKING = "import tensorflow as tf\n\nclass RankingHead(tf.compat.v1.estimator.Estimator):\n    pass\n"
EXPORTS_ITSELF = """
    import tensorflow as tf
    import tensorflow_ranking

    def model_fn(features, labels, mode):
        value = tf.compat.v1.layers.dense(tf.reshape(features["sepal_length"], [-1, 1]), 1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, {"y": value})
        loss = tf.reduce_mean(value ** 2)
        step = tf.compat.v1.train.get_global_step()
        train_op = tf.compat.v1.train.GradientDescentOptimizer(0.01).minimize(loss, step)
        return tf.estimator.EstimatorSpec(mode, {"y": value}, loss, train_op)

    def run_fn(fn_args):
        estimator = tf.estimator.Estimator(model_fn, fn_args.model_run_dir + "/work")
        estimator.train(lambda: tf.data.Dataset.from_tensors(({"sepal_length": [1.0]}, [1.0])), max_steps=1)
        spec = {"sepal_length": tf.io.FixedLenFeature([1], tf.float32)}
        receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
        estimator.export_saved_model(fn_args.serving_model_dir, receiver)
"""


def test_an_estimators_own_export_is_published_and_checked_with_what_training_imported(
    module: Callable[..., str], iris: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "tensorflow_ranking.py").write_text(RANKING)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    model = tmp_path / "out" / "model" / "Format-Serving"
    record = train(
        module(EXPORTS_ITSELF),
        FnArgs(
            train_files=[iris.train],
            eval_files=[iris.eval],
            serving_model_dir=str(model),
            model_run_dir=str(tmp_path / "out" / "run"),
        ),
    )
    assert record.check["checks"]["answers"] == "passed"
    assert (model / "saved_model.pb").exists()
    assert sorted(path.name for path in model.iterdir()) == ["saved_model.pb", "variables"]
    tf.saved_model.load(str(model))
