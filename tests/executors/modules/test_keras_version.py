"""The Keras that a module was written for, read off its source."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from generic_trainer.executors.keras.interception import KerasObserver
from generic_trainer.executors.modules.keras_version import KerasChoice, choose
from generic_trainer.executors.runtime.observers import observed_by

KERAS_2 = {
    "the RFC's save": "def run_fn(args):\n    model.save(args.serving_model_dir)",
    "save_format": "model.save(folder, save_format='tf', signatures=s)",
    "a folder": "model.save('saved/1')",
    "a folder in a variable one": "self.model.save(os.path.join(folder, 'saved'))",
    "a folder after a variable one": "model.save(f'{folder}/1', overwrite=True)",
    "Transform": "import tensorflow_transform as tft",
    "tf-keras": "import tf_keras",
    "feature columns": "import tensorflow as tf\ntf.feature_column.numeric_column('x')",
    "DenseFeatures": "tf.keras.layers.DenseFeatures(columns)",
    "a method of metrics": "loss = tf.keras.metrics.Mean()\nloss.reset_states()",
    "legacy optimizers": "tf.keras.optimizers.legacy.Adam()",
    "Estimators": "tf.estimator.Estimator(model_fn)",
    "an imported name": "from tensorflow.keras import layers\nlayers.DenseFeatures(columns)",
    "an import of a part": "from tensorflow.keras.optimizers.legacy import Adam",
    "TensorFlow 1's name": "import tensorflow.compat.v1 as tf\ntf.layers.dense(x, 1)",
    "full name": "import tensorflow\ntensorflow.keras.layers.experimental.preprocessing.Normalization()",
}
KERAS_3 = {
    "import keras": "import keras",
    "from keras": "from keras import layers",
    "this package beside it": "import generic_trainer\nimport keras",
    "ops": "import tensorflow as tf\ntf.keras.ops.sum(x)",
    "an imported name": "from tensorflow import keras as K\nK.ops.sum(x)",
    "an import of a part": "import tensorflow_transform\nfrom tensorflow.keras import ops",
    ".keras files": "model.save(fn_args.serving_model_dir + '/model.keras')",
}
NEITHER = {
    "plain tf.keras": "import tensorflow as tf\ntf.keras.Sequential()",
    "saved_model.save": "tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)",
    "another save": "checkpoint.save(path)",
    "a file of both": "model.save(folder / 'model.h5')",
    "another file of both": "model.save('%s.keras' % name)\nmodel.save(folder + '/' + name + '.keras')",
    "a path that a function chooses": "model.save(path_of('best'))",
    "broken": "def run_fn(:",
}
pytestmark = pytest.mark.usefixtures("keras_3_is_there")


@pytest.fixture
def keras_3_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    if KerasChoice("2", "").environment() == {}:
        pytest.skip("TensorFlow before 2.16 has only Keras 2")
    monkeypatch.delenv("TF_USE_LEGACY_KERAS", raising=False)


def chosen(source: str, folder: pathlib.Path, option: str = "auto") -> KerasChoice:
    file = folder / "taxi.py"
    file.write_text(source)
    return choose(option, [str(file)])


@pytest.mark.parametrize("what", KERAS_2)
def test_signs_of_keras_2(what: str, tmp_path: pathlib.Path) -> None:
    choice = chosen(KERAS_2[what], tmp_path)
    assert choice.version == "2"
    assert choice.reason.startswith("taxi.py, line ")
    assert choice.environment() == {"TF_USE_LEGACY_KERAS": "1"}


@pytest.mark.parametrize("what", KERAS_3)
def test_signs_of_keras_3(what: str, tmp_path: pathlib.Path) -> None:
    choice = chosen(KERAS_3[what], tmp_path)
    assert choice.version == "3"
    assert choice.reason.startswith("taxi.py, line ")
    assert choice.environment() == {"TF_USE_LEGACY_KERAS": "0"}


@pytest.mark.thorough_cases("plain tf.keras")
@pytest.mark.parametrize("what", NEITHER)
def test_no_sign_leaves_it_to_the_process(what: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "taxi.py").write_text(NEITHER[what])
    program = f"""
import os, sys
from generic_trainer.executors.modules.keras_version import choose
def show(): print(choose("auto", [{str(tmp_path / "taxi.py")!r}]).version)
show()
os.environ["TF_USE_LEGACY_KERAS"] = "1"
show()
if {what == "plain tf.keras"}:
    os.environ["TF_USE_LEGACY_KERAS"] = "0"
    import tensorflow as tf
    tf.keras.layers
    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # as importing Transform does, too late
    show()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "2", "3"][: 3 if what == "plain tf.keras" else 2]


def test_keras_2_wins_since_import_keras_works_beside_it(tmp_path: pathlib.Path) -> None:
    assert chosen("import keras\nimport tensorflow_transform", tmp_path).version == "2"


def test_what_fails_under_the_other_keras_goes_before_what_is_usual_with_it(tmp_path: pathlib.Path) -> None:
    usual = "import tensorflow as tf\nimport tensorflow_transform as tft\nimport keras\n"
    assert chosen(usual + "tf.keras.ops.sum(x)", tmp_path).version == "3"
    assert chosen(usual + "keras.ops.sum(x)", tmp_path).version == "3"
    assert chosen(usual + "tf.keras.saving.save_model(model, path)", tmp_path).version == "2"
    assert chosen(usual + "tf.keras.ops.sum(x)\ntf.keras.layers.DenseFeatures(c)", tmp_path).version == "2"


