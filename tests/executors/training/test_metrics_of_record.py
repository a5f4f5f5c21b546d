"""The metrics of record are those of the published weights, whatever restored them and whichever Keras trained them."""

from __future__ import annotations

import importlib
import json
import pathlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import f1_score

from generic_trainer import FnArgs, TrainingOptions, report_progress, train
from generic_trainer.executors.features.metrics.metrics_of_record import Origins, observed
from generic_trainer.executors.keras.weight_fingerprints import fingerprint, of_saved_model, of_weights
from generic_trainer.executors.modules.keras_version import _tensorflow_release
from generic_trainer.executors.monitoring.metrics import Metrics

from ...world.models import save_function

PACKAGES = ["keras", "tf_keras"] if _tensorflow_release() >= (2, 16) else ["keras"]
X = np.linspace(-1, 1, 32, dtype="float32").reshape([32, 1])
Y = 3 * X + 0.5
VALIDATION = (X[::4], Y[::4] + 0.1)


@pytest.fixture(params=PACKAGES)
def keras(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


def new_model(keras: ModuleType, **optimizer: Any) -> Any:
    """A line through the origin of weights, whose steps are too large: its validation loss rises in the end."""
    inputs = keras.Input((1,))
    model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="zeros")(inputs))
    model.compile(keras.optimizers.SGD(optimizer.pop("rate", 0.9), **optimizer), loss="mse", metrics=["mae"])
    return model


def export(model: Any, folder: pathlib.Path) -> None:
    save_function(lambda x: {"y": model(x)}, folder, tf.TensorSpec([None, 1], tf.float32, name="x"), tracked=model)


def export_outputs(model: Any, folder: pathlib.Path) -> None:
    def outputs(x: Any) -> dict[str, Any]:
        return {str(number): value for number, value in enumerate(tf.nest.flatten(model(x)))}

    save_function(outputs, folder, tf.TensorSpec([None, 1], tf.float32), tracked=model)


def loss_of_export(folder: pathlib.Path) -> float:
    """Evaluates the SavedModel without Keras."""
    answers = tf.saved_model.load(str(folder)).signatures["serving_default"](tf.constant(VALIDATION[0]))["y"]
    return float(np.mean((answers.numpy() - VALIDATION[1]) ** 2))


Recorded = Callable[[Callable[[FnArgs], Any]], tuple[Metrics, Origins]]


@pytest.fixture
def recorded(tmp_path: pathlib.Path) -> Recorded:
    """Runs a `run_fn` in this process and returns its metrics of record, with their origins."""

    def run(run_fn: Callable[[FnArgs], Any], logged: Metrics | None = None) -> tuple[Metrics, Origins]:
        fn_args = FnArgs(
            serving_model_dir=str(tmp_path / "model"),
            model_run_dir=str(tmp_path / "run"),
            checkpoint_dir=str(tmp_path / "checkpoints"),
        )
        with observed([], fn_args) as seen:
            returned = run_fn(fn_args)
        return seen.metrics(returned, logged or {}, ("Pass validation_data.", "Return them."))

    return run


def worsening(keras: ModuleType, best: int = 3) -> Any:
    """A callback that lowers the learning rate of an SGD up to an epoch and turns it round after that."""

    class Worsening(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.model.optimizer.learning_rate = 0.3 if epoch < best else -0.3

    return Worsening()


def fit(keras: ModuleType, model: Any, *callbacks: Any, epochs: int = 6, **options: Any) -> Any:
    options = {"validation_data": VALIDATION, **options}
    return model.fit(X, Y, batch_size=8, epochs=epochs, callbacks=[worsening(keras), *callbacks], verbose=0, **options)


def by_early_stopping(keras: ModuleType, folder: pathlib.Path) -> Any:
    model = new_model(keras)
    fit(keras, model, keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True))
    return model


def by_early_stopping_at_the_end(keras: ModuleType, folder: pathlib.Path) -> Any:
    model = new_model(keras)
    fit(keras, model, keras.callbacks.EarlyStopping(patience=20, restore_best_weights=True))  # Keras 2 leaves the last
    return model


