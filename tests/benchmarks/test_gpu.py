"""The GPU benchmark runs without GPUs: its code on logical devices of a CPU, without reporting results."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys

import pytest

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPT = str(BENCHMARKS / "gpu.py")


@pytest.mark.thorough
@pytest.mark.slow
def test_both_sides_train_on_two_devices_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu
    import turns

    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(turns.side(SCRIPT, side, {gpu._MODEL: model, gpu._ON_CPU: "1", gpu._STEPS: "2"}))
            for side, model in (("ours", "wide"), ("by_hand", "resnet"))
        ]
        assert all(turn() > 0 for turn in started)


@pytest.mark.thorough
def test_a_missing_gpu_is_reported() -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, env=environment, check=False)

    assert done.returncode == 2, done.stderr
    assert done.stdout.startswith("TensorFlow found no GPU")
    assert "--on-cpu-devices" in done.stdout
