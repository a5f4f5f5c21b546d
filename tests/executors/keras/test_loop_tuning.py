"""`tune_loop` makes a training faster and nothing else: with "exact" the weights are the same to the last bit."""

from __future__ import annotations

import importlib
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer import FnArgs, InputError, TrainingOptions
from generic_trainer.executors.keras import loop_tuning
from generic_trainer.executors.keras.grouped_steps import Brief, GroupedSteps, Way
from generic_trainer.executors.keras.loop_trial import SIZES
from generic_trainer.executors.training.run import train

pytestmark = pytest.mark.legacy
NATIVE = tuple(map(int, tf.__version__.split(".")[:2])) < (2, 16)
BATCHES = 260  # in an epoch: a trial takes 350 steps


@pytest.fixture(params=["keras"] if NATIVE else ["keras", "tf_keras"])
def keras(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


def data(known_size: bool = True) -> tf.data.Dataset:
    random = np.random.default_rng(0)
    x = random.normal(size=(4 * BATCHES - 1, 3)).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).shuffle(100)
    return (dataset if known_size else dataset.filter(lambda x, y: True)).batch(4)


def compiled(keras: Any, model: Any = None, **flags: Any) -> Any:
    keras.utils.set_random_seed(1)
    if model is None:
        layers = [keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.3), keras.layers.BatchNormalization()]
        model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"], **flags)
    return model


def state(model: Any) -> list[Any]:
    return [np.asarray(value) for value in (*model.get_weights(), *model.optimizer.variables)]


@pytest.mark.parametrize(
    ("known_size", "steps_per_epoch"), [(False, None), (True, 175)], ids=["size unknown", "steps_per_epoch"]
)
def test_exact_changes_no_bit(keras: Any, known_size: bool, steps_per_epoch: int | None) -> None:
    def fit(choice: str) -> tuple[list[Any], Any, Any]:
        model = compiled(keras)
        dataset = data(known_size)
        if steps_per_epoch:
            dataset = dataset.repeat()
        with loop_tuning.tuned(choice) as report:
            options = {"steps_per_epoch": steps_per_epoch, "epochs": 2, "verbose": 0}
            history = model.fit(dataset, validation_data=data().take(3), **options)
            model.fit(dataset, **options)
        return state(model), history.history, report

    expected, expected_history, nothing = fit("off")
    weights, history, report = fit("exact")

    for one, other in zip(expected, weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert history == expected_history
    assert nothing == {}
    [found] = report["fits"]
    assert found["steps_per_execution"] in SIZES
    assert set(found["steps_per_second"]) == set(map(str, SIZES))


def test_a_callback_that_looks_at_each_batch_finds_the_model_there(keras: Any, tmp_path: pathlib.Path) -> None:
    model, seen = compiled(keras), []
    each = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(int(model.optimizer.iterations))
    )
    harmless = [keras.callbacks.ModelCheckpoint(str(tmp_path / "model.keras")), keras.callbacks.TerminateOnNaN()]
    with loop_tuning.tuned("exact") as report:
        model.fit(data().take(5), callbacks=[each], verbose=0)
        model.fit(data().take(5), callbacks=harmless, verbose=0)
        model.fit(data().take(5), callbacks=harmless[:1], verbose=0)

    assert seen == [1, 2, 3, 4, 5]
    assert [fit["left"] for fit in report["fits"]] == [
        "the callback LambdaCallback looks at each batch",
        "the callback TerminateOnNaN looks at each batch",
        "the training ended before the trial did; give it more steps, or leave it out",
    ]


def test_a_group_ends_where_the_loop_has_something_to_do(keras: Any) -> None:
    class Noting(Brief):
        def took(self, steps: int, seconds: float) -> None:
            groups.append(steps)

    groups: list[int] = []
    model = compiled(keras)
    grouped = GroupedSteps(
        model, Noting(Way.of(model), size=16), room=lambda: 20 - int(model.optimizer.iterations) % 20
    )
    with grouped.in_fit():
        model.fit(data().take(50), epochs=2, callbacks=[grouped.epochs()], verbose=0)
    model.fit(data().take(3), verbose=0)

    # Something is due after 20, 40, 60 and 80 steps, an epoch has 50; the last group is not followed by another.
    assert groups == [16, 4, 16, 4, 10, 10, 16, 4, 16]


def test_groups_grow_as_long_as_they_are_brief() -> None:
    plan = Brief(Way())
    sizes = []
    for seconds in (9.0, *[0.001] * 8, 0.07, 0.2, 0.2, 0.01):  # the first compiles
        _, size = plan.next_group()
        plan.took(size, seconds)
        sizes.append(plan.size)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 32, 16, 32]
    plan.took(3, 0.001)  # the last group of an epoch says nothing of larger ones
    assert plan.size == 32


def test_without_a_keras_fit_there_is_nothing_to_tune() -> None:
    with loop_tuning.tuned("exact") as report:
        pass

    assert report == {"asked": "exact", "fits": []}


