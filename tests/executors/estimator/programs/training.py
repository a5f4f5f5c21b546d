"""train_and_evaluate, exporters, exports, RunConfig, input functions and early stopping."""

from __future__ import annotations

import base64
import json
import os
import pathlib
from typing import Any

import events
import lifecycle
import numpy as np
import people
import tensorflow as tf

v1 = tf.compat.v1


def _classifier(folder: str, **options: Any) -> Any:
    return tf.estimator.LinearClassifier(people.numeric(), config=lifecycle.config(folder, **options))


def _regressor(folder: str, **options: Any) -> Any:
    """Its evaluation takes a third of the time of a classifier's, which computes eight metrics."""
    return tf.estimator.LinearRegressor(people.numeric(), config=lifecycle.config(folder, **options))


def _numeric(labels: Any, epochs: int | None = None) -> Any:
    return people.batches(labels, {name: people.FEATURES[name] for name in ("age", "hours")}, epochs)


def _exports(folder: str, name: str) -> list[str]:
    return sorted(map(str, pathlib.Path(folder, "model", "export", name).glob("[0-9]*")))


def train_and_evaluate_with_three_exporters(folder: str) -> dict[str, Any]:
    """FinalExporter exports once, at the end; Latest keeps the two newest, Best each improvement."""
    receiver = people.receiver()
    exporters = [
        tf.estimator.FinalExporter("final", receiver),
        tf.estimator.LatestExporter("latest", receiver, exports_to_keep=2),
        tf.estimator.BestExporter("best", receiver, exports_to_keep=2),
    ]
    estimator = _regressor(folder, save_checkpoints_steps=10, keep_checkpoint_max=3)
    metrics, exported = tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(_numeric(people.INCOME), max_steps=50),
        tf.estimator.EvalSpec(_numeric(people.INCOME, 1), steps=None, exporters=exporters, throttle_secs=0),
    )
    counts = {name: len(_exports(folder, name)) for name in ("final", "latest", "best")}
    assert counts == {"final": 1, "latest": 2, "best": 2}, counts
    assert len(exported) == 3
    state = tf.train.get_checkpoint_state(estimator.model_dir)
    kept = [os.path.basename(path) for path in state.all_model_checkpoint_paths]
    assert kept == ["model.ckpt-30", "model.ckpt-40", "model.ckpt-50"], kept
    assert len(list(pathlib.Path(estimator.model_dir).glob("model.ckpt-*.index"))) == 3
    predictions = list(estimator.predict(_numeric(people.INCOME, 1)))
    lifecycle.same_answers(_exports(folder, "final")[0], predictions)
    return lifecycle.numbers(metrics)


def best_exporter_with_every_option(folder: str) -> None:
    """Exports contain assets, two exports are kept, and the best value of an earlier run in eval/ must be beaten."""
    vocabulary = os.path.join(folder, "vocabulary.txt")
    with open(vocabulary, "w") as file:
        file.write("Kiel")
    asked = []

    def better(best_eval_result: Any, current_eval_result: Any) -> bool:
        asked.append((float(best_eval_result["average_loss"]), float(current_eval_result["average_loss"])))
        return asked[-1][0] > asked[-1][1]

    def train(max_steps: int) -> None:
        exporter = tf.estimator.BestExporter(
            "best",
            people.receiver(),
            event_file_pattern="eval/*.tfevents.*",
            compare_fn=better,
            assets_extra={"vocabularies/city.txt": vocabulary},
            as_text=True,
            exports_to_keep=2,
        )
        tf.estimator.train_and_evaluate(
            _regressor(folder, save_checkpoints_steps=10),
            tf.estimator.TrainSpec(_numeric(people.INCOME), max_steps=max_steps),
            tf.estimator.EvalSpec(_numeric(people.INCOME, 1), steps=None, exporters=exporter, throttle_secs=0),
        )

    train(30)
    assert len(asked) == 2, asked  # the first evaluation has nothing to beat
    assert len(_exports(folder, "best")) == 2
    best_of_the_first_run = asked[-1][1]
    train(40)
    np.testing.assert_allclose(asked[-1][0], best_of_the_first_run, rtol=1e-6)
    newest = _exports(folder, "best")[-1]
    assert os.path.exists(os.path.join(newest, "saved_model.pbtxt"))
    assert os.path.exists(os.path.join(newest, "assets.extra", "vocabularies", "city.txt"))


