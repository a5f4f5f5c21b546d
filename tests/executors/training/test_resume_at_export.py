"""Estimators, ElasticDL, DLRover and loops with checkpoints: a run that failed in the export does not train again."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer import FnArgs, TrainingOptions, train

from ...world.data import outputs_in

# An Estimator with data that ends and no limit of steps; its weight is changed by chance. The export fails when asked.
ESTIMATOR = """
    import os, pathlib
    import tensorflow as tf

    FAULT = pathlib.Path(os.environ["RESUME"], "fault")

    def input_fn(fn_args, mode):
        return tf.data.Dataset.range(7 if mode == "train" else 2).map(lambda x: ({"x": tf.cast(x, tf.float32)}, 0.0)).batch(1)

    def model_fn(features, labels, mode, params):
        weight = tf.compat.v1.get_variable("weight", [], tf.float32, tf.compat.v1.zeros_initializer())
        step = tf.compat.v1.train.get_or_create_global_step()
        def count(x):
            with open(os.environ["RESUME"] + "/steps", "a") as file:
                file.write("1")
            return 0.0
        if mode == "train":
            with tf.control_dependencies([tf.compat.v1.py_func(count, [features["x"]], tf.float64)]):
                moved = weight.assign_add(tf.random.uniform([]))
            train_op = tf.group(moved, step.assign_add(1))
        else:
            train_op = None
        y = features["x"] * weight
        return tf.estimator.EstimatorSpec(mode, {"y": y}, tf.reduce_mean(y) + weight, train_op)

    def serving_input_receiver_fn():
        if FAULT.exists() and any(FAULT.parent.glob("model_run/checkpoints/unpublished/*.json")):  # it has trained
            raise ZeroDivisionError("in the export")
        x = tf.compat.v1.placeholder(tf.float32, [None], name="x")
        return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})
"""  # noqa: E501

TRAINER_FN = (
    ESTIMATOR
    + """
    def exporters():
        return tf.estimator.BestExporter("best", serving_input_receiver_fn)

    def trainer_fn(fn_args, schema):
        config = tf.estimator.RunConfig(model_dir=fn_args.serving_model_dir, save_checkpoints_steps=100)
        train_spec = tf.estimator.TrainSpec(lambda: input_fn(fn_args, "train"), max_steps=fn_args.train_steps)
        eval_spec = tf.estimator.EvalSpec(lambda: input_fn(fn_args, "eval"), exporters=exporters())
        estimator = tf.estimator.Estimator(model_fn, config=config, params={})
        return {"estimator": estimator, "train_spec": train_spec, "eval_spec": eval_spec}
