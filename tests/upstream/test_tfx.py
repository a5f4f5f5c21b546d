"""TFX's own tests of its Trainer and Tuner pass with the imports swapped."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parent / "tfx_tests.py"


@pytest.mark.thorough
@pytest.mark.slow
def test_the_tests_of_the_installed_tfx_pass() -> None:
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    assert done.stdout.count("passed") > 20