def by_model_checkpoint(keras: ModuleType, folder: pathlib.Path) -> Any:
    model = new_model(keras)
    path = str(folder / "best.weights.h5")
    fit(keras, model, keras.callbacks.ModelCheckpoint(path, save_best_only=True, save_weights_only=True))
    model.load_weights(path)
    return model


def by_another_model(keras: ModuleType, folder: pathlib.Path) -> Any:
    path = str(folder / "best.keras")
    fit(keras, new_model(keras), keras.callbacks.ModelCheckpoint(path, save_best_only=True))
    return keras.models.load_model(path)


def by_set_weights(keras: ModuleType, folder: pathlib.Path) -> Any:
    model, kept = new_model(keras), []
    keep = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: kept.append(model.get_weights()))
    fit(keras, model, keep)
    model.set_weights(kept[2])
    return model


def by_validation_split(keras: ModuleType, folder: pathlib.Path) -> Any:
    model = new_model(keras)
    x, y = np.concatenate([X, VALIDATION[0]]), np.concatenate([Y, VALIDATION[1]])
    stop = keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True)
    model.fit(x, y, 8, epochs=6, validation_split=0.2, callbacks=[worsening(keras), stop], verbose=0)
    return model


@pytest.mark.thorough_cases(
    "tf_keras-by_early_stopping",
    "tf_keras-by_early_stopping_at_the_end",
    "tf_keras-by_model_checkpoint",
    "tf_keras-by_another_model",
    "tf_keras-by_set_weights",
    "tf_keras-by_validation_split",
)
@pytest.mark.parametrize(
    "train_best",
    [
        by_early_stopping,
        by_early_stopping_at_the_end,
        by_model_checkpoint,
        by_another_model,
        by_set_weights,
        by_validation_split,
    ],
)
def test_metrics_are_those_of_the_epoch_that_was_restored(
    recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType, train_best: Callable[..., Any]
) -> None:
    metrics, origins = recorded(lambda fn_args: export(train_best(keras, tmp_path), tmp_path / "model"))

    assert metrics["eval"]["loss"] == pytest.approx(loss_of_export(tmp_path / "model"), rel=1e-4)
    assert set(metrics["eval"]) == set(metrics["train"]) == {"loss", "mae"}
    assert (origins["eval"]["source"], origins["eval"]["fit"]) == ("fit", 1)
    if train_best is not by_early_stopping_at_the_end:
        assert (origins["eval"]["epoch"], origins["eval"]["epochs"] > 3) == (3, True)
    assert origins["train"] == origins["eval"]


def average(model: Any) -> None:
    model.set_weights([weight * 0.9 for weight in model.get_weights()])


def by_average_at_train_end(keras: ModuleType, folder: pathlib.Path) -> Any:
    model = new_model(keras)
    fit(keras, model, keras.callbacks.LambdaCallback(on_train_end=lambda logs: average(model)))
    return model


def by_average_after_fit(keras: ModuleType, folder: pathlib.Path) -> Any:
    model = new_model(keras)
    dataset = tf.data.Dataset.from_tensor_slices(VALIDATION).batch(3)
    fit(keras, model, validation_data=dataset)
    average(model)
    return model


def by_moving_average(keras: ModuleType, folder: pathlib.Path) -> Any:
    model = new_model(keras, use_ema=True, ema_momentum=0.5)
    fit(keras, model)
    return model


def by_epoch_without_validation(keras: ModuleType, folder: pathlib.Path) -> Any:
    model = new_model(keras)
    fit(keras, model, epochs=5, validation_freq=2)
    return model


@pytest.mark.thorough_cases(
    "tf_keras-by_epoch_without_validation",
    "tf_keras-by_moving_average",
    "tf_keras-by_average_at_train_end",
    "tf_keras-by_average_after_fit",
)
@pytest.mark.parametrize(
    "train_new",
    [by_average_at_train_end, by_average_after_fit, by_moving_average, by_epoch_without_validation],
)
def test_weights_of_no_evaluation_are_evaluated_once_more(
    recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType, train_new: Callable[..., Any]
) -> None:
    metrics, origins = recorded(lambda fn_args: export(train_new(keras, tmp_path), tmp_path / "model"))

    assert metrics["eval"]["loss"] == pytest.approx(loss_of_export(tmp_path / "model"), rel=1e-4)
    assert origins["eval"] == {"source": "evaluated again"}
    assert origins["train"]["source"] == "fit"


