"""The steps of a fit continue those of the attempt before it, with whatever the module restores its model."""

from __future__ import annotations

import functools
import importlib
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer import FnArgs, callbacks
from generic_trainer.executors.keras.fit_progress import fit_progress_reported
from generic_trainer.executors.keras.step_count import EpochLog
from generic_trainer.executors.modules.keras_version import _tensorflow_release
from generic_trainer.executors.monitoring import progress, progress_reports
from generic_trainer.executors.monitoring.progress_reports import Progress

PACKAGES = ["keras", "tf_keras"] if _tensorflow_release() >= (2, 16) else ["keras"]
EPOCHS, LENGTH = 5, 10
LAST = 34  # steps of the first attempt: it is killed in the fourth epoch


class KilledError(Exception):
    """Ends an attempt."""


class Attempt:
    """An attempt of a training.

    Attributes:
      keras: The Keras package.
      folder: Folder for checkpoints, which survives the attempt.
      model: The compiled model.
    """

    def __init__(self, keras: Any, folder: pathlib.Path, is_sized: bool, is_killed: bool = False) -> None:
        self.keras, self.folder, self._is_killed = keras, folder, is_killed
        batches = tf.data.Dataset.from_tensors((tf.ones([2, 1]), tf.ones([2, 1]))).repeat(LENGTH)
        self._data = batches if is_sized else batches.filter(lambda *_: True)
        self.compile()

    def compile(self) -> None:
        inputs = self.keras.Input((1,))
        self.model = self.keras.Model(inputs, self.keras.layers.Dense(1)(inputs))
        self.model.compile("adam", "mse")

    def fit(self, *used: Any, epochs: int = EPOCHS, **given: Any) -> None:
        def kill(batch: int, logs: Any = None) -> None:
            if self._is_killed and progress.reported_step() == LAST:
                raise KilledError

        killing = self.keras.callbacks.LambdaCallback(on_train_batch_end=kill)
        self.model.fit(self._data, epochs=epochs, callbacks=[*used, killing], verbose=0, **given)

    def saved(self, name: str) -> Any:
        return self.keras.callbacks.ModelCheckpoint(str(self.folder / name), save_weights_only="weights" in name)

    def last(self, ending: str) -> tuple[pathlib.Path | None, int]:
        files = sorted(self.folder.glob(f"*{ending}"))
        return (files[-1], len(files)) if files else (None, 0)


def backup(attempt: Attempt, **options: Any) -> None:
    attempt.fit(attempt.keras.callbacks.BackupAndRestore(str(attempt.folder / "backup"), **options))


def whole_model(attempt: Attempt) -> None:
    path, epoch = attempt.last(".keras")
    if path:
        attempt.model = attempt.keras.models.load_model(path)
    attempt.fit(attempt.saved("{epoch}.keras"), initial_epoch=epoch)


def weights_only(attempt: Attempt) -> None:
    path, epoch = attempt.last(".npz")

    def save(epoch: int, logs: Any = None) -> None:
        with (attempt.folder / f"{epoch}.npz").open("wb") as file:
            np.savez(file, *attempt.model.get_weights())

    if path:
        attempt.model.set_weights(list(np.load(path).values()))
    attempt.fit(attempt.keras.callbacks.LambdaCallback(on_epoch_end=save), initial_epoch=epoch)


def fit_for_each_epoch(attempt: Attempt) -> None:
    path, first = attempt.last(".keras")
    if path:
        attempt.model = attempt.keras.models.load_model(path)
    for epoch in range(first, EPOCHS):
        attempt.fit(attempt.saved("{epoch}.keras"), initial_epoch=epoch, epochs=epoch + 1)


def own_callback(attempt: Attempt) -> None:
    """Restores a checkpoint that is not at the end of an epoch."""
    model, keras = attempt.model, attempt.keras
    model.optimizer.build(model.trainable_variables)
    step = tf.Variable(0)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=model, optimizer=model.optimizer, step=step), str(attempt.folder), 1
    )

    class Own(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, logs: Any = None) -> None:
            manager.restore_or_initialize()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if int(step.assign_add(1)) % 8 == 0:
                manager.save()

    attempt.fit(Own())


def own_callbacks_of_the_package(attempt: Attempt) -> None:
    fn_args = FnArgs(checkpoint_dir=str(attempt.folder / "own"), model_run_dir=str(attempt.folder / "logs"))
    backup, *others = callbacks(fn_args, save_steps=8)

    def wait(batch: int, logs: Any = None) -> None:
        backup._checkpoints.wait()

    attempt.fit(backup, *others, attempt.keras.callbacks.LambdaCallback(on_train_batch_end=wait))


