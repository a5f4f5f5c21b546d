"""Additions of the runtime to `tf.estimator`: more precise errors, and TFMA's export where TFMA lacks it."""

from __future__ import annotations

import os
from typing import Any

import lifecycle
import numpy as np
import people
import tensorflow as tf

from generic_trainer.executors.estimator import hooks, session_calls, tfma_export, train_spec

v1 = tf.compat.v1


def _spec(input_fn: Any, max_steps: int | None = None, **options: Any) -> Any:
    return tf.estimator.TrainSpec(input_fn, max_steps, **options)


def nan_loss(folder: str) -> None:
    """The loss is finite in the first three steps and NaN in the fourth; the error names that step."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
        with tf.name_scope("ctr"):
            loss = tf.identity(tf.math.log(3.0 - weight), name="loss")  # log 3, log 2, log 1, then log 0
            loss = tf.identity(tf.where(weight > 2.5, np.nan, loss), name="total")
        step = v1.assign_add(v1.train.get_global_step(), 1)
        with tf.control_dependencies([loss]):
            train_op = tf.group(step, v1.assign_add(weight, 1.0))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    class Mine(tf.estimator.SessionRunHook):
        pass

    estimator = tf.estimator.Estimator(model_fn, config=lifecycle.config(folder))
    spec = hooks.watch_loss(_spec(people.batches(people.OLD), 10, hooks=[Mine()]))
    assert [type(hook).__name__ for hook in spec.hooks] == ["Mine", "NanLossHook"]
    try:
        tf.estimator.train_and_evaluate(estimator, spec, tf.estimator.EvalSpec(people.batches(people.OLD)))
    except tf.estimator.NanLossDuringTrainingError as error:
        assert "The loss 'ctr/total:0' is NaN at global step 4." in str(error), error  # noqa: PT017 (not pytest's)
    else:
        raise AssertionError("it trains")


def nan_loss_under_a_strategy(folder: str) -> None:
    """The check applies to the loss that the strategy reduces from its replicas."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        weight = v1.get_variable("weight", [])
        loss = tf.identity(weight * np.nan, name="loss")
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    estimator = tf.estimator.Estimator(model_fn, config=lifecycle.config(folder, train_distribute=strategy))
    try:
        estimator.train(people.batches(people.OLD), steps=3, hooks=[hooks.NanLossHook()])
    except tf.estimator.NanLossDuringTrainingError as error:
        assert "is NaN at global step 1." in str(error), error  # noqa: PT017
    else:
        raise AssertionError("it trains")


def a_loss_without_nan_trains_on(folder: str) -> None:
    estimator = tf.estimator.LinearRegressor(people.numeric(), config=lifecycle.config(folder))
    estimator.train(people.batches(people.INCOME), steps=5, hooks=[hooks.NanLossHook()])
    assert estimator.get_variable_value("global_step") == 5


def endless_training_and_evaluation(folder: str) -> None:
    estimator = tf.estimator.LinearRegressor(people.numeric(), config=lifecycle.config(folder))
    endless, once = people.batches(people.INCOME), people.batches(people.INCOME, epochs=1)

    def parsed(config: Any, mode: str) -> Any:
        """Records of files in random order: their number is unknown, but they repeat."""
        files = tf.data.Dataset.list_files(os.path.join(folder, "*.tfrecord"), shuffle=False)
        return files.interleave(tf.data.TFRecordDataset).shuffle(8).repeat().batch(4).map(lambda record: record)

    with tf.io.TFRecordWriter(os.path.join(folder, "a.tfrecord")) as writer:
        writer.write(b"record")
    ends = tf.estimator.EvalSpec(once, steps=None)

    def find(train: Any, evaluation: Any = ends) -> str | None:
        return train_spec.find_endless(estimator, train, evaluation)

    for input_fn in (endless, parsed):
        problem = find(_spec(input_fn))
        assert problem is not None
        assert "max_steps=None" in problem
        problem = find(_spec(once), tf.estimator.EvalSpec(input_fn, steps=None))
        assert problem is not None
        assert "EvalSpec has steps=None" in problem
        assert find(_spec(input_fn, 10), tf.estimator.EvalSpec(input_fn, steps=3)) is None
    assert find(_spec(once)) is None
    assert find(_spec(endless, hooks=[tf.estimator.StopAtStepHook(3)])) is None  # a hook can stop it
    assert find(_spec(lambda: ({"age": tf.constant([[1.0]])}, tf.constant([1])))) is None  # not a dataset: unknown


