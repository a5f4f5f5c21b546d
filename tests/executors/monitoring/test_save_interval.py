"""The checkpoint interval after deaths of workers."""

from __future__ import annotations

import pathlib

import pytest

from generic_trainer import FnArgs, callbacks
from generic_trainer.executors.monitoring import save_interval


def test_the_interval_is_that_of_young_and_daly() -> None:
    assert save_interval.optimal_steps(save_seconds=2.0, seconds_between_deaths=3600.0, steps_per_second=5.0) == 600
    assert save_interval.optimal_steps(0.0, 0.01, 1.0) == 1


@pytest.mark.parametrize(
    ("workers", "own", "measured", "expected"),
    [(2, None, "", 500), (2, None, "40", 40), (2, 7, "40", 7), (1, None, "40", None)],
)
def test_keras_saves_in_the_measured_interval_unless_the_module_sets_one(
    workers: int,
    own: int | None,
    measured: str,
    expected: int | None,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(save_interval.VARIABLE, measured)
    fn_args = FnArgs(num_workers=workers, model_run_dir=str(tmp_path), checkpoint_dir=str(tmp_path / "checkpoints"))

    backup = callbacks(fn_args, save_steps=own)[0]

    assert backup._save_steps == expected
