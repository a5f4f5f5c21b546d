"""The evaluation model of an Estimator: predictions and labels from the same serialized examples."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

# Trains y = w x from w = 0 on, saving a checkpoint after each of two steps; w is larger in the second.
PROGRAM = """
    import sys, types
    from generic_trainer.executors.estimator import restore_estimator
    restore_estimator()
    from generic_trainer.executors.estimator.eval_export import export_eval_savedmodel
    import tensorflow as tf

    def input_fn():
        x = tf.constant([[1.0], [2.0]])
        return tf.data.Dataset.from_tensors(({"x": x}, 3 * x)).repeat()

    def receiver_fn():
        examples = tf.compat.v1.placeholder(tf.string, [None])
        raw = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})
        labels = {"triple": 3 * raw["x"], "square": raw["x"] ** 2} if SEVERAL else 3 * raw["x"]
        return types.SimpleNamespace(features=raw, labels=labels, receiver_tensors={"examples": examples})

    estimator = tf.estimator.LinearRegressor(
        [tf.feature_column.numeric_column("x")], model_dir=sys.argv[1],
        config=tf.estimator.RunConfig(save_checkpoints_steps=1, tf_random_seed=1),
    )
    estimator.train(input_fn, steps=2)
    examples = []
    for value in (1.0, 4.0):
        example = tf.train.Example()
        example.features.feature["x"].float_list.value.append(value)
        examples.append(example.SerializeToString())

    def answers(**options):
        folder = export_eval_savedmodel(
            estimator=estimator, export_dir_base=sys.argv[1] + "-eval", eval_input_receiver_fn=receiver_fn, **options
        )
        model = tf.compat.v1.saved_model.load_v2(folder, tags=["eval"])
        called = {name: model.signatures[name](tf.constant(examples)) for name in ("predict", "transform_features")}
        return {key: value.numpy()[:, 0].tolist() for outputs in called.values() for key, value in outputs.items()}

    def by_hand(checkpoint):
        reader = tf.train.load_checkpoint(checkpoint)
        weight, bias = (reader.get_tensor("linear/linear_model/" + n) for n in ("x/weights", "bias_weights"))
        return [float(weight[0, 0] * x + bias[0]) for x in (1.0, 4.0)]

    first, last = (sys.argv[1] + f"/model.ckpt-{step}" for step in (1, 2))
    import json
    print(json.dumps([[answers(), by_hand(last)], [answers(checkpoint_path=first), by_hand(first)]]))
"""


def run(folder: pathlib.Path, several: bool) -> list[Any]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_USE_LEGACY_KERAS", None)
    line = [sys.executable, "-c", f"SEVERAL = {several}\n{textwrap.dedent(PROGRAM)}", str(folder / "model")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.thorough
@pytest.mark.slow
def test_predictions_and_the_label_come_from_the_same_examples(tmp_path: pathlib.Path) -> None:
    (latest, by_the_last), (earlier, by_the_first) = run(tmp_path, several=False)
    assert latest["label"] == earlier["label"] == [3.0, 12.0]
    assert latest["predictions"] == pytest.approx(by_the_last)
    assert earlier["predictions"] == pytest.approx(by_the_first)
    assert by_the_first != by_the_last


@pytest.mark.thorough
@pytest.mark.slow
def test_several_labels_keep_their_names(tmp_path: pathlib.Path) -> None:
    [latest, _], _ = run(tmp_path, several=True)
    assert (latest["triple"], latest["square"]) == ([3.0, 12.0], [1.0, 16.0])
    assert "label" not in latest


RECEIVER = """

import tensorflow_model_analysis as tfma


def eval_input_receiver_fn():
    examples = tf.compat.v1.placeholder(tf.string, [None])
    spec = {"image": tf.io.FixedLenFeature([64], tf.float32), "label": tf.io.FixedLenFeature([1], tf.int64)}
    features = tf.io.parse_example(examples, spec)
    labels = features.pop("label")
    return tfma.export.EvalInputReceiver(features=features, receiver_tensors={"examples": examples}, labels=labels)


def exporters():
    def is_better(best_eval_result, current_eval_result):
        return False

    return tf.estimator.BestExporter("best", serving_input_receiver_fn, compare_fn=is_better)
"""


@pytest.mark.slow
def test_what_is_evaluated_has_the_weights_of_what_is_published(
    command: Command, module: Callable[..., str], digits: Any, tmp_path: pathlib.Path
) -> None:
    """To this exporter no evaluation after the first is better, so it publishes the checkpoint of step 200."""
    import tensorflow as tf

    source = pathlib.Path(__file__).parents[3] / "module_files" / "digits_model_fn.py"
    path = module(source.read_text() + RECEIVER)
    data = ["--train-files", digits.train, "--eval-files", digits.eval, "--output", tmp_path / "out"]
    done = command("train", path, *data, "--train-steps", 400, "--seed", 1)
    assert done.returncode == 0, done.stderr[-3000:]
    model = tmp_path / "out" / "model"
    steps = {
        name: tf.train.load_variable(str(model / name / "variables" / "variables"), "global_step")
        for name in ("Format-Serving", "Format-TFMA")
    }
    assert steps == {"Format-Serving": 200, "Format-TFMA": 200}
