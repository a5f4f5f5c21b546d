"""The checkpoint interval after deaths of workers, in each dialect."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from generic_trainer import FnArgs, callbacks
from generic_trainer.executors.dialects.elasticdl.options import ElasticDLOptions
from generic_trainer.executors.monitoring import progress_reports, save_interval


def test_the_interval_is_that_of_young_and_daly() -> None:
    assert save_interval.optimal_steps(save_seconds=2.0, seconds_between_deaths=3600.0, steps_per_second=5.0) == 600
    assert save_interval.optimal_steps(0.0, 0.01, 1.0) == 1


def test_the_measured_interval_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert save_interval.measured_steps() is None
    monkeypatch.setenv(save_interval.VARIABLE, "40")
    assert save_interval.measured_steps() == 40


@pytest.mark.parametrize(
    ("workers", "own", "measured", "expected"),
    [
        (2, {}, "", (None, 500)),
        (2, {}, "40", (None, 40)),
        (2, {"save_steps": 7}, "40", (None, 7)),
        (1, {}, "", (60.0, None)),
        (1, {}, "40", (None, 40)),
        (1, {"save_seconds": 5.0}, "40", (5.0, None)),
        (1, {"save_steps": 7}, "40", (60.0, 7)),
    ],
)
def test_keras_saves_in_the_measured_interval_unless_the_module_sets_one(
    workers: int,
    own: dict[str, Any],
    measured: str,
    expected: tuple[float | None, int | None],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(save_interval.VARIABLE, measured)
    fn_args = FnArgs(num_workers=workers, model_run_dir=str(tmp_path), checkpoint_dir=str(tmp_path / "checkpoints"))

    backup = callbacks(fn_args, **own)[0]

    assert (backup._save_seconds, backup._save_steps) == expected


@pytest.mark.parametrize(
    ("workers", "own", "measured", "expected"),
    [
        (1, {}, "", (0, 0)),
        (2, {}, "", (500, 2)),
        (1, {}, "40", (40, 2)),
        (2, {}, "40", (40, 2)),
        (2, {"keep_checkpoint_max": 3}, "40", (40, 3)),
        (2, {"checkpoint_steps": 7}, "40", (7, 0)),
        (2, {"checkpoint_steps": 0}, "40", (0, 0)),
    ],
)
def test_elasticdl_saves_in_the_measured_interval_unless_checkpoint_steps_is_given(
    workers: int, own: dict[str, int], measured: str, expected: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(save_interval.VARIABLE, measured)

    options = ElasticDLOptions.of(FnArgs(num_workers=workers, custom_config=own))

    assert (options.checkpoint_steps, options.keep_checkpoint_max) == expected


ESTIMATORS = """
import os
import sys

import numpy as np

from generic_trainer.executors.estimator import restore_estimator

restore_estimator()
import tensorflow.compat.v1 as tf
from generic_trainer.executors.estimator.background_saving import save_in_background
from generic_trainer.executors.estimator.measured_interval import measured_interval_applied
from generic_trainer.executors.monitoring import progress_reports

def input_fn():
    return tf.data.Dataset.from_tensors(({"x": np.ones((4, 1), np.float32)}, np.ones((4, 1), np.float32))).repeat()

for name, own, is_ours in (("default", {}, True), ("theirs", {}, False), ("set", {"save_checkpoints_steps": 8}, True)):
    folder = os.path.join(sys.argv[1], name)
    config = tf.estimator.RunConfig(folder, keep_checkpoint_max=9, **own)
    estimator = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")], folder, config=config)
    if is_ours:
        save_in_background(estimator)
    with measured_interval_applied():
        estimator.train(input_fn, max_steps=12)
    steps = [path.rpartition("-")[2] for path in tf.train.get_checkpoint_state(folder).all_model_checkpoint_paths]
    print(name, *steps)
print("timed", "save_seconds" in progress_reports.read(os.environ[progress_reports.VARIABLE]).details)
"""


def test_estimators_save_in_the_measured_interval_unless_their_run_config_sets_one(tmp_path: pathlib.Path) -> None:
    variables = {
        save_interval.VARIABLE: "5",
        progress_reports.VARIABLE: progress_reports.create_progress_file(str(tmp_path)),
    }

    done = subprocess.run(
        [sys.executable, "-c", ESTIMATORS, str(tmp_path)], env={**os.environ, **variables}, stdout=subprocess.PIPE,
        text=True, check=True,
    )  # fmt: skip

    assert done.stdout.splitlines() == ["default 0 5 10 12", "theirs 0 5 10 12", "set 0 8 12", "timed True"]
