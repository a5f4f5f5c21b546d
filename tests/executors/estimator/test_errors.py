"""Errors of `restore_estimator`, in a subprocess, because Keras must not have been imported yet."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from generic_trainer.executors.modules.keras_version import choose

RESTORED = "before TensorFlow 2.16" not in choose("auto", []).reason

# None in sys.modules makes the import of a package fail.
PROGRAM = """
import json, os, sys
import tensorflow as tf
from generic_trainer.executors.estimator import restore_estimator

def say():
    try:
        restore_estimator()
    except RuntimeError as error:
        found = [hasattr(tf, "estimator"), os.environ.get("TF_USE_LEGACY_KERAS"), str(error)]
        print(json.dumps(found))

for package in ("tensorflow_estimator", "tf_keras"):
    sys.modules[package] = None
    say()
    del sys.modules[package]
tf.keras.layers.Dense
say()
"""


@pytest.mark.slow
@pytest.mark.skipif(not RESTORED, reason="this TensorFlow has its own tf.estimator")
def test_a_missing_package_or_keras_3_is_reported_with_the_remedy_and_nothing_is_half_restored() -> None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_USE_LEGACY_KERAS", None)
    line = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=100, env=environment)
    said = [json.loads(printed) for printed in done.stdout.splitlines() if printed.startswith("[")]
    assert [restored for restored, _, _ in said] == [False] * 3
    assert [variable for _, variable, _ in said] == [None] * 3
    install = "pip install 'generic-trainer[estimator]'"
    wheel, keras_2, keras_3 = (message for _, _, message in said)
    assert "the package tensorflow-estimator" in wheel
    assert install in wheel
    assert "the package tf-keras" in keras_2
    assert install in keras_2
    assert "tf.keras is already Keras 3 in this process" in keras_3
    assert "isolate=True" in keras_3