def test_the_last_epoch_is_not_evaluated_again(recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType) -> None:
    def run_fn(fn_args: FnArgs) -> Any:
        model = new_model(keras)
        history = fit(keras, model)
        export(model, tmp_path / "model")
        return history

    metrics, origins = recorded(run_fn, {"train": {"loss": 7.0, "rate": 0.1}, "eval": {"auc": 0.5}})

    assert metrics["eval"]["loss"] == pytest.approx(loss_of_export(tmp_path / "model"), rel=1e-4)
    assert origins["eval"] == {"source": "fit", "fit": 1, "epoch": 6, "epochs": 6, "fits": 1}
    assert metrics["train"]["rate"] == 0.1
    assert metrics["eval"]["auc"] == 0.5


def test_averages_swapped_in_for_validation_are_what_was_evaluated(recorded: Recorded, tmp_path: pathlib.Path) -> None:
    keras = importlib.import_module("keras")
    if not hasattr(keras.callbacks, "SwapEMAWeights"):
        pytest.skip("This Keras has no SwapEMAWeights.")

    def run_fn(fn_args: FnArgs) -> None:
        model = new_model(keras, use_ema=True, ema_momentum=0.5)
        fit(keras, model, keras.callbacks.SwapEMAWeights())
        export(model, tmp_path / "model")

    metrics, origins = recorded(run_fn)

    assert metrics["eval"]["loss"] == pytest.approx(loss_of_export(tmp_path / "model"), rel=1e-4)
    assert (origins["eval"]["source"], origins["eval"]["epoch"]) == ("fit", 6)


def of_named_outputs(keras: ModuleType) -> tuple[Any, tuple[str, str]]:
    inputs = keras.Input((1,))
    outputs = {name: keras.layers.Dense(1, name=name)(inputs) for name in ("low", "high")}
    return keras.Model(inputs, outputs), ("low_loss", "high_loss")


def of_one_layer(keras: ModuleType) -> tuple[Any, tuple[str, str]]:
    inputs, layer = keras.Input((1,)), keras.layers.Dense(1, name="both")
    return keras.Model(inputs, [layer(inputs), layer(2 * inputs)]), ("both_loss", "both_1_loss")


@pytest.mark.thorough_cases("tf_keras-of_named_outputs", "tf_keras-of_one_layer")
@pytest.mark.parametrize("new", [of_named_outputs, of_one_layer])
def test_losses_of_single_outputs_are_means_over_the_examples(
    recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType, new: Callable[..., Any]
) -> None:
    """Keras 3 counts a small last batch as much as the others, and keeps one of two losses with the same name."""
    model, names = new(keras)
    x = np.append(X, [[100]], axis=0).astype("float32")
    low, high = x + 1, x**2

    def run_fn(fn_args: FnArgs) -> None:
        model.compile("sgd", loss="mse")
        labels = {"low": low, "high": high} if new is of_named_outputs else (low, high)
        data = tf.data.Dataset.from_tensor_slices((x, labels)).batch(8)
        model.fit(data.take(1), validation_data=data, verbose=0)
        export_outputs(model, tmp_path / "model")

    metrics, _ = recorded(run_fn)

    found = model(x)
    answers = [found["low"], found["high"]] if new is of_named_outputs else found
    expected = [np.mean((answer.numpy() - label) ** 2) for answer, label in zip(answers, (low, high), strict=True)]
    assert [metrics["eval"][name] for name in names] == pytest.approx(expected, rel=1e-4)