def v1_export_savedmodel(folder: str) -> None:
    estimator = v1.estimator.LinearClassifier(people.numeric(), config=lifecycle.config(folder))
    estimator.train(_numeric(people.OLD), steps=10)
    extra = os.path.join(folder, "notes.txt")
    with open(extra, "w") as file:
        file.write("read me")
    path = os.fsdecode(
        estimator.export_savedmodel(
            os.path.join(folder, "export"),
            people.receiver(),
            assets_extra={"notes.txt": extra},
            as_text=True,
            strip_default_attrs=True,
        )
    )
    with open(os.path.join(path, "assets.extra", "notes.txt")) as file:
        assert file.read() == "read me"
    with open(os.path.join(path, "saved_model.pbtxt")) as file:
        assert "stripped_default_attrs: true" in file.read()
    lifecycle.same_answers(path, list(estimator.predict(_numeric(people.OLD, 1))))


def export_of_an_older_checkpoint(folder: str) -> None:
    estimator = _regressor(folder, save_checkpoints_steps=10)
    estimator.train(_numeric(people.INCOME), steps=20)
    old = os.path.join(estimator.model_dir, "model.ckpt-10")
    path = estimator.export_saved_model(os.path.join(folder, "export"), people.receiver(), checkpoint_path=old)
    lifecycle.same_answers(path, list(estimator.predict(_numeric(people.INCOME, 1), checkpoint_path=old)))
    metrics = estimator.evaluate(_numeric(people.INCOME, 1), checkpoint_path=old, name="old")
    assert metrics["global_step"] == 10
    assert os.path.isdir(os.path.join(estimator.model_dir, "eval_old"))


def export_all_modes(folder: str) -> None:
    estimator = _classifier(folder)
    estimator.train(_numeric(people.OLD), steps=10)
    supervised = tf.estimator.experimental.build_raw_supervised_input_receiver_fn(
        {name: tf.constant(people.FEATURES[name]) for name in ("age", "hours")}, tf.constant(people.OLD)
    )
    modes = tf.estimator.ModeKeys
    path = os.fsdecode(
        estimator.experimental_export_all_saved_models(
            os.path.join(folder, "export"),
            {modes.TRAIN: supervised, modes.EVAL: supervised, modes.PREDICT: people.receiver()},
        )
    )
    from tensorflow.python.saved_model import loader_impl

    tags = [sorted(graph.meta_info_def.tags) for graph in loader_impl.parse_saved_model(path).meta_graphs]
    assert sorted(tags) == [["eval"], ["serve"], ["train"]], tags
    lifecycle.same_answers(path, list(estimator.predict(_numeric(people.OLD, 1))))


def export_loads_in_a_session(folder: str) -> None:
    """The test loads this export with Keras 3 and with saved_model_cli; answers.json contains the expected answers."""
    estimator = _classifier(folder)
    estimator.train(_numeric(people.OLD), steps=10)
    path = os.fsdecode(estimator.export_saved_model(os.path.join(folder, "export"), people.receiver()))
    expected = lifecycle.serve(path)["logistic"]
    with tf.Graph().as_default(), v1.Session() as session:
        signature = v1.saved_model.load(session, ["serve"], path).signature_def["predict"]
        examples = {signature.inputs["examples"].name: people.serialized()}
        served = session.run(signature.outputs["logistic"].name, examples)
    np.testing.assert_allclose(served, expected, rtol=1e-6)
    examples = [base64.b64encode(example).decode() for example in people.serialized()]
    with open(os.path.join(folder, "answers.json"), "w") as file:
        json.dump({"examples": examples, "logistic": expected.tolist()}, file)


