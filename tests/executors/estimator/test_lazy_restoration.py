"""Any access of a module to `tf.estimator` restores it; if the process has Keras 3, the training restarts."""

from __future__ import annotations

import importlib.util
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import FnArgs, TrainingOptions
from generic_trainer.executors.modules.keras_version import choose
from generic_trainer.executors.preflight.check import check
from generic_trainer.executors.preflight.request import CheckRequest
from generic_trainer.executors.training.run import train

pytestmark = [
    pytest.mark.skipif(
        "before TensorFlow 2.16" in choose("auto", []).reason, reason="this TensorFlow has its own tf.estimator"
    ),
    pytest.mark.skipif(importlib.util.find_spec("tensorflow_estimator") is None, reason="needs tensorflow-estimator"),
]

USES = {
    "attribute": "import tensorflow as tf\ntf.estimator.Estimator",
    "an alias of TensorFlow": "import tensorflow as tf1\ntf1.estimator.DNNClassifier",
    "v1 by from": "from tensorflow.compat import v1\nv1.estimator.inputs.numpy_input_fn",
    "v1 as tf": "import tensorflow.compat.v1 as tf\ntf.estimator.tpu.TPUEstimator",
    "v2 as tf": "import tensorflow.compat.v2 as tf\ntf.estimator.RunConfig",
    "assigned": "import tensorflow as tf\nv1 = tf.compat.v1\nv1.estimator.TrainSpec",
    "getattr": "import tensorflow\ngetattr(tensorflow, 'esti' + 'mator').EvalSpec",
    "from tensorflow": "from tensorflow import estimator\nestimator.FinalExporter",
    "from v1": "from tensorflow.compat.v1 import estimator\nestimator.LinearRegressor",
    "import of the name": "import tensorflow.estimator as e\ne.export.ServingInputReceiver",
    "import of v1's name": "import tensorflow.compat.v1.estimator as e\ne.inputs",
    "nested v1.v2": "import tensorflow as tf\ntf.compat.v1.compat.v2.estimator.Estimator",
    "nested v2.v1": "import tensorflow.compat.v2 as tf\ntf.compat.v1.estimator.DNNClassifier",
    "the package": "from tensorflow_estimator.python.estimator.canned import dnn\ndnn.DNNClassifierV2",
    "the package's old name": "from tensorflow.python.estimator.canned import head",
    "import_module": "import importlib\nimportlib.import_module('tensorflow.estimator').Estimator",
    "a library": "import tensorflow_hub as hub\nhub.text_embedding_column",
    "a wildcard": "from tensorflow import *\nestimator.DNNRegressor",
    "a wildcard of v1": "from tensorflow.compat.v1 import *\nestimator.inputs.numpy_input_fn",
}
PROGRAM = """
import json, runpy, sys
import tensorflow as tf
from generic_trainer.executors.estimator.lazy_restoration import restored_on_use
with restored_on_use() as use:
    runpy.run_path(sys.argv[1])
assert tf.estimator.Estimator is tf.compat.v2.estimator.Estimator
print(json.dumps([use.place, use.is_refused, tf.keras.__name__]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
@pytest.mark.thorough_but("v1 by from", "import of v1's name", "a library")
def test_any_use_restores_it(use: str, program: Callable[..., str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "model.py").write_text(use)
    place, is_refused, keras = json.loads(program(PROGRAM, tmp_path / "model.py").splitlines()[-1])
    assert place.startswith("estimator.py" if "tensorflow_hub" in use else "model.py, line ")
    assert not is_refused
    assert keras.startswith("tf_keras")


@pytest.mark.slow
def test_names_that_nothing_reads_restore_nothing(program: Callable[..., str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "model.py").write_text(
        "import tensorflow as tf\nfrom tensorflow import *\nassert estimator\nassert hasattr(tf, 'estimator')"
    )
    place, is_refused, _ = json.loads(program(PROGRAM, tmp_path / "model.py").splitlines()[-1])
    assert (place, is_refused) == ("", False)


def test_other_names_stay_missing(program: Callable[..., str]) -> None:
    printed = program(
        """
        import tensorflow as tf
        from generic_trainer.executors.estimator.lazy_restoration import restored_on_use
        with restored_on_use() as use:
            for module in (tf, tf.compat.v1, tf.compat.v1.compat.v2):
                try:
                    module.estimater
                except AttributeError as error:
                    print(error)
            try:
                import tensorflow.estimater
            except ModuleNotFoundError as error:
                print(error)
            assert not hasattr(tf, "__wrapped__") and not hasattr(tf.compat.v1, "contrib")
        assert not use.place
        """
    )
    lines = printed.splitlines()
    assert lines[0] == "module 'tensorflow' has no attribute 'estimater'"
    assert all(line.endswith("has no attribute 'estimater'") for line in lines[:3])
    assert lines[3] == "No module named 'tensorflow.estimater'"
    assert len(lines) == 4


MODULE = """
import tensorflow as tf

