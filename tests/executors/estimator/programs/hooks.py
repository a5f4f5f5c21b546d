"""Every hook that `tf.estimator` and `tf.compat.v1.train` offer, each seen to do its work."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import events
import lifecycle
import people
import tensorflow as tf

v1 = tf.compat.v1


def _estimator(folder: str, **options: Any) -> Any:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        value = v1.layers.dense(tf.concat([features["age"], features["hours"]], 1), 1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, {"value": tf.identity(value, name="the_loss")})
        loss = tf.identity(v1.losses.mean_squared_error(labels, value), name="the_loss")
        v1.summary.scalar("value", tf.reduce_mean(value))
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, value, loss, train_op)

    return tf.estimator.Estimator(model_fn, config=lifecycle.config(folder, **options))


def session_run_hook(folder: str) -> None:
    """Its methods are called in order, around each step and in evaluate and predict as well."""
    calls = []

    class Hook(tf.estimator.SessionRunHook):
        def begin(self) -> None:
            calls.append("begin")
            self.loss = v1.get_default_graph().get_tensor_by_name("the_loss:0")

        def after_create_session(self, session: Any, coord: Any) -> None:
            calls.append("session")

        def before_run(self, run_context: Any) -> Any:
            return tf.estimator.SessionRunArgs(self.loss)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            calls.append(run_values.results)
            if len(calls) > 9:
                run_context.request_stop()

        def end(self, session: Any) -> None:
            calls.append("end")

    estimator = _estimator(folder)
    estimator.train(people.batches(people.INCOME), hooks=[Hook()])
    assert calls[:2] == ["begin", "session"]
    assert calls[-1] == "end"
    assert len(calls) == 11
    calls.clear()
    estimator.evaluate(people.batches(people.INCOME), steps=2, hooks=[Hook()])
    assert len(calls) == 5
    calls.clear()
    list(estimator.predict(people.batches(people.INCOME, epochs=1), hooks=[Hook()]))
    assert len(calls) == 7, calls  # four batches


def stop_at_step(folder: str) -> None:
    estimator = _estimator(folder)
    estimator.train(people.batches(people.INCOME), hooks=[tf.estimator.StopAtStepHook(num_steps=6)])
    estimator.train(people.batches(people.INCOME), hooks=[tf.estimator.StopAtStepHook(last_step=9)])
    assert estimator.get_variable_value("global_step") == 9


def logging_tensor(folder: str) -> None:
    lines = []
    hook = tf.estimator.LoggingTensorHook(
        {"it": "the_loss"}, every_n_iter=4, at_end=True, formatter=lambda values: lines.append(values["it"]) or "logged"
    )
    _estimator(folder).train(people.batches(people.INCOME), steps=8, hooks=[hook])
    assert len(lines) == 3, lines  # steps 1 and 5, and the end
    assert lines[-1] < lines[0]


def step_counter_and_summary_saver(folder: str) -> None:
    counter, summaries = os.path.join(folder, "counter"), os.path.join(folder, "summaries")

    class Saver(tf.estimator.SessionRunHook):
        """A SummarySaverHook has to be made in the model's graph."""

        def begin(self) -> None:
            self.hook = tf.estimator.SummarySaverHook(
                save_steps=2, output_dir=summaries, summary_op=v1.summary.merge_all()
            )
            self.hook.begin()

        def before_run(self, run_context: Any) -> Any:
            return self.hook.before_run(run_context)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.hook.after_run(run_context, run_values)

        def end(self, session: Any) -> None:
            self.hook.end(session)

    hooks = [tf.estimator.StepCounterHook(every_n_steps=3, output_dir=counter), Saver()]
    _estimator(folder).train(people.batches(people.INCOME), steps=10, hooks=hooks)
    assert events.tags(counter) == {"global_step/sec"}
    assert "value" in events.tags(summaries)


