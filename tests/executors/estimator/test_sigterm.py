"""SIGTERM saves an Estimator's training, and ends it so that it is run again."""

from __future__ import annotations

import pathlib
import signal
from collections.abc import Callable
from typing import Any

import pytest

Signalled = Callable[[list[str], str, signal.Signals], tuple[str, int]]
pytestmark = [pytest.mark.legacy, pytest.mark.slow]
MODULES = pathlib.Path(__file__).resolve().parents[3] / "module_files"


def test_sigterm_saves_and_ends_so_that_it_is_run_again(
    signalled: Signalled, iris: Any, tmp_path: pathlib.Path
) -> None:
    line = ["train", str(MODULES / "iris_estimator.py")]
    line += ["--train-files", iris.train, "--eval-files", iris.eval, "--train-steps", "10000000"]
    line += ["--output", str(tmp_path)]

    _, code = signalled(line, "Saving checkpoints for 0 into", signal.SIGTERM)
    assert code == 143
    folder = tmp_path / "model_run" / "Format-Serving"
    step = max(int(path.stem.rpartition("-")[2]) for path in folder.glob("model.ckpt-*.index"))
    assert step > 0
    assert f'model.ckpt-{step}"' in (folder / "checkpoint").read_text()
    assert not list(folder.glob("eval*"))  # TensorFlow evaluates what it saves last, which would not end in time

    said, _ = signalled(line, "Saving checkpoints for", signal.SIGKILL)
    assert f"Saving checkpoints for {step} into" in said
    assert not list(tmp_path.glob("model/Format-Serving"))
