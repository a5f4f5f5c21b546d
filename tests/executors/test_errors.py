"""The family of errors, and what callers written for TFX catch."""

from __future__ import annotations

import pathlib

import pytest

from generic_trainer import FnArgs, InputError, ModuleError, TrainerError, TrainingOptions
from generic_trainer.executors.training.run import train


@pytest.mark.parametrize("error", [InputError, ModuleError])
def test_wrong_input_is_a_value_error_as_in_tfx(error: type[Exception]) -> None:
    assert issubclass(error, TrainerError)
    assert issubclass(error, ValueError)


def test_callers_of_tfx_catch_what_is_missing(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="stop_on_nan"):
        TrainingOptions.from_exec_properties({"stop_on_nan": "perhaps"})
    with pytest.raises(ValueError, match=r"nothing\.py"):
        train(
            str(tmp_path / "nothing.py"),
            FnArgs(serving_model_dir=str(tmp_path / "model"), model_run_dir=str(tmp_path / "run")),
        )