def test_a_caught_error_that_smells_of_the_wrong_keras_counts() -> None:
    def give_up() -> None:
        try:
            raise AttributeError("module 'tf_keras.api._v2.keras' has no attribute 'ops'")
        except AttributeError:
            raise SystemExit(1) from None

    with pytest.raises(SystemExit) as caught:
        give_up()
    assert "--keras 3" in KerasChoice("2", "because").hint(caught.value)


@pytest.mark.parametrize(
    ("requirement", "version"),
    [
        ("tf_keras>=2.16; extra == 'tf'", "2"),
        ("tensorflow<2.16.0,>=2.10", "2"),
        ("tensorflow~=2.15.0", "2"),
        ("tensorflow==2.19.0", "3"),
        ("tensorflow<3,>=2.12.0", "3"),
        ("tensorflow-metadata<1.16", "3"),
    ],
)
def test_a_package_that_requires_keras_2_decides(
    requirement: str, version: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages" / "ranks-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Name: ranks\nVersion: 1.0\nRequires-Dist: {requirement}\n")
    monkeypatch.syspath_prepend(str(folder.parent))
    assert chosen("import ranks", tmp_path).version == version


def _error_inside_keras() -> Exception:
    import keras

    with pytest.raises(ValueError, match="input_dim") as caught:
        keras.layers.Embedding(-1, 2)
    return caught.value


def _error_of_files_inside_keras() -> Exception:
    import keras

    with pytest.raises(OSError) as caught:  # noqa: PT011
        keras.saving.load_model("nowhere/model.h5")
    return caught.value


def test_an_error_inside_keras_is_no_evidence_against_a_version_that_the_code_requires(tmp_path: pathlib.Path) -> None:
    error = _error_inside_keras()
    reason, _ = chosen("import keras", tmp_path).evidence_against(error)
    assert reason.startswith("the error is raised inside Keras 3: ValueError: ")
    assert not reason.endswith(".")
    for source in (KERAS_3["ops"], "import os\nos.environ['KERAS_BACKEND'] = 'jax'\nimport keras"):
        assert chosen(source, tmp_path).evidence_against(error) == ("", False)
    both = f"{KERAS_3['ops']}\n{KERAS_2['DenseFeatures']}"
    assert chosen(both, tmp_path).evidence_against(error)[0]
    assert KerasChoice("3", "").evidence_against(_error_of_files_inside_keras()) == ("", False)


def test_the_option_wins(tmp_path: pathlib.Path) -> None:
    assert chosen(KERAS_2["Transform"], tmp_path, "3") == KerasChoice("3", "keras='3' was requested")
    assert chosen(KERAS_3["ops"], tmp_path, "2").version == "2"


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("3", ValueError("The `save_format` argument is deprecated in Keras 3. Please remove this argument")),
        ("3", ValueError("Invalid filepath extension for saving. Please add either a `.keras` extension")),
        ("3", AttributeError("module 'keras._tf_keras.keras.layers' has no attribute 'DenseFeatures'")),
        ("2", AttributeError("module 'tf_keras.api._v2.keras' has no attribute 'ops'")),
    ],
)
def test_an_error_typical_of_the_wrong_keras_version_names_the_option(version: str, error: Exception) -> None:
    other = "2" if version == "3" else "3"
    assert f"use --keras {other}, or keras=" in KerasChoice(version, "because").hint(error)
    assert KerasChoice(version, "because").hint(ValueError("shapes (3,) and (4,) do not match")) == ""


def test_an_error_of_files_or_of_the_network_is_no_evidence_even_if_keras_replaces_it(tmp_path: pathlib.Path) -> None:
    import keras

    with pytest.raises(Exception, match="URL fetch failure") as caught:
        keras.utils.get_file("missing.npz", f"file://{tmp_path}/none.npz", cache_dir=str(tmp_path))
    assert KerasChoice("3", "because").evidence_against(caught.value) == ("", False)


def test_a_file_error_that_the_module_has_handled_itself_hides_no_evidence(tmp_path: pathlib.Path) -> None:
    import keras

    def without_cache() -> None:
        try:
            (tmp_path / "cache").read_text()
        except FileNotFoundError:
            keras.optimizers.Adam(lr=0.1)

    with pytest.raises(ValueError, match="lr") as caught:
        without_cache()
    assert KerasChoice("3", "because").evidence_against(caught.value)[0].startswith("the error is raised inside Keras")


def test_an_error_in_a_layer_of_an_observed_model_is_evidence() -> None:
    import keras
    import numpy as np

    model = keras.Sequential([keras.Input((4,)), keras.layers.Reshape((2, 2))])
    model.layers[0].target_shape = (3,)
    with observed_by(KerasObserver()), pytest.raises(ValueError, match="Reshape") as caught:
        model(np.ones((1, 4)))
    reason, _ = KerasChoice("3", "because").evidence_against(caught.value)
    assert reason.startswith("the error is raised inside Keras 3: ValueError: ")


def test_a_process_that_uses_the_other_keras_is_refused_and_an_untouched_one_is_not() -> None:
    program = """
import os, sys
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf
from generic_trainer.executors.modules.keras_version import KerasChoice
KerasChoice("3", "").check_this_process()   # nothing has touched tf.keras: either may still come
KerasChoice("2", "").check_this_process()
tf.keras.layers
KerasChoice("2", "").check_this_process()
try:
    KerasChoice("3", "because").check_this_process()
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "InputError keras='3' (because) is not available in this process: tf.keras is already Keras 2" in done.stdout
    assert "isolate=True" in done.stdout
