"""`tf.estimator` on TensorFlow releases without it, and the modules of early TFX releases that return an Estimator.

Estimators need Keras 2 in their process from the start, so everything here runs in subprocesses.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer.executors.dialects.estimators.dialect import find_estimator_use
from generic_trainer.executors.modules.keras_version import choose

RESTORED = "before TensorFlow 2.16" not in choose("auto", []).reason
pytestmark = pytest.mark.legacy

Command = Callable[..., subprocess.CompletedProcess[str]]


def python(program: str) -> str:
    """Runs a program in a subprocess and returns its output."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_USE_LEGACY_KERAS", None)
    line = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_estimators_train_as_on_tensorflow_2_15_to_the_last_digit() -> None:
    """The expected numbers are those that TensorFlow 2.15.1 prints for the same program with its own tf.estimator."""
    printed = python("""
        from generic_trainer.executors.estimator import restore_estimator
        restore_estimator()
        restore_estimator()
        import json
        import numpy as np
        import tensorflow as tf
        tf.random.set_seed(1)
        x = np.random.RandomState(0).rand(200, 1).astype("float32")
        y = (x[:, 0] > 0.5).astype("int32")

        def input_fn():
            return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).repeat().batch(20)

        columns = [tf.feature_column.numeric_column("x")]
        estimator = tf.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=columns, dnn_feature_columns=columns, dnn_hidden_units=[8],
            config=tf.estimator.RunConfig(tf_random_seed=1),
        )
        tf.estimator.train_and_evaluate(
            estimator, tf.estimator.TrainSpec(input_fn, max_steps=200), tf.estimator.EvalSpec(input_fn, steps=10)
        )
        metrics = estimator.evaluate(input_fn, steps=10)
        print(json.dumps({name: float(value) for name, value in metrics.items()}))
    """)
    metrics = json.loads(printed.splitlines()[-1])
    assert metrics["loss"] == pytest.approx(0.7948168, rel=1e-6)
    assert metrics["prediction/mean"] == pytest.approx(0.44387883, rel=1e-6)
    assert metrics["auc_precision_recall"] == pytest.approx(0.33045185, rel=1e-6)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(not RESTORED, reason="this TensorFlow has tf.estimator")
def test_every_old_name_resolves_to_the_same_modules() -> None:
    python("""
        from generic_trainer.executors.estimator import restore_estimator
        import tensorflow as tf
        restore_estimator()
        from tensorflow import estimator
        import tensorflow.compat.v1.estimator as v1
        from tensorflow.estimator import export
        import tensorflow_estimator.python.estimator.estimator as real
        assert estimator is tf.estimator and v1 is tf.compat.v1.estimator
        assert tf.estimator.Estimator is real.EstimatorV2 and v1.Estimator is real.Estimator
        assert tf.keras.__name__.startswith("tf_keras.")
        from tensorflow.python.estimator import estimator as old
        from tensorflow.python.estimator.canned import head
        assert old is real
        try:
            tf.compat.v1.tpu.experimental.AdamParameters(0.1)
        except NotImplementedError as error:
            assert "use_tpu=False" in str(error)
        else:
            raise AssertionError
    """)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(not RESTORED, reason="this TensorFlow has tf.estimator")
