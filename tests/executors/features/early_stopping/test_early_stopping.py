"""Early stopping, the best model and termination on NaN, in Keras fits, Estimators and custom loops."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import FnArgs, InputError, TrainingOptions, train
from generic_trainer.executors.goals import Goal
from generic_trainer.executors.modules.keras_version import _tensorflow_release

from ....world.data import outputs_in

MODULES = pathlib.Path(__file__).parents[4] / "module_files"
KERAS = ["3", "2"] if _tensorflow_release() >= (2, 16) else ["2"]

# Its validation loss is |epoch - 3| + 1: a weight rises from 0 in steps of 1, and 3 is best.
FIT = """
    import json
    import numpy as np
    import tensorflow as tf

    def run_fn(fn_args):
        keras = tf.keras
        inputs = keras.Input((1,))
        outputs = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", name="w")(inputs)
        model = keras.Model(inputs, outputs)
        model.compile(keras.optimizers.SGD(1.0), loss=lambda y, p: fn_args.custom_config.get("sign", -1) * p + fn_args.custom_config.get("nan", 0))

        class Distance(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                logs["distance"] = abs(float(self.model.get_weights()[0][0, 0]) - 3)

        x = np.ones([4, 1], "float32")
        history = model.fit(x, x, batch_size=4, epochs=10, callbacks=[Distance()], verbose=0).history
        with open(fn_args.model_run_dir + "/told.json", "w") as file:
            json.dump({"epochs": len(history["loss"]), "weight": float(model.get_weights()[0][0, 0])}, file)

        @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, name="x")])
        def serve(x):
            return {"y": model(x)}

        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=serve)