{before}
backport = tf.compat.v1


def model_fn(features, labels, mode):
    weight = backport.get_variable("weight", [])
    y = weight * features["x"]
    if mode == "infer":
        return specification(mode, predictions={{"y": y}})
    loss = tf.reduce_mean((y - labels) ** 2)
    train_op = backport.train.GradientDescentOptimizer(0.1).minimize(loss, backport.train.get_global_step())
    return specification(mode, loss=loss, train_op=train_op)


def specification(mode, **parts):
    return backport.estimator.EstimatorSpec(mode, **parts)


def input_fn():
    return tf.data.Dataset.from_tensors(({{"x": [1.0, 2.0]}}, [0.0, 0.0])).repeat()


def receiver_fn():
    x = backport.placeholder(tf.float32, [None])
    return backport.estimator.export.ServingInputReceiver({{"x": x}}, {{"x": x}})


def run_fn(fn_args):
    api = getattr(backport, "estimator")
    model = api.Estimator(model_fn, fn_args.model_run_dir)
    api.train_and_evaluate(
        model,
        api.TrainSpec(input_fn, max_steps=fn_args.train_steps),
        api.EvalSpec(input_fn, steps=1),
    )
    tf.io.gfile.rename(model.export_saved_model("export", receiver_fn).decode(), fn_args.serving_model_dir)
"""


@pytest.fixture
def module(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.chdir(tmp_path)

    def write(before: str) -> str:
        (tmp_path / "backported.py").write_text(MODULE.format(before=before))
        return str(tmp_path / "backported.py")

    return write


def arguments(folder: pathlib.Path, **more: Any) -> FnArgs:
    return FnArgs(
        train_files=[], eval_files=[], train_steps=3,
        serving_model_dir=str(folder / "model"), model_run_dir=str(folder / "run"), **more,
    )  # fmt: skip


@pytest.mark.slow
def test_a_training_restarts_with_keras_2(
    module: Callable[[str], str], tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The module uses Keras 3 first and its Estimator only in functions, by names that do not appear in its source."""
    record = train(module("tf.keras.layers.Dense"), arguments(tmp_path))
    assert record.keras == {"version": "2", "reason": "the module uses tf.estimator"}
    assert record.metrics["eval"]["loss"] >= 0
    assert "The worker is restarted with Keras 2. backported.py, line " in caplog.text
    assert (tmp_path / "model" / "saved_model.pb").exists()


@pytest.mark.slow
def test_keras_2_is_selected_without_a_restart_before_first_use(
    module: Callable[[str], str], tmp_path: pathlib.Path
) -> None:
    record = train(module(""), arguments(tmp_path))
    assert record.keras["version"] == "2"
    assert record.keras["reason"].startswith("backported.py, line ")
    assert record.metrics["eval"]["loss"] >= 0


@pytest.mark.slow
def test_the_choice_of_keras_3_is_kept(module: Callable[[str], str], tmp_path: pathlib.Path) -> None:
    with pytest.raises(Exception, match=r"backported.py, line \d+ uses tf.estimator, which needs Keras 2"):
        train(module("tf.keras.layers.Dense"), arguments(tmp_path), TrainingOptions(keras="3"))


@pytest.mark.slow
def test_a_probe_does_not_make_another_failure_a_question_of_keras(
    module: Callable[[str], str], tmp_path: pathlib.Path
) -> None:
    before = "tf.keras.layers.Dense; hasattr(tf, 'estimator'); raise OSError('the estimator of costs is away')"
    with pytest.raises(OSError, match="the estimator of costs is away"):
        train(module(before), arguments(tmp_path))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("before", ["tf.keras.layers.Dense", "k = tf.keras; k.estimator.model_to_estimator"])
def test_check_passes_with_keras_2(before: str, module: Callable[[str], str]) -> None:
    report = check(CheckRequest(module(before), FnArgs(train_files=[], eval_files=[], train_steps=100)))
    assert report.passed, report.to_json()
    assert report.get("training").details["steps"] > 2
    assert report.findings["keras"] == "2"