def test_a_process_on_keras_3_gets_an_error_with_the_remedy() -> None:
    printed = python("""
        import tensorflow as tf
        from generic_trainer.executors.estimator import restore_estimator
        tf.keras.layers
        try:
            restore_estimator()
        except RuntimeError as error:
            print(error)
    """)
    assert "TF_USE_LEGACY_KERAS=1" in printed


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import tensorflow as tf\ndef run_fn(a): tf.estimator.train_and_evaluate(1, 2, 3)", "tf.estimator"),
        ("from tensorflow import estimator as tf_estimator", "from tensorflow import estimator"),
        ("def trainer_fn(fn_args, schema): pass", "def trainer_fn"),
        ("from tensorflow_estimator.python.estimator import estimator", "import tensorflow_estimator.python"),
        ("x = tf.compat.v1.estimator", "tf.compat.v1.estimator"),
    ],
)
def test_use_of_estimators_is_detected_in_the_source(source: str, what: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.py").write_text(source)
    found = find_estimator_use(str(tmp_path / "m.py"))
    assert found is not None
    assert found[1].startswith(what)


def test_other_modules_do_not_get_them(tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.py").write_text("import tensorflow as tf\nestimator = 1\ntf.keras.Sequential()\n")
    assert find_estimator_use(str(tmp_path / "m.py")) is None


IRIS_MODULE = """
    import tensorflow as tf
    import tensorflow_model_analysis as tfma

    NAMES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
    SPEC = {name: tf.io.FixedLenFeature([1], tf.float32) for name in NAMES}

    def _input_fn(patterns):
        files = tf.io.gfile.glob(patterns)
        data = tf.data.TFRecordDataset(files, "GZIP").repeat().batch(20)
        def parse(records):
            parsed = tf.io.parse_example(records, {**SPEC, "variety": tf.io.FixedLenFeature([1], tf.int64)})
            return parsed, parsed.pop("variety")
        return data.map(parse)

    def _eval_receiver():
        examples = tf.compat.v1.placeholder(tf.string, [None])
        features = tf.io.parse_example(examples, {**SPEC, "variety": tf.io.FixedLenFeature([1], tf.int64)})
        labels = features.pop("variety")
        return tfma.export.EvalInputReceiver(features=features, receiver_tensors={"examples": examples}, labels=labels)

    def trainer_fn(trainer_fn_args, schema):
        assert [feature.name for feature in schema.feature][:4] == list(NAMES)
        assert trainer_fn_args["hidden_units"] == trainer_fn_args.hidden_units == 8  # spread, as in TFX 0.21
        columns = [tf.feature_column.numeric_column(name) for name in NAMES]
        receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(SPEC)
        estimator = tf.estimator.DNNClassifier(
            [trainer_fn_args.hidden_units], columns, n_classes=3,
            config=tf.estimator.RunConfig(
                tf_random_seed=1, save_checkpoints_steps=150, model_dir=trainer_fn_args.serving_model_dir
            ),
            optimizer=lambda: tf.keras.optimizers.legacy.Adam(0.05),
        )
        exporters = [
            tf.estimator.FinalExporter("final", receiver),
            tf.estimator.BestExporter("best", receiver),
            tf.estimator.LatestExporter("latest", receiver),
        ]
        return {
            "estimator": estimator,
            "train_spec": tf.estimator.TrainSpec(
                lambda: _input_fn(trainer_fn_args.train_files), max_steps=trainer_fn_args.train_steps
            ),
            "eval_spec": tf.estimator.EvalSpec(
                lambda: _input_fn(trainer_fn_args.eval_files), steps=2, exporters=exporters, throttle_secs=0
            ),
            "eval_input_receiver_fn": _eval_receiver,
        }
"""


@pytest.mark.slow
def test_a_trainer_fn_module_runs_unchanged(
    command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    out = tmp_path / "out"
    data = ["--train-files", iris.train, "--eval-files", iris.eval, "--schema", iris.schema, "--output", out]
    done = command(
        *["train", module(IRIS_MODULE), *data, "--train-steps", 300, "--custom-config", '{"hidden_units": 8}'],
        *["--required-signature", "predict"],
    )
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads((out / "model_run" / "run.json").read_text())
    assert record["dialect"] == {"name": "trainer_fn", "reason": "it defines trainer_fn"}
    assert record["metrics"]["eval"]["accuracy"] > 0.9
    assert {record["check"]["checks"][name] for name in ("answers", "batches")} == {"passed"}
    assert (out / "model" / "Format-Serving" / "saved_model.pb").exists()
    work = out / "model_run" / "Format-Serving"
    assert {path.name for path in (work / "export").iterdir()} == {"final", "best", "latest"}
    assert (work / "checkpoint").exists()
    assert (out / "model" / "Format-TFMA" / "saved_model.pb").exists()


RFC = """
    import absl
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx.utils import io_utils

    def run_fn(fn_args):
        schema = io_utils.parse_pbtxt_file(fn_args.schema_file, schema_pb2.Schema())
        fn_args.hidden_units = 8
        training_spec = trainer_fn(fn_args, schema)
        absl.logging.info("Training model.")
        tf.estimator.train_and_evaluate(
            training_spec["estimator"], training_spec["train_spec"], training_spec["eval_spec"]
        )
        absl.logging.info("Training complete.  Model written to %s", fn_args.serving_model_dir)
        tfma.export.export_eval_savedmodel(
            estimator=training_spec["estimator"],
            export_dir_base=fn_args.eval_model_dir,
            eval_input_receiver_fn=training_spec["eval_input_receiver_fn"],
        )
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_the_rfcs_run_fn_runs_unchanged(
    command: Command, module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    """It trains directly in serving_model_dir; the model is in `export/NAME/TIMESTAMP` below it."""
    path = module(textwrap.dedent(IRIS_MODULE) + textwrap.dedent(RFC))
    data = ["--train-files", iris.train, "--eval-files", iris.eval, "--schema", iris.schema]
    done = command("train", path, *data, "--output", tmp_path / "out", "--train-steps", 300, "--seed", 1)
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())
    assert record["dialect"]["name"] == "run_fn"
    assert record["check"]["checks"]["answers"] == "passed"
    model = tmp_path / "out" / "model" / "Format-Serving"
    assert (model / "checkpoint").exists()
    assert {path.name for path in (model / "export").iterdir()} == {"final", "best", "latest"}


@pytest.mark.slow
def test_the_result_of_trainer_fn_is_checked_key_by_key() -> None:
    printed = python("""
        from generic_trainer.executors.estimator import restore_estimator
        restore_estimator()
        import tensorflow as tf
        from generic_trainer.executors.dialects.estimators.trainer_fn_run import _checked
        estimator = tf.estimator.LinearRegressor([])
        train = tf.estimator.TrainSpec(lambda: None, max_steps=1)
        for spec in (None, {"estimator": estimator}, {"estimator": estimator, "train_spec": train, "eval_spec": train}):
            try:
                _checked(spec, "m.py: trainer_fn")
            except Exception as error:
                print(type(error).__name__, error)
    """)
    first, second, third = printed.splitlines()
    assert first.endswith("trainer_fn must return a dict with estimator, train_spec, eval_spec; it returned None.")
    assert (
        second == "ModuleError m.py: trainer_fn returned a dict without 'train_spec' and 'eval_spec'; it has estimator."
    )
    assert third.startswith("ModuleError m.py: trainer_fn returned eval_spec=TrainSpec(")
    assert third.endswith("it must be a tf.estimator.EvalSpec.")