def checkpoint_saver_and_its_listener(folder: str) -> None:
    calls = []

    class Listener(tf.estimator.CheckpointSaverListener):
        def begin(self) -> None:
            calls.append("begin")

        def before_save(self, session: Any, global_step_value: int) -> None:
            calls.append(("before", int(global_step_value)))

        def after_save(self, session: Any, global_step_value: int) -> None:
            calls.append(("after", int(global_step_value)))

        def end(self, session: Any, global_step_value: int) -> None:
            calls.append(("end", int(global_step_value)))

    estimator = _estimator(folder, save_checkpoints_steps=4)
    estimator.train(people.batches(people.INCOME), steps=8, saving_listeners=[Listener()])
    assert calls[0] == "begin"
    assert [step for name, step in calls[1:] if name == "after"] == [0, 4, 8]
    assert calls[-1] == ("end", 8)
    own = _estimator(os.path.join(folder, "own"), save_checkpoints_steps=None, save_checkpoints_secs=None)
    elsewhere = os.path.join(folder, "elsewhere")
    hook = tf.estimator.CheckpointSaverHook(elsewhere, save_steps=5)
    own.train(people.batches(people.INCOME), steps=6, hooks=[hook])
    assert tf.train.latest_checkpoint(elsewhere).endswith("model.ckpt-6")
    assert tf.train.latest_checkpoint(own.model_dir) is None


def in_memory_evaluator(folder: str) -> None:
    estimator = _estimator(folder)
    hook = tf.estimator.experimental.InMemoryEvaluatorHook(
        estimator, people.batches(people.INCOME, epochs=1), every_n_iter=5
    )
    estimator.train(people.batches(people.INCOME), steps=10, hooks=[hook])
    assert "loss" in events.tags(os.path.join(folder, "model", "eval"))


def stop_at_checkpoint_step(folder: str) -> None:
    estimator = _estimator(folder, save_checkpoints_steps=5)
    hook = tf.estimator.experimental.make_stop_at_checkpoint_step_hook(
        estimator, last_step=10, wait_after_file_check_secs=0
    )
    estimator.train(people.batches(people.INCOME), hooks=[hook])
    assert estimator.get_variable_value("global_step") == 10


def feed_final_ops_and_waiter(folder: str) -> None:
    final = []

    class Final(tf.estimator.SessionRunHook):
        def begin(self) -> None:
            self.hook = tf.estimator.FinalOpsHook(v1.train.get_global_step())

        def end(self, session: Any) -> None:
            self.hook.end(session)
            final.append(int(self.hook.final_ops_values))

    hooks = [Final(), tf.estimator.GlobalStepWaiterHook(0), tf.estimator.FeedFnHook(lambda: None)]
    _estimator(folder).train(people.batches(people.INCOME), steps=3, hooks=hooks)
    assert final == [3]


def profiler(folder: str) -> None:
    """It has to be made in a graph: its constructor opens a file that eager mode refuses, on TensorFlow 2.15 too."""
    try:
        tf.estimator.ProfilerHook(save_steps=2, output_dir=folder)
    except RuntimeError as error:
        assert "not compatible with eager" in str(error)  # noqa: PT017 (this is not pytest's process)
    else:
        raise AssertionError
    with tf.Graph().as_default():
        hook = tf.estimator.ProfilerHook(save_steps=2, output_dir=folder)
    _estimator(folder).train(people.batches(people.INCOME), steps=5, hooks=[hook])
    assert list(pathlib.Path(folder).glob("timeline-*.json"))


def nan_tensor(folder: str) -> None:
    """A model's loss that is NaN stops the training."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        weight = v1.get_variable("weight", [1])
        loss = tf.reduce_mean(tf.math.log(weight - weight - 1.0))
        train_op = v1.assign_add(v1.train.get_global_step(), 1)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    try:
        tf.estimator.Estimator(model_fn, config=lifecycle.config(folder)).train(people.batches(people.OLD), steps=5)
    except tf.estimator.NanLossDuringTrainingError as error:
        assert "NaN loss" in str(error)  # noqa: PT017 (this is not pytest's process)
    else:
        raise AssertionError


def timers(folder: str) -> None:
    timer = tf.estimator.SecondOrStepTimer(every_steps=2)
    timer.update_last_triggered_step(1)
    assert [timer.should_trigger_for_step(step) for step in (2, 3)] == [False, True]