def run_config(folder: str) -> None:
    """RunConfig's options apply to the session, the checkpoints and the summaries."""
    session_config = v1.ConfigProto(intra_op_parallelism_threads=1, device_count={"CPU": 1}, allow_soft_placement=True)
    config = tf.estimator.RunConfig(
        model_dir=os.path.join(folder, "model"),
        tf_random_seed=7,
        save_summary_steps=5,
        save_checkpoints_steps=5,
        session_config=session_config,
        keep_checkpoint_max=2,
        keep_checkpoint_every_n_hours=1,
        log_step_count_steps=5,
        device_fn=lambda op: "/cpu:0",
        protocol="grpc",
        session_creation_timeout_secs=60,
        checkpoint_save_graph_def=False,
    )
    assert config.replace(tf_random_seed=8).tf_random_seed == 8
    assert (config.is_chief, config.num_worker_replicas, config.task_type, config.master) == (True, 1, "worker", "")
    seen = []

    class Session(tf.estimator.SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> None:
            seen.append(session._config)

    estimator = tf.estimator.LinearClassifier(people.numeric(), config=config)
    estimator.train(_numeric(people.OLD), steps=20, hooks=[Session()])
    assert seen[0].intra_op_parallelism_threads == 1
    assert len(list(pathlib.Path(config.model_dir).glob("*.index"))) == 2
    assert {"loss", "global_step/sec"} <= events.tags(config.model_dir)


def numpy_input_fn(folder: str) -> dict[str, float]:
    features = {name: people.FEATURES[name] for name in ("age", "hours")}
    inputs = v1.estimator.inputs
    train = inputs.numpy_input_fn(features, people.OLD, batch_size=16, num_epochs=None, shuffle=False)
    evaluation = inputs.numpy_input_fn(features, people.OLD, batch_size=16, num_epochs=1, shuffle=False)
    estimator = _classifier(folder)
    estimator.train(train, steps=40)
    assert len(list(estimator.predict(evaluation))) == people.COUNT
    shuffled = inputs.numpy_input_fn(features, people.OLD, num_epochs=1, shuffle=True)
    assert estimator.evaluate(shuffled)["label/mean"] == estimator.evaluate(evaluation)["label/mean"]
    return lifecycle.numbers(estimator.evaluate(evaluation))


def pandas_input_fn(folder: str) -> dict[str, float]:
    import pandas as pd

    frame = pd.DataFrame({name: people.FEATURES[name][:, 0] for name in ("age", "hours")})
    labels = pd.Series(people.OLD[:, 0])
    inputs = v1.estimator.inputs
    train = inputs.pandas_input_fn(frame, labels, batch_size=16, num_epochs=None, shuffle=False)
    estimator = _classifier(folder)
    estimator.train(train, steps=40)
    return lifecycle.numbers(estimator.evaluate(inputs.pandas_input_fn(frame, labels, num_epochs=1, shuffle=False)))


def early_stopping(folder: str) -> None:
    """A loss that cannot decrease stops the training, and so does a hook with a custom condition."""
    estimator = tf.estimator.LinearRegressor(
        people.numeric(),
        optimizer=lambda: tf.keras.optimizers.legacy.SGD(0.0),
        config=lifecycle.config(folder, save_checkpoints_steps=5),
    )
    os.makedirs(estimator.eval_dir())  # the hook reads event files from the first step
    hook = tf.estimator.experimental.stop_if_no_decrease_hook(
        estimator, "loss", max_steps_without_decrease=10, run_every_secs=None, run_every_steps=5
    )
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(_numeric(people.INCOME), max_steps=200, hooks=[hook]),
        tf.estimator.EvalSpec(_numeric(people.INCOME, 1), steps=None, throttle_secs=0),
    )
    stopped = estimator.get_variable_value("global_step")
    assert 10 <= stopped < 200, stopped
    own = _regressor(os.path.join(folder, "own"))
    os.makedirs(own.eval_dir())
    experimental = tf.estimator.experimental
    hooks = [experimental.make_early_stopping_hook(own, lambda: True, run_every_secs=None, run_every_steps=3)]
    own.train(_numeric(people.INCOME), steps=100, hooks=hooks)
    assert own.get_variable_value("global_step") < 10
    for make in (experimental.stop_if_higher_hook, experimental.stop_if_lower_hook):
        make(own, "loss", 0.5)
    experimental.stop_if_no_increase_hook(own, "auc", 10)


def train_spec_limits(folder: str) -> None:
    """An exhausted input stops the training; `steps` adds up across calls, `max_steps` does not."""
    estimator = _regressor(folder)
    estimator.train(_numeric(people.INCOME, 2))
    assert estimator.get_variable_value("global_step") == 8  # 64 rows twice, in batches of 16
    estimator.train(_numeric(people.INCOME), steps=2)
    estimator.train(_numeric(people.INCOME), max_steps=12)
    assert estimator.get_variable_value("global_step") == 12
