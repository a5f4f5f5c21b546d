"""A run that failed between its last fit and publishing resumes at the export: the same weights, without training."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import FnArgs, ModelCheckError, TrainingOptions, train
from generic_trainer.executors.modules.keras_version import _tensorflow_release

KERAS = ["3", "2"] if _tensorflow_release() >= (2, 16) else ["2"]

# Three fits, the last two of one model that has no variables before it is trained. Weights and data are random, so
# that two trainings never come to the same end. Each step that is trained adds a line to a file.
MODULE = """
    import json, os, pathlib
    import numpy as np
    import tensorflow as tf
    from generic_trainer import callbacks

    keras = tf.keras

    class Counted(keras.Sequential):
        def train_step(self, *args):
            with open(os.environ["RESUME"] + "/steps", "a") as file:
                file.write("1")
            return super().train_step(*args)

    class Notes(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.losses, self.last_weights, self.known = [], None, {"epochs": ()}

        def on_epoch_end(self, epoch, logs=None):
            self.losses.append(logs["loss"])
            self.last_weights = self.model.get_weights()
            self.known["epochs"] += (epoch,)

    def make(*layers):
        model = Counted(list(layers))
        model.compile("adam", "mse", metrics=["mae"], run_eagerly=True)
        return model

    def run_fn(fn_args):
        config = fn_args.custom_config
        x = np.random.normal(size=(40, 2)).astype("float32")
        data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(10)
        backups = lambda: callbacks(fn_args) if config["backup"] else [keras.callbacks.TensorBoard(fn_args.model_run_dir)]
        told = {}

        one = make(keras.Input((2,)), keras.layers.Dropout(0.5), keras.layers.Dense(1))
        first = one.fit(data, epochs=2, callbacks=backups(), verbose=0)
        two = make(keras.layers.Dense(3), keras.layers.Dense(1))
        if config["backup"]:
            two.build((None, 2))
        notes = Notes()
        best = os.path.join(fn_args.model_run_dir, "best.weights.h5")
        second = two.fit(
            x, x[:, :1], batch_size=20, epochs=5, initial_epoch=1, validation_data=data, validation_freq=2, verbose=0,
            callbacks=[*backups(), notes, keras.callbacks.ModelCheckpoint(best, save_weights_only=True),
                       keras.callbacks.EarlyStopping("loss", mode="max", patience=2, restore_best_weights=True)])
        told["after the second"] = [weight.tolist() for weight in two.get_weights()]
        two.layers[0].trainable = False
        two.compile(keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5)), "mse", run_eagerly=True)
        third = two.fit(data, epochs=config.get("epochs", 1), verbose=0)
        told |= {"best": pathlib.Path(best).stat().st_size, "third": third.history, "params": third.params}
        told["history"] = [[one.history, list(one.epoch)] for one in (first, second)]
        told["notes"] = [notes.losses, [weight.tolist() for weight in notes.last_weights], list(notes.known["epochs"])]
        told["weights"] = [weight.tolist() for model in (one, two) for weight in model.get_weights()]
        told["updates"] = [int(model.optimizer.iterations) for model in (one, two)]
        told["same history"] = two.history is third
        with open(os.environ["RESUME"] + "/told", "w") as file:
            json.dump(told, file, default=float)

        fault = pathlib.Path(os.environ["RESUME"], "fault")
        if fault.exists() and fault.read_text() == "raise":
            raise ZeroDivisionError("in the export")
        if fault.exists():
            return pathlib.Path(fn_args.serving_model_dir).write_text("no SavedModel")

        @tf.function(input_signature=[tf.TensorSpec([None, 2], name="x")])
        def serve(x):
            return {"y": one(x) + two(x)}

        exported = tf.Module()
        exported.models = [one, two]
        tf.saved_model.save(exported, fn_args.serving_model_dir, signatures=serve)
        return second if config.get("returns") else None