def test_metrics_of_several_numbers_are_recorded_by_element(
    recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType
) -> None:
    classes = np.arange(32) % 3

    def run_fn(fn_args: FnArgs) -> Any:
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(3, activation="softmax")])
        model.compile("sgd", "categorical_crossentropy", metrics=[keras.metrics.F1Score(average=None, name="f1")])
        labels = np.eye(3, dtype="float32")[classes]
        history = model.fit(X, labels, validation_data=(X, labels), verbose=0)
        export_outputs(model, tmp_path / "model")
        predicted.extend(model(X).numpy().argmax(axis=1))
        return history

    predicted: list[int] = []

    metrics, _ = recorded(run_fn)

    expected = dict(zip(["f1[0]", "f1[1]", "f1[2]"], f1_score(classes, predicted, average=None), strict=True))
    assert {name: metrics["eval"][name] for name in expected} == pytest.approx(expected, abs=1e-5)
    assert metrics["train"].keys() == metrics["eval"].keys()


def test_a_validation_within_fit_is_no_evaluation_of_its_own(
    recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType
) -> None:
    """The callbacks keep their parameters, and those of a CallbackList are added to."""
    seen: list[int] = []
    record = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(record.params["epochs"]))

    def run_fn(fn_args: FnArgs) -> None:
        model = new_model(keras)
        callbacks = keras.callbacks.CallbackList([record], model=model, epochs=4, add_history=True)
        model.fit(X, Y, 8, epochs=4, validation_data=VALIDATION, callbacks=callbacks, verbose=0)
        export(model, tmp_path / "model")

    _, origins = recorded(run_fn)

    assert seen == [4, 4, 4, 4]
    assert origins["eval"]["epoch"] == 4


@pytest.mark.thorough_but("keras")
def test_of_several_fits_the_published_one_counts(
    recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType
) -> None:
    def run_fn(fn_args: FnArgs) -> None:
        models = [new_model(keras) for _ in range(3)]
        for number, model in enumerate(models):
            fit(keras, model, epochs=number + 2)
        fit(keras, models[1], epochs=2)  # fine-tuning
        models[2].fit(X, Y, epochs=1, verbose=0)
        export(models[1], tmp_path / "model")

    metrics, origins = recorded(run_fn)

    assert metrics["eval"]["loss"] == pytest.approx(loss_of_export(tmp_path / "model"), rel=1e-4)
    assert origins["eval"] == {"source": "fit", "fit": 4, "epoch": 2, "epochs": 2, "fits": 5}


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (
            {"eval": {"auc": [0.5, 0.75], "loss": tf.constant(0.25)}, "val_f1": 0.5},
            {"auc": 0.75, "loss": 0.25, "f1": 0.5},
        ),
        ({"test/loss": np.float32(0.25)}, {"loss": 0.25}),
        ({"loss": 0.25}, None),
    ],
)
def test_eval_metrics_of_a_custom_loop_are_recorded_or_the_log_has_the_remedy(
    recorded: Recorded, returned: Any, expected: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="absl"):
        metrics, _ = recorded(lambda fn_args: returned)

    assert metrics.get("eval") == expected
    assert ("No eval metrics are recorded. Return them." in caplog.text) == (expected is None)


@pytest.mark.thorough_but("keras")
def test_fits_with_an_initial_epoch_are_one_training(
    recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType
) -> None:
    """Also with those of an earlier attempt, which was killed after its fourth epoch."""

    def run_fn(fn_args: FnArgs, first: int, last: int) -> None:
        model = new_model(keras)
        for epoch in range(first, last):
            fit(keras, model, initial_epoch=epoch, epochs=epoch + 1)
            model.save(tmp_path / f"{epoch + 1}.keras")
        export(keras.models.load_model(tmp_path / "3.keras"), tmp_path / "model")

    recorded(lambda fn_args: run_fn(fn_args, 0, 4))
    metrics, origins = recorded(lambda fn_args: run_fn(fn_args, 4, 6))

    assert metrics["eval"]["loss"] == pytest.approx(loss_of_export(tmp_path / "model"), rel=1e-4)
    assert origins["eval"] == {"source": "fit", "fit": 1, "epoch": 3, "epochs": 6, "fits": 1}


def test_a_fit_without_validation_has_train_metrics_alone(
    recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType
) -> None:
    def run_fn(fn_args: FnArgs) -> None:
        model = new_model(keras)
        fit(keras, model, validation_data=None)
        export(model, tmp_path / "model")

    metrics, origins = recorded(run_fn)

    assert metrics.keys() == {"train"}
    assert origins == {"train": {"source": "fit", "fit": 1, "epoch": 6, "epochs": 6, "fits": 1}}