def test_what_the_module_chose_stays(keras: Any) -> None:
    class Own(keras.Model):  # type: ignore[misc,name-defined]
        def make_train_function(self, force: bool = False) -> Any:
            return super().make_train_function(force)

    inputs = keras.Input((3,))
    own = compiled(keras, Own(inputs, keras.layers.Dense(1)(inputs)))
    with loop_tuning.tuned("exact") as report:
        compiled(keras, steps_per_execution=3).fit(data().take(6), verbose=0)
        compiled(keras, run_eagerly=True).fit(data().take(2), verbose=0)
        own.fit(data().take(2), verbose=0)

    assert [fit["left"] for fit in report["fits"]] == [
        "the module sets steps_per_execution=3",
        "it runs eagerly",
        "its class Own makes its own train function",
    ]
    assert "fit" not in vars(keras.Model) or keras.Model.fit.__name__ == "fit"
    assert not hasattr(keras.Model.fit, "__wrapped__") or "loop_tuning" not in keras.Model.fit.__code__.co_filename


def test_any_loses_no_batch_to_what_cannot_be_compiled(keras: Any) -> None:
    seen: list[float] = []

    class Noting(keras.Model):  # type: ignore[misc,name-defined]
        def train_step(self, data: Any) -> Any:
            tf.py_function(lambda x: seen.append(float(x[0, 0])), [data[0]], [])  # XLA knows no Python
            return super().train_step(data)

    inputs = keras.Input((3,))
    model = compiled(keras, Noting(inputs, keras.layers.Dense(1)(inputs)))
    if getattr(model, "jit_compile", False):  # Keras 3 does not look into train_step
        model.compile("adam", "mse", jit_compile=False)
    rows = np.arange(3 * 400, dtype="float32").reshape(400, 3) / 1200
    dataset = tf.data.Dataset.from_tensor_slices((rows, rows[:, :1])).batch(1)
    with loop_tuning.tuned("any") as report:
        model.fit(dataset, epochs=2, verbose=0)

    assert seen == [*rows[:, 0], *rows[:, 0]]
    assert report["fits"][0]["steps_per_execution"] in SIZES


def test_any_tries_what_changes_results_and_says_so() -> None:
    keras = importlib.import_module("keras")
    own = compiled(keras)
    with loop_tuning.tuned("any") as report:
        own.fit(data(), epochs=3, verbose=0)

    [found] = report["fits"]
    assert {name.partition(", ")[2] for name in found["steps_per_second"]} - {""}  # XLA was tried
    assert found.get("changes_results", False) == ("jit_compile" in found)
    assert {layer.dtype_policy.name for layer in own.layers} == {"float32"}


@pytest.mark.slow
def test_the_record_holds_what_was_found(module: Callable[..., str], tmp_path: pathlib.Path) -> None:
    path = module(
        """
        import tensorflow as tf

        def run_fn(fn_args):
            model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)], name="line")
            model.compile("sgd", "mse")
            x = tf.reshape(tf.range(400.0), [-1, 1]) / 400
            model.fit(tf.data.Dataset.from_tensor_slices((x, 2 * x)).batch(1), verbose=0)
            getattr(model, "export", model.save)(fn_args.serving_model_dir)
        """
    )
    fn_args = FnArgs(serving_model_dir=str(tmp_path / "model"), model_run_dir=str(tmp_path / "run"))

    train(path, fn_args, TrainingOptions(tune_loop="exact"))

    tuning = json.loads((tmp_path / "run" / "run.json").read_text())["tuning"]
    assert tuning["asked"] == "exact"
    assert tuning["fits"][0]["model"] == "line"
    assert tuning["fits"][0]["steps_per_execution"] in SIZES


@pytest.mark.slow
def test_for_an_estimator_the_record_holds_which_threads_are_fastest(
    module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    path = module(
        """
        import tensorflow as tf

        COLUMNS = [tf.feature_column.numeric_column("x")]

        def input_fn():
            x = tf.reshape(tf.range(400.0), [-1, 1]) / 400
            return tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x)).batch(20).repeat()

        def trainer_fn(fn_args, schema):
            serving = tf.estimator.export.build_parsing_serving_input_receiver_fn(
                tf.feature_column.make_parse_example_spec(COLUMNS))
            exporter = tf.estimator.FinalExporter("line", serving)
            return {
                "estimator": tf.estimator.LinearRegressor(COLUMNS),
                "train_spec": tf.estimator.TrainSpec(input_fn, 500),
                "eval_spec": tf.estimator.EvalSpec(input_fn, 1, exporters=[exporter]),
                "eval_input_receiver_fn": None,
            }
        """
    )
    fn_args = FnArgs(serving_model_dir=str(tmp_path / "model"), model_run_dir=str(tmp_path / "run"))

    train(path, fn_args, TrainingOptions(tune_loop="exact"))

    [found] = json.loads((tmp_path / "run" / "run.json").read_text())["tuning"]["fits"]
    assert found["model"] == "LinearRegressorV2"
    assert found["threads"] in ("pool", "caller")
    assert set(found["steps_per_second"]) == {"pool", "caller"}


def test_a_choice_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match=r"tune_loop='exakt': choose from off, exact, any\. Did you mean 'exact'\?"):
        TrainingOptions(tune_loop="exakt")
