"""Paths of Keras 2 that current releases do not have still import, in either Keras, and only while a module is used."""

from __future__ import annotations

import importlib
import pathlib
import subprocess
import sys

import pytest

from generic_trainer.executors.compat.keras_source import is_missing
from generic_trainer.executors.modules import keras_version
from generic_trainer.executors.modules.keras_imports import legacy_keras_imports

_MODULE = """\
import os
os.environ["TF_USE_LEGACY_KERAS"] = {legacy!r}
import tensorflow as tf
from generic_trainer.executors.dialects.loading import loaded
from generic_trainer.executors.modules.source import find_source

with loaded(find_source({path!r}, {scratch!r})) as module:
    module.require_public()
"""
_IMPORTS = """\
import keras.utils.vis_utils
from keras.engine.training import Model
from keras.layers.core import Dense
from keras.utils.np_utils import to_categorical
from keras.utils.vis_utils import model_to_dot, plot_model
import tensorflow as tf


def require_public():
    assert keras.utils.vis_utils.plot_model is plot_model is tf.keras.utils.plot_model
    assert model_to_dot is tf.keras.utils.model_to_dot
    assert to_categorical is tf.keras.utils.to_categorical
    assert Dense is tf.keras.layers.Dense
    assert Model is tf.keras.Model
"""
_BOTH = """\
import keras
from keras import layers
from keras.callbacks import EarlyStopping
from keras.layers import Dense
import tensorflow as tf


def require_public():
    assert keras.layers.Dense is layers.Dense is Dense is tf.keras.layers.Dense
    assert EarlyStopping is tf.keras.callbacks.EarlyStopping
    model = tf.keras.Sequential([layers.Input((2,)), Dense(1)])
    model.compile("adam", "mse")
    model.fit(tf.ones((4, 2)), tf.ones((4, 1)), verbose=0)
"""
_KERAS_ALONE = """\
import keras


def require_public():
    assert keras.__version__.startswith("3.")
"""
_KERAS_2_ALONE = """\
import os

import keras
from keras import layers


def require_public():
    assert keras.__version__.startswith("2." if os.environ["TF_USE_LEGACY_KERAS"] == "1" else "3.")
    assert isinstance(keras.Sequential([layers.Dense(1)]), keras.Model)


def run_fn(fn_args):
    model = keras.Sequential([layers.Dense(1)])
    model.save(fn_args.serving_model_dir, save_format="tf")
"""


@pytest.mark.thorough_but("keras-0")
@pytest.mark.parametrize("legacy", ["0", "1"])
@pytest.mark.parametrize(
    "source",
    [_IMPORTS, _BOTH, _KERAS_ALONE, _KERAS_2_ALONE],
    ids=["old paths", "keras and tf.keras", "keras", "keras of version 2"],
)
def test_import_keras_works_as_when_the_module_was_written(source: str, legacy: str, tmp_path: pathlib.Path) -> None:
    (module := tmp_path / "trainer.py").write_text(source)
    code = _MODULE.format(legacy=legacy, path=str(module), scratch=str(tmp_path / "scratch"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_an_unknown_name_is_an_import_error_and_the_path_is_removed_with_the_block() -> None:
    with legacy_keras_imports([]):
        module = importlib.import_module("keras.utils.vis_utils")
        with pytest.raises(AttributeError, match=r"keras\.utils\.vis_utils.*'no_such_name'"):
            _ = module.no_such_name
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("keras.utils.vis_utils")


def test_paths_that_keras_has_are_left_alone() -> None:
    assert not any(map(is_missing, ("keras", "keras.layers", "keras.utils", "numpy.core", "keras_tuner")))
    assert all(map(is_missing, ("keras.engine", "keras.layers.core", "keras.wrappers.scikit_learn")))


def test_an_old_path_is_evidence_of_keras_2(tmp_path: pathlib.Path) -> None:
    (file := tmp_path / "trainer.py").write_text("from keras.utils.vis_utils import plot_model\n")
    choice = keras_version.choose("auto", [str(file)])
    assert choice.version == "2"
    assert choice.reason.endswith(
        "trainer.py, line 1: import keras.utils.vis_utils, a module that Keras 3 does not have"
    )


@pytest.mark.thorough
def test_tensorflow_hub_imports_though_it_needs_estimators(tmp_path: pathlib.Path) -> None:
    source = "import tensorflow_hub as hub\n\n\ndef require_public():\n    assert hub.KerasLayer\n"
    (module := tmp_path / "trainer.py").write_text(source)
    code = _MODULE.format(legacy="1", path=str(module), scratch=str(tmp_path / "scratch"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