def test_the_module_s_own_evaluation_counts(recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType) -> None:
    def run_fn(fn_args: FnArgs) -> None:
        model = new_model(keras)
        for _ in range(3):
            model.train_on_batch(X, Y)
        model.evaluate(*VALIDATION, verbose=0)
        export(model, tmp_path / "model")

    metrics, origins = recorded(run_fn)

    assert metrics["eval"]["loss"] == pytest.approx(loss_of_export(tmp_path / "model"), rel=1e-4)
    assert set(metrics["eval"]) == {"loss", "mae"}
    assert origins == {"train": {"source": "logged"}, "eval": {"source": "evaluate"}}


def test_weights_of_neither_an_evaluation_nor_memory_have_no_eval_metrics(
    recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType
) -> None:
    def run_fn(fn_args: FnArgs) -> Any:
        model, other = new_model(keras), new_model(keras)
        history = fit(keras, model)
        other.set_weights([weight * 0.5 for weight in model.get_weights()])
        export(other, tmp_path / "model")
        return history

    metrics, origins = recorded(run_fn, {"eval": {"loss": 0.1}})

    assert metrics.keys() == {"train"}
    assert origins["eval"] == {"source": "unknown"}


def test_a_fit_that_is_not_repeated_keeps_its_metrics(
    recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType
) -> None:
    kept: list[Any] = []

    def run_fn(fn_args: FnArgs) -> None:
        model = new_model(keras)
        if not kept:
            fit(keras, model, keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True))
            kept.append(model.get_weights())
        model.set_weights(kept[0])
        export(model, tmp_path / "model")

    first, resumed = recorded(run_fn), recorded(run_fn)

    assert first == resumed
    assert resumed[1]["eval"]["epoch"] == 3


def test_what_run_fn_returns_comes_first(recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType) -> None:
    def run_fn(fn_args: FnArgs) -> Any:
        model = new_model(keras)
        fit(keras, model)
        export(model, tmp_path / "model")
        return {"val_auc": 0.75}

    metrics, origins = recorded(run_fn, {"eval": {"auc": 0.5}})

    assert metrics["eval"] == {"auc": 0.75}
    assert set(metrics["train"]) == {"loss", "mae"}
    assert origins["eval"]["source"] == "returned"


def test_a_returned_evaluation_has_eval_metrics(recorded: Recorded, tmp_path: pathlib.Path, keras: ModuleType) -> None:
    history: dict[str, list[float]] = {}

    def run_fn(fn_args: FnArgs) -> Any:
        model = new_model(keras)
        history.update(model.fit(X, Y, epochs=1, verbose=0).history)
        export(model, tmp_path / "model")
        return model.evaluate(*VALIDATION, verbose=0, return_dict=True)

    metrics, _ = recorded(run_fn)

    assert metrics["eval"]["loss"] == pytest.approx(loss_of_export(tmp_path / "model"), rel=1e-4)
    assert metrics["train"]["loss"] == pytest.approx(history["loss"][-1])


def test_a_loop_by_hand_is_recorded_with_what_it_reports(recorded: Recorded) -> None:
    def run_fn(fn_args: FnArgs) -> None:
        for step in range(5):
            report_progress(step, metrics={"loss": tf.constant(1.0 / (step + 1))})
        report_progress(5, metrics={"val_auc": 0.75})
        report_progress(6)

    assert recorded(run_fn) == (
        {"train": {"loss": pytest.approx(0.2)}, "eval": {"auc": 0.75}},
        {"train": {"source": "logged"}, "eval": {"source": "logged"}},
    )


def test_a_run_without_metrics_has_none(recorded: Recorded) -> None:
    assert recorded(lambda fn_args: None) == ({}, {})


@pytest.mark.parametrize("package", PACKAGES)
def test_a_lookup_table_among_the_weights_has_no_fingerprint(package: str) -> None:
    """Keras 2's TextVectorization has a weight that is no tensor."""
    keras = pytest.importorskip(package)
    layer = keras.layers.TextVectorization(10)
    layer.adapt(tf.constant(["good bad good"]))
    embedding = keras.layers.Embedding(10, 2)
    embedding(layer(tf.constant([["good"]])))
    assert len(of_weights([*layer.weights, *embedding.weights])) == 1