"""  # noqa: E501


@pytest.fixture
def outcome(module: Callable[..., str], iris: Any, tmp_path: pathlib.Path) -> Callable[..., dict[str, float]]:
    def run(options: TrainingOptions, source: str = FIT, **config: float) -> dict[str, float]:
        fn_args = FnArgs(train_files=[iris.train], **outputs_in(tmp_path), custom_config=config)
        train(module(source), fn_args, options)
        return json.loads((tmp_path / "model_run" / "told.json").read_text())

    return run


@pytest.mark.thorough_but("3")
@pytest.mark.parametrize("keras", KERAS)
def test_a_fit_stops_early_with_its_best_weights(outcome: Callable[..., dict[str, float]], keras: str) -> None:
    # 3 is reached after epoch 3; epochs 4 and 5 do not improve on it.
    stopped = outcome(TrainingOptions(keras=keras, early_stop="distance:2"))
    assert stopped == {"epochs": 5, "weight": 5.0}
    best = outcome(TrainingOptions(keras=keras, best_model="distance"))
    assert best == {"epochs": 10, "weight": 3.0}
    both = outcome(TrainingOptions(keras=keras, best_model="distance", early_stop="distance:4"))
    assert both == {"epochs": 7, "weight": 3.0}
    worst = outcome(TrainingOptions(keras=keras, best_model="distance:max"))
    assert worst == {"epochs": 10, "weight": 10.0}


def test_an_unknown_metric_is_reported(outcome: Callable[..., dict[str, float]]) -> None:
    with pytest.raises(
        InputError, match=r"early_stop=val_los:3:min: fit has no metric 'val_los'; it has distance, loss"
    ):
        outcome(TrainingOptions(early_stop="val_los"))


def test_nan_ends_a_fit_only_on_request(outcome: Callable[..., dict[str, float]]) -> None:
    with pytest.raises(FloatingPointError, match="stop_on_nan: loss is nan after step"):
        outcome(TrainingOptions(stop_on_nan=True), nan=float("nan"))


def test_nan_ends_a_loop_that_reports_it(outcome: Callable[..., dict[str, float]]) -> None:
    loop = """
        from generic_trainer import report_progress

        def run_fn(fn_args):
            report_progress(7, metrics={"loss": float("inf")})
    """
    with pytest.raises(FloatingPointError, match="stop_on_nan: loss is inf after step 7"):
        outcome(TrainingOptions(stop_on_nan=True), loop)


@pytest.mark.thorough
@pytest.mark.legacy
@pytest.mark.slow
def test_an_estimator_stops_early(iris: Any, tmp_path: pathlib.Path, module: Callable[..., str]) -> None:
    """With a learning rate of 0, no evaluation (one every 20 steps) improves on the first."""
    source = (MODULES / "iris_estimator.py").read_text()
    source = source.replace("tf_random_seed=fn_args.seed)", "save_checkpoints_steps=20)")
    source = source.replace("steps=fn_args.eval_steps,", "throttle_secs=0,")
    fn_args = FnArgs(
        train_files=[iris.train],
        eval_files=[iris.eval],
        schema_path=iris.schema,
        train_steps=20_000,
        **outputs_in(tmp_path),
        eval_model_dir=str(tmp_path / "model" / "Format-TFMA"),
        custom_config={"learning_rate": 0.0},
    )
    path = module(source)
    for options, message in (
        (TrainingOptions(best_model="accuracy"), "best_model=accuracy:max: an Estimator exports its best model with"),
        (TrainingOptions(early_stop="los"), "early_stop=los:3:min: the evaluation at step 20 has no metric 'los'"),
    ):
        with pytest.raises(InputError, match=message):
            train(path, fn_args, options)
    train(path, fn_args, TrainingOptions(early_stop="loss:2"))
    steps = [int(file.stem.rpartition("-")[2]) for file in tmp_path.rglob("model.ckpt-*.index")]
    assert 60 <= max(steps) < 5_000


def test_determinism_is_bitwise(module: Callable[..., str], iris: Any, tmp_path: pathlib.Path) -> None:
    """By default an unsorted segment sum adds in any order, and random numbers differ between runs."""
    source = """
        import json
        import tensorflow as tf

        def run_fn(fn_args):
            x = tf.random.normal([100_000])
            total = tf.math.unsorted_segment_sum(x, tf.zeros([100_000], tf.int32), 1)
            with open(fn_args.model_run_dir + "/told.json", "w") as file:
                json.dump({"seed": fn_args.seed, "sum": float(total[0])}, file)
            module = tf.Module()
            module.weight = tf.Variable(1.0)
            serve = tf.function(lambda x: {"y": module.weight * x}, input_signature=[tf.TensorSpec([None], name="x")])
            tf.saved_model.save(module, fn_args.serving_model_dir, signatures=serve)
    """
    told = []
    for number in range(2):
        folder = tmp_path / str(number)
        fn_args = FnArgs(train_files=[iris.train], **outputs_in(folder))
        train(module(source), fn_args, TrainingOptions(deterministic=True))
        told.append(json.loads((folder / "model_run" / "told.json").read_text()))
    assert told[0] == told[1]
    assert told[0]["seed"] == 0


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("val_loss", Goal("val_loss", 3, "min")),
        ("val_auc:5", Goal("val_auc", 5, "max")),
        ("val_accuracy:min:2", Goal("val_accuracy", 2, "min")),
        ("false_positives", Goal("false_positives", 3, "min")),
    ],
)
def test_a_goal_is_parsed(text: str, goal: Goal) -> None:
    assert Goal.parse(text, "early_stop", 3) == goal


@pytest.mark.parametrize("text", ["", ":3", "loss:0", "loss:-1", "loss:best", "loss:1:min:2"])
def test_an_invalid_goal_is_rejected(text: str) -> None:
    with pytest.raises(InputError, match=r"use METRIC\[:PATIENCE\]"):
        Goal.parse(text, "early_stop")


def test_nan_is_never_better() -> None:
    goal = Goal("loss", 2, "min")
    nan = float("nan")
    assert goal.best([nan, 2.0, nan, 1.0, nan]) == 3
    assert not goal.is_over([nan, 2.0, nan])
    assert goal.is_over([2.0, nan, nan])
    assert not goal.is_over([])