CASES: dict[str, tuple[Callable[[Attempt], None], int, int]] = {  # restored step, last step
    "backup at epochs": (backup, 30, 50),
    "backup within epochs": (functools.partial(backup, save_freq=7), 28, 50),
    "whole model": (whole_model, 30, 50),
    "weights only": (weights_only, 30, 50),
    "a fit for each epoch": (fit_for_each_epoch, 30, 50),
    "own callback": (own_callback, 32, 82),  # which restarts the epochs
    "callbacks(fn_args)": (own_callbacks_of_the_package, 32, 50),
}
NOT_SUPPORTED = {
    ("callbacks(fn_args)", "tf_keras", True),  # they are those of tf.keras
    ("callbacks(fn_args)", "tf_keras", False),
    ("backup within epochs", "tf_keras", False),  # a TypeError of tf-keras
}


@pytest.mark.thorough_but(
    "backup at epochs-keras-unknown size",
    "backup within epochs-tf_keras-known size",
    "whole model-tf_keras-unknown size",
    "weights only-keras-unknown size",
    "a fit for each epoch-keras-unknown size",
    "own callback-tf_keras-known size",
    "callbacks(fn_args)-keras-unknown size",
)
@pytest.mark.parametrize("is_sized", [True, False], ids=["known size", "unknown size"])
@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("case", CASES)
def test_the_next_attempt_continues_the_step_count(
    case: str, package: str, is_sized: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (case, package, is_sized) in NOT_SUPPORTED:
        pytest.skip("Keras does not support it.")
    run, restored, last = CASES[case]
    if case == "backup within epochs" and package == "keras":
        last += restored % LENGTH  # Keras 3 restarts the epoch
    keras = importlib.import_module(package)
    with pytest.raises(KilledError):
        attempted(run, Attempt(keras, tmp_path, is_sized, is_killed=True), monkeypatch)
    told = attempted(run, Attempt(keras, tmp_path, is_sized), monkeypatch)
    assert (told.first, told.step, told.details["total"]) == (restored, last, last)
    assert (told.details["epoch"], told.details["epochs"]) == (EPOCHS, EPOCHS)


def attempted(run: Callable[[Attempt], None], attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> Progress:
    """Runs an attempt; returns what it has reported."""
    (folder := attempt.folder / f"progress {time.time_ns()}").mkdir()
    monkeypatch.setenv(progress_reports.VARIABLE, path := progress_reports.create_progress_file(str(folder)))
    with fit_progress_reported([], EpochLog(str(attempt.folder / "epochs.jsonl"))):
        run(attempt)
    told = progress_reports.read(path)
    assert told is not None
    return told


@pytest.mark.parametrize("package", PACKAGES)
def test_a_fit_that_restores_better_weights_counts_on(
    package: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The optimizer's iterations go back with the weights of an earlier epoch; the steps that were done do not."""

    def run(attempt: Attempt) -> None:
        attempt.fit(attempt.saved("{epoch}.keras"))
        attempt.model = attempt.keras.models.load_model(tmp_path / "2.keras")
        attempt.fit(initial_epoch=EPOCHS, epochs=EPOCHS + 2)
        attempt.compile()
        attempt.fit(epochs=1)

    told = attempted(run, Attempt(importlib.import_module(package), tmp_path, is_sized=False), monkeypatch)
    assert (told.first, told.step, told.steps, told.details["total"]) == (0, 80, 80, 80)


@pytest.mark.parametrize(("package", "length"), [("keras", {}), ("keras", {"steps_per_epoch": 7}), ("tf_keras", {})])
def test_groups_of_steps_count_what_was_trained(
    package: str, length: dict[str, int], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `steps_per_execution`, the last group of an epoch has fewer batches, or more than `steps_per_epoch`."""
    if package not in PACKAGES:
        pytest.skip("It is not installed.")
    attempt = Attempt(importlib.import_module(package), tmp_path, is_sized=True)
    attempt.model.compile("adam", "mse", steps_per_execution=4)

    told = attempted(lambda attempt: attempt.fit(epochs=1, **length), attempt, monkeypatch)

    trained = int(attempt.model.optimizer.iterations)
    assert (told.step, told.steps, told.details["total"]) == (trained, trained, trained)