def test_fingerprints_are_the_same_in_memory_and_on_disk(tmp_path: pathlib.Path, keras: ModuleType) -> None:
    model = new_model(keras)
    export(model, tmp_path / "model")
    weights = of_weights(model.weights)

    assert set(weights) <= of_saved_model(str(tmp_path / "model"))
    average(model)
    assert of_weights(model.weights)[1] == weights[1]  # the bias is 0
    model.set_weights([weight + 1 for weight in model.get_weights()])
    assert not set(of_weights(model.weights)) & set(weights)


def test_a_weight_that_numpy_cannot_read_is_read_by_keras() -> None:
    """PyTorch's tensors with a gradient refuse the conversion; Keras's variables that hold them do not."""

    class Tensor:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    class Variable:
        __module__ = "keras.src.backend.torch.core"
        dtype, value = "float32", Tensor()

        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return np.ones(3, "float32")

    [weight] = of_weights([Variable()])  # type: ignore[list-item]
    assert weight == fingerprint(np.ones(3, "float32"))


RESTORED = """
    import numpy as np
    import tensorflow as tf

    x = np.linspace(-1, 1, 32, dtype="float32").reshape([32, 1])

    def run_fn(fn_args):
        keras = tf.keras
        inputs = keras.Input((1,))
        model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="zeros")(inputs))
        model.compile(keras.optimizers.SGD(0.3), loss="mse")

        class Worsening(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                self.model.optimizer.learning_rate = 0.3 if epoch < 3 else -0.3

        model.fit(x, 3 * x, epochs=6, validation_data=(x, 3 * x + 0.1), callbacks=[Worsening()], verbose=0)

        @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, name="x")])
        def serve(x):
            return {"y": model(x)}

        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=serve)
"""


@pytest.mark.thorough_but("3")
@pytest.mark.parametrize("version", ["3", "2"] if len(PACKAGES) == 2 else ["2"])
def test_recorded_metrics_are_those_of_the_published_model(
    module: Callable[..., str], iris: Any, tmp_path: pathlib.Path, version: str
) -> None:
    """Evaluates the published model without Keras, and without anything that training has left in memory."""
    folder = tmp_path / "model" / "Format-Serving"
    fn_args = FnArgs(train_files=[iris.train], serving_model_dir=str(folder), model_run_dir=str(tmp_path / "model_run"))

    train(module(RESTORED), fn_args, TrainingOptions(keras=version, best_model="val_loss"))

    record = json.loads((tmp_path / "model_run" / "run.json").read_text())
    answers = tf.saved_model.load(str(folder)).signatures["serving_default"](x=tf.constant(X))["y"]
    assert record["metrics"]["eval"]["loss"] == pytest.approx(
        float(np.mean((answers.numpy() - (3 * X + 0.1)) ** 2)), rel=1e-4
    )
    assert record["metrics_from"]["eval"] == {"source": "fit", "fit": 1, "epoch": 3, "epochs": 6, "fits": 1}


@pytest.mark.parametrize("metrics", [[], ["mae"]], ids=["loss", "loss and metric"])
def test_a_loop_over_train_on_batch_has_the_metrics_of_its_last_batches(
    metrics: list[str], keras: ModuleType, recorded: Recorded
) -> None:
    def run_fn(fn_args: FnArgs) -> None:
        model = new_model(keras)
        model.compile("sgd", "mse", metrics=metrics)
        for _ in range(3):
            model.train_on_batch(X, Y)
        model.test_on_batch(*VALIDATION)
        export(model, pathlib.Path(str(fn_args.serving_model_dir)))
        expected.update(model.get_metrics_result())

    expected: dict[str, Any] = {}
    found, origins = recorded(run_fn)
    assert found["eval"] == pytest.approx({name: float(value) for name, value in expected.items()})
    assert list(found["train"]) == ["loss", *metrics]
    assert origins == {"train": {"source": "logged"}, "eval": {"source": "logged"}}