def tfma_eval_receiver(folder: str) -> None:
    """`tfma.export.build_parsing_eval_input_receiver_fn`, and the evaluation model written with it."""
    spec = {name: people.SPEC[name] for name in ("age", "hours")}
    estimator = tf.estimator.LinearRegressor([people.numeric()[0]], config=lifecycle.config(folder))
    estimator.train(people.batches(people.INCOME), steps=5)
    receiver_fn = tfma_export.build_parsing_eval_input_receiver_fn(spec, label_key="hours")
    with tf.Graph().as_default(), v1.Session() as session:
        receiver = receiver_fn()
        assert set(receiver.features) == {"age", "hours"}
        values = session.run(receiver.labels, {receiver.receiver_tensors["examples"]: people.serialized()})
        assert tfma_export.build_parsing_eval_input_receiver_fn(spec, None)().labels is None
    np.testing.assert_array_equal(values, people.FEATURES["hours"])
    from generic_trainer.executors.estimator import eval_export

    export = eval_export.export_eval_savedmodel(estimator, os.path.join(folder, "eval_model"), receiver_fn)
    labels = tf.saved_model.load(export, tags=["eval"]).signatures["transform_features"]
    np.testing.assert_array_equal(labels(tf.constant(people.serialized()))["label"], people.FEATURES["hours"])


class _Losses(tf.estimator.SessionRunHook):
    """Records the loss of each step through several kinds of fetches, and feeds the rate if it is a placeholder."""

    def __init__(self, rate: float | None) -> None:
        self.rate = rate
        self.seen: list[float] = []

    def before_run(self, run_context: Any) -> Any:
        graph = v1.get_default_graph()
        feeds = None if self.rate is None else {graph.get_tensor_by_name("rate:0"): self.rate}
        asked = {
            "loss": [graph.get_tensor_by_name("mse/loss:0")],
            "step": ("global_step:0", v1.train.get_global_step()),
        }
        return tf.estimator.SessionRunArgs(asked, feed_dict=feeds)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        (loss,), steps = run_values.results["loss"], run_values.results["step"]
        assert run_values.results["loss"].__class__ is list
        assert steps.__class__ is tuple
        self.seen.append(float(loss))


def _with_dropout(folder: str, name: str, fed: bool) -> Any:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        rate = v1.placeholder(tf.float32, [], name="rate") if fed else 0.01
        inputs = tf.concat([features["age"], features["hours"]], 1)
        hidden = v1.layers.dropout(v1.layers.dense(inputs, 8, tf.nn.relu), 0.3, training=True)
        with tf.name_scope("mse"):
            loss = tf.reduce_mean(tf.square(labels - v1.layers.dense(hidden, 1)), name="loss")
        train_op = v1.train.AdamOptimizer(rate).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return tf.estimator.Estimator(model_fn, config=lifecycle.config(os.path.join(folder, name)))


def shorter_calls_change_no_bit(folder: str) -> None:
    """Weights and losses equal those of `Session.run`, also with fed values and traces."""
    expected: dict[bool, Any] = {}
    for fed in (False, True):
        for number in range(2):
            tf.keras.utils.set_random_seed(1)
            estimator = _with_dropout(folder, f"{fed}-{number}", fed)
            losses = _Losses(0.01 if fed else None)
            traces = os.path.join(folder, f"traces-{fed}-{number}")
            with tf.Graph().as_default():  # its writer does not support TensorFlow 2 mode
                tracing = v1.train.ProfilerHook(save_steps=200, output_dir=traces)
            added = [session_calls.SessionCallsHook()] if number else []
            estimator.train(people.batches(people.INCOME), hooks=[losses, tracing, *added], steps=450)
            values = [estimator.get_variable_value(name) for name in estimator.get_variable_names()]
            if not number:
                expected[fed] = losses.seen, values
            assert losses.seen == expected[fed][0]
            for value, other in zip(values, expected[fed][1], strict=True):
                np.testing.assert_array_equal(value, other)
            assert os.listdir(traces)
    assert expected[False][0][0] > 1.5 * expected[False][0][-1]


def shorter_calls_say_where_it_failed(folder: str) -> None:
    """A failing operation raises the same error as `Session.run`, with the line that created it."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
        loss = tf.debugging.check_numerics(1 / (3.0 - weight), "an odd loss")
        step = v1.assign_add(v1.train.get_global_step(), 1)
        with tf.control_dependencies(
            [loss]
        ):  # otherwise the read may precede the change in one step and follow it in the next
            train_op = tf.group(step, v1.assign_add(weight, 1.0))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def message(name: str, *added: Any) -> str:
        estimator = tf.estimator.Estimator(model_fn, config=lifecycle.config(os.path.join(folder, name)))
        try:
            estimator.train(people.batches(people.OLD), hooks=added, steps=10)
        except tf.errors.InvalidArgumentError as error:
            return str(error)
        raise AssertionError("it trains")

    short, plain = (message(name, *hooks) for name, *hooks in (["short", session_calls.SessionCallsHook()], ["plain"]))
    assert "an odd loss" in short, short
    assert "in model_fn" in short, short
    assert short == plain
