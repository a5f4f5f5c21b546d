"""The example modules with `run_fn` also run in TFX's own Trainer."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

HERE = pathlib.Path(__file__).parent
MODULES = HERE.parent.parent / "module_files"


@pytest.mark.slow
@pytest.mark.parametrize("keras", ["3", pytest.param("2", marks=pytest.mark.thorough)])
def test_run_fn_modules_train_in_tfx_itself(keras: str, iris: Any, digits: Any, taxi_csv: Any, tmp_path: Any) -> None:
    flowers, images = ({"train": data.train, "eval": data.eval} for data in (iris, digits))
    modules = {
        "3": {"iris_keras": flowers, "iris_tuner": flowers, "digits_custom_loop": images, "digits_workers": images},
        "2": {"taxi_keras": {"csv": str(taxi_csv)}},
    }[keras]
    # TFX's component packs the modules next to a module, which iris_tuner.py imports; its executor does not.
    environment = {**os.environ, "PYTHONPATH": str(MODULES), "TF_USE_LEGACY_KERAS": str(int(keras == "2"))}
    line = [sys.executable, HERE / "tfx_trainer.py", tmp_path]
    line.append(json.dumps({f"{MODULES / name}.py": data for name, data in modules.items()}))
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {}