"""  # noqa: E501
ALL = (2 * 4 + 3 * 2 + 4, 2 * 4 + 4 * 2 + 4)  # EarlyStopping ends the second one, most likely


class Resumed:
    """Runs of a module in one folder."""

    def __init__(self, folder: pathlib.Path, path: str, keras: str, **config: Any) -> None:
        self.folder, self.path = folder, path
        self.config: dict[str, Any] = {"backup": False, **config}
        self.options = TrainingOptions(keras=keras, skip_checks=("answers",))
        self.run_dir = folder / "model_run"

    def run(self, fault: str = "", **config: Any) -> tuple[int, dict[str, Any]]:
        """Trains; returns how many steps that took, and what the module said."""
        self.folder.joinpath("steps").write_text("")
        self.folder.joinpath("fault").write_text(fault) if fault else self.folder.joinpath("fault").unlink(True)
        fn_args = FnArgs(
            serving_model_dir=str(self.folder / "model" / "Format-Serving"),
            model_run_dir=str(self.run_dir),
            custom_config={**self.config, **config},
        )
        try:
            train(self.path, fn_args, self.options)
        finally:
            steps = len((self.folder / "steps").read_text())
            told = self.folder / "told"
            self.told = json.loads(told.read_text()) if told.exists() else {}
        return steps, self.told

    def fail(self, fault: str = "raise", **config: Any) -> dict[str, Any]:
        """Trains and does not publish; returns what the module said."""
        with pytest.raises({"raise": ZeroDivisionError, "check": ModelCheckError}[fault]):
            self.run(fault, **config)
        return self.told

    def steps(self) -> int:
        return len((self.folder / "steps").read_text())

    def logs(self) -> list[pathlib.Path]:
        return list(self.run_dir.glob("*/*tfevents*"))

    def metrics(self) -> dict[str, Any]:
        return json.loads((self.run_dir / "run.json").read_text())["metrics"]


@pytest.fixture
def resumed(
    tmp_path: pathlib.Path, module: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Resumed]:
    monkeypatch.setenv("RESUME", str(tmp_path))

    def make(keras: str = KERAS[0], source: str = MODULE, **config: Any) -> Resumed:
        return Resumed(tmp_path, module(source), keras, **config)

    return make


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("backup", [False, True])
@pytest.mark.parametrize("keras", KERAS)
def test_fits_that_ended_are_not_trained_again(resumed: Callable[..., Resumed], keras: str, backup: bool) -> None:
    runs = resumed(keras, backup=backup)
    failed = runs.fail()
    assert runs.steps() in ALL
    rejected = runs.fail("check")
    assert runs.steps() == 0
    logs = sorted(runs.logs())
    shutil.rmtree(runs.run_dir / "train")  # as a pipeline deletes the outputs of a failed step
    runs.run_dir.joinpath("best.weights.h5").unlink()
    steps, told = runs.run()
    assert steps == 0
    assert told == rejected == failed
    assert sorted(runs.logs()) == logs
    assert told["notes"][2] == [1, 2, 3, 4][: len(told["notes"][0])]
    assert runs.metrics()["train"]["loss"] == pytest.approx(told["third"]["loss"][-1], rel=1e-5)
    steps, told = runs.run()  # that one has published
    assert steps in ALL
    assert told["weights"] != failed["weights"]


@pytest.mark.slow
def test_an_export_is_mended_without_training_again_and_a_loss_is_not(
    resumed: Callable[..., Resumed], capfd: pytest.CaptureFixture[str]
) -> None:
    runs = resumed(backup=True)
    failed = runs.fail()
    path = pathlib.Path(runs.path)
    path.write_text(path.read_text().replace("one(x) + two(x)", "two(x) - one(x)"))
    runs.fail()
    assert runs.steps() == 0
    assert runs.told == failed
    path.write_text(path.read_text().replace('"adam", "mse"', '"adam", "mae"'))
    runs.fail()
    assert runs.steps() in ALL
    assert "Fit 1 of this run was completed in an earlier attempt, but has changed and is trained again: code that" in (
        capfd.readouterr().err
    )
    assert runs.run(epochs=2)[0] == 2 * 4  # the third fit, which is another one


# A fit for each epoch; the module restores the last one itself and goes on from there.
LOOP = """
    import os, pathlib
    import numpy as np
    import tensorflow as tf

    keras = tf.keras

    def run_fn(fn_args):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        x = np.random.normal(size=(40, 2)).astype("float32")
        weights = os.path.join(os.environ["RESUME"], "own.weights.h5")
        whole = tf.train.Checkpoint(model=model)
        done = pathlib.Path(os.environ["RESUME"], "done")
        first = int(done.read_text()) if done.exists() else 0
        if first and fn_args.custom_config["whole"]:
            model.optimizer.build(model.trainable_variables)
            whole.read(weights + "-1").expect_partial()
        elif first:
            model.load_weights(weights)
        for epoch in range(first, 4):
            model.fit(x, x[:, :1], batch_size=10, verbose=0)
            with open(os.environ["RESUME"] + "/steps", "a") as file:
                file.write("1" * 4)
            whole.write(weights + "-1") if fn_args.custom_config["whole"] else model.save_weights(weights)
            done.write_text(str(epoch + 1))
            if epoch == 1 and pathlib.Path(os.environ["RESUME"], "fault").exists():
                raise ZeroDivisionError("between two epochs")
        pathlib.Path(os.environ["RESUME"], "told").write_text(str(int(model.optimizer.iterations)))
        model.export(fn_args.serving_model_dir)
"""


@pytest.mark.slow
@pytest.mark.skipif("3" not in KERAS, reason="tf.keras is Keras 2")
@pytest.mark.parametrize(("whole", "iterations"), [(True, 16), (False, 8)])
def test_fits_after_a_checkpoint_of_the_module_are_trained(
    resumed: Callable[..., Resumed], whole: bool, iterations: int
) -> None:
    runs = resumed("3", source=LOOP, whole=whole)
    with pytest.raises(ZeroDivisionError):
        runs.run("raise")

    steps, trained = runs.run()

    assert (steps, trained) == (8, iterations)
