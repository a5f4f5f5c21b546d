"""A converted module in TFX's own GenericExecutor, which knows nothing of this package."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer.executors.dialects.conversion import convert
from generic_trainer.executors.modules import keras_version

pytestmark = pytest.mark.legacy

# It uses `tf.estimator` and Keras 2 at import, which TFX's process does not have.
MODULE = """
    import tensorflow as tf
    from tensorflow import estimator as tf_estimator
    from tensorflow.keras import layers

    NAMES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
    SPEC = {name: tf.io.FixedLenFeature([1], tf.float32) for name in NAMES}
    COLUMNS = [tf.feature_column.numeric_column(name) for name in NAMES]
    OPTIMIZER = tf.keras.optimizers.legacy.Adam
    LABEL_KEY = "variety"

    wide = tf_estimator.LinearClassifier(COLUMNS, n_classes=3)

    class Deep(tf_estimator.DNNClassifier):
        def __init__(self, config):
            super().__init__([8], COLUMNS, n_classes=3, config=config, optimizer=lambda: OPTIMIZER(0.05))

    def hooks(estimator):
        assert isinstance(estimator, Deep)
        assert estimator.model_dir.endswith("model_run/Format-Serving")
        return []
"""
PROGRAM = """
    import sys

    import tensorflow as tf
    from tfx.components.trainer.executor import GenericExecutor
    from tfx.types import standard_artifacts

    tf.keras.Model  # Keras 3, if TensorFlow has it
    keras, loss = tf.keras, tf.losses.mse
    module, folder = sys.argv[1:]

    def artifact(kind, name):
        made = kind()
        made.uri = f"{folder}/{name}"
        return made

    examples = artifact(standard_artifacts.Examples, "examples")
    examples.split_names = '["train", "eval"]'
    GenericExecutor().Do(
        {"examples": [examples], "schema": [artifact(standard_artifacts.Schema, "schema")]},
        {
            "model": [artifact(standard_artifacts.Model, "model")],
            "model_run": [artifact(standard_artifacts.ModelRun, "model_run")],
        },
        {
            "train_args": '{"num_steps": 20}',
            "eval_args": '{"num_steps": 2}',
            "module_file": module,
            "custom_config": "null",
        },
    )
    assert tf.keras is keras and tf.losses.mse is loss
    from tensorflow.keras import layers
    assert layers.Dense is keras.layers.Dense
    print(sorted(tf.saved_model.load(f"{folder}/model/Format-Serving").signatures))
"""


@pytest.mark.slow
def test_it_trains_in_tfxs_own_executor(
    program: Callable[..., str], module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    path = module(MODULE, "iris_deep.py")
    convert(path, "Deep").write()
    source = pathlib.Path(iris.schema).parent
    for split in ("train", "eval"):
        shutil.copytree(source / split, tmp_path / "examples" / f"Split-{split}")
    (tmp_path / "schema").mkdir()
    shutil.copy(iris.schema, tmp_path / "schema")
    environment = {name: value for name, value in os.environ.items() if name != keras_version.VARIABLE}
    printed = program(PROGRAM, path, tmp_path, env=environment)
    assert printed.splitlines()[-1] == "['classification', 'predict', 'serving_default']"