"""
)

LOOP = """
    import os, pathlib
    import tensorflow as tf
    from generic_trainer import AsyncCheckpoints

    def run_fn(fn_args):
        weight, step = tf.Variable(0.0), tf.Variable(0, dtype=tf.int64)
        state = tf.train.Checkpoint(weight=weight, step=step)
        with AsyncCheckpoints(state, fn_args.checkpoint_dir, max_to_keep=2) as checkpoints:
            checkpoints.restore()
            while int(step) < 7:
                with open(os.environ["RESUME"] + "/steps", "a") as file:
                    file.write("1")
                weight.assign_add(tf.random.uniform([]))
                step.assign_add(1)
                checkpoints.end_if_asked(int(step))
                if int(step) % 3 == 0:
                    checkpoints.save(int(step))
        if pathlib.Path(os.environ["RESUME"], "fault").exists():
            raise ZeroDivisionError("in the export")
        model = tf.Module()
        model.weight = weight
        serve = tf.function(lambda x: {"y": weight * x}, input_signature=[tf.TensorSpec([None], name="x")])
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=serve)
"""

ELASTICDL = """
    import os, pathlib
    import numpy as np
    import tensorflow as tf

    def custom_model():
        inputs = tf.keras.Input((1,), name="x")
        return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs))

    def loss(labels, predictions):
        return tf.reduce_mean(tf.square(labels - predictions)) + tf.random.uniform([])

    def optimizer():
        return tf.keras.optimizers.SGD(0.01)

    def feed(dataset, mode, metadata):
        folder = pathlib.Path(os.environ["RESUME"])
        has_trained = any(folder.glob("model_run/checkpoints/unpublished/*.json"))
        if mode == "prediction" and has_trained and (folder / "fault").exists():
            raise ZeroDivisionError("in the export")
        def parse(record):
            x = tf.reshape(tf.strings.to_number(record), [1])
            return {"x": x} if mode == "prediction" else ({"x": x}, x * 2.0)
        return dataset.map(parse)

    def eval_metrics_fn():
        return {"error": lambda labels, outputs: tf.abs(labels - outputs)}

    class Count(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            with open(os.environ["RESUME"] + "/steps", "a") as file:
                file.write("1")

    def callbacks():
        return [Count()]
"""


class Runs:
    """Runs of a module into one folder."""

    def __init__(self, folder: pathlib.Path, path: str, **given: Any) -> None:
        self.folder, self.path, self.given = folder, path, given

    def run(self, fails: bool) -> tuple[int, dict[str, Any]]:
        """Trains; returns how many steps were trained, and the metrics in the run's record."""
        steps, fault = self.folder / "steps", self.folder / "fault"
        steps.write_text("")
        fault.touch() if fails else fault.unlink(missing_ok=True)
        fn_args = FnArgs(**outputs_in(self.folder), **self.given)
        options = TrainingOptions(skip_checks=("answers",))
        if fails:
            with pytest.raises(ZeroDivisionError):
                train(self.path, fn_args, options)
        else:
            train(self.path, fn_args, options)
        record = json.loads((self.folder / "model_run" / "run.json").read_text())
        return len(steps.read_text()), record["metrics"]

    def weights(self) -> list[float]:
        found = self.folder / "model" / "Format-Serving" / "variables" / "variables"
        reader = tf.train.load_checkpoint(str(found))
        names = [name for name in reader.get_variable_to_shape_map() if re.search("weight|kernel|bias", name)]
        return [float(value) for name in sorted(names) for value in np.ravel(reader.get_tensor(name))]


@pytest.fixture
def runs(tmp_path: pathlib.Path, module: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Runs]:
    monkeypatch.setenv("RESUME", str(tmp_path))
    return lambda source, **given: Runs(tmp_path, module(source), **given)


def latest_weight(folder: pathlib.Path) -> list[float]:
    """The weight in the newest checkpoint below a folder."""
    states = sorted(folder.rglob("checkpoint"), key=lambda path: path.stat().st_mtime)
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(states[-1].parent)))
    [name] = [name for name in reader.get_variable_to_shape_map() if re.match("weight(/.ATTR.*)?$", name)]
    return [float(reader.get_tensor(name))]


@pytest.mark.thorough_but("trainer_fn with max_steps", "loop")
@pytest.mark.legacy
@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "given"),
    [(ESTIMATOR, {}), (TRAINER_FN, {}), (TRAINER_FN, {"train_steps": 7}), (LOOP, {})],
    ids=["model_fn", "trainer_fn", "trainer_fn with max_steps", "loop"],
)
def test_what_was_trained_is_exported_by_the_next_run(
    runs: Callable[..., Runs], source: str, given: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    found = runs(source, **given)
    assert found.run(fails=True)[0] == 7
    trained = latest_weight(tmp_path / "model_run")
    assert found.run(fails=True)[0] == 0
    assert found.run(fails=False)[0] == 0
    assert found.weights() == trained


@pytest.mark.thorough
@pytest.mark.slow
def test_an_elasticdl_job_that_had_finished_is_exported_by_the_next_run(
    runs: Callable[..., Runs], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "rows.csv").write_text("".join(f"{number}\n" for number in range(20)))
    data = str(tmp_path / "rows.csv")
    found = runs(ELASTICDL, train_files=[data], eval_files=[data], custom_config={"minibatch_size": 5, "num_epochs": 2})
    assert found.run(fails=True)[0] == 8
    assert found.run(fails=True)[0] == 0
    steps, metrics = found.run(fails=False)
    assert steps == 0
    assert metrics["eval"]["loss"] > 0
    assert found.run(fails=False)[0] == 8  # that one had published
