"""A training restarts once with the settings that its first start shows to be needed, and `check` does the same."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable

import pytest

from generic_trainer import FnArgs, LateVariableError, TrainingOptions, train
from generic_trainer.executors.dialects.restart import OtherSettings, restarted, with_restarts
from generic_trainer.executors.modules.keras_version import KerasChoice, has_keras_3

pytestmark = pytest.mark.skipif(not has_keras_3(), reason="TensorFlow before 2.16 has only Keras 2")

# Keras reads the folder of its configuration when it is imported.
CONFIGURED = """
import os
os.environ["KERAS_HOME"] = os.path.dirname(__file__)
import keras
import tensorflow as tf

def run_fn(fn_args):
    assert keras.config.floatx() == "float64"
    tf.saved_model.save(tf.Module(), fn_args.serving_model_dir)
"""
CONFIGURATION = '{"floatx": "float64", "epsilon": 1e-7, "backend": "tensorflow", "image_data_format": "channels_last"}'
LIBRARY = """
import tensorflow as tf
import house_layers

def run_fn(fn_args):
    model = tf.keras.Sequential([tf.keras.Input((2,)), house_layers.Dense(1)])
    tf.saved_model.save(model, fn_args.serving_model_dir)
"""
BROKEN = """
import tensorflow as tf

def run_fn(fn_args):
    tf.keras.layers.Dense(-1)
"""


@pytest.fixture
def fn_args(tmp_path: pathlib.Path) -> FnArgs:
    return FnArgs([], [], serving_model_dir=str(tmp_path / "model"), model_run_dir=str(tmp_path / "run"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "keras"),
    [(CONFIGURED, {"version": "3"}), (LIBRARY, {"version": "2"})],
    ids=["a variable that the source does not show", "a library of Keras 2"],
)
def test_a_training_restarts_with_what_the_run_shows(
    source: str, keras: dict[str, object], fn_args: FnArgs, module: Callable[..., str], tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "house_layers.py").write_text("from tf_keras.layers import Dense\n")
    monkeypatch.syspath_prepend(packages)
    path = pathlib.Path(module(source))
    (path.parent / "keras.json").write_text(CONFIGURATION)
    record = train(str(path), fn_args, TrainingOptions(skip_checks=("signatures", "parses", "answers", "finite")))
    assert keras.items() <= record.keras.items()
    assert record.keras.get("variables", {}) == ({"KERAS_HOME": str(path.parent)} if source == CONFIGURED else {})


@pytest.mark.slow
def test_a_module_that_fails_with_both_keras_versions_raises_the_first_error(
    fn_args: FnArgs, module: Callable[..., str]
) -> None:
    with pytest.raises(ValueError, match="-1") as caught:
        train(module(BROKEN), fn_args)
    notes = "\n".join(caught.value.__notes__)
    assert "It fails with Keras 2, too: ValueError" in notes
    assert "tf.keras was Keras 2" not in notes


def test_another_backend_than_keras_has_in_this_process_is_an_error(
    fn_args: FnArgs, module: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import keras

    monkeypatch.setenv("KERAS_BACKEND", keras.config.backend())
    source = CONFIGURED.replace('"KERAS_HOME"', '"KERAS_BACKEND"')
    with pytest.raises(LateVariableError, match="in the shell: export KERAS_BACKEND="):
        train(module(source), fn_args, TrainingOptions(isolate=False))


@pytest.mark.slow
def test_a_script_restarts_before_it_does_anything(
    command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "keras.json").write_text(CONFIGURATION)
    (tmp_path / "script.py").write_text(f"{CONFIGURED}\nprint('computes', keras.config.floatx())\n")
    done = command("script", "script.py", "--no-model", "--output", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("computes") == done.stdout.count("computes float64") == 1


CHOICE = KerasChoice("3", "")
GUESS: OtherSettings = {"version": "2", "reason": "", "is_certain": False}
CERTAIN: OtherSettings = {"version": "2", "reason": "", "is_certain": True}
VARIABLES: OtherSettings = {"variables": {"A": "1"}, "reason": "", "is_certain": True}


def test_each_kind_of_settings_restarts_a_worker_once() -> None:
    options = TrainingOptions()
    again = restarted(CHOICE, VARIABLES, options)
    assert again is not None
    assert again.environment()["A"] == "1"
    assert restarted(again, VARIABLES, options) is None
    last = restarted(again, GUESS, options)
    assert last is not None
    assert (last.version, last.environment()["A"]) == ("2", "1")
    assert restarted(last, GUESS, options) is None
    assert restarted(CHOICE, {}, options) is None


def test_what_was_asked_for_and_what_concerns_other_processes_is_kept() -> None:
    assert restarted(CHOICE, CERTAIN, TrainingOptions(keras="3")) is None
    assert restarted(CHOICE, VARIABLES, TrainingOptions(isolate=False)) is None
    assert restarted(CHOICE, GUESS, TrainingOptions(), distributed=True) is None
    assert restarted(CHOICE, CERTAIN, TrainingOptions(), distributed=True) is not None


@pytest.mark.parametrize(("other", "raised"), [(GUESS, "first"), (CERTAIN, "second")])
def test_the_error_of_the_right_keras_is_raised(other: OtherSettings, raised: str) -> None:
    def run(choice: KerasChoice) -> None:
        error = ValueError("second" if choice.restarts else "first")
        error.restart_with = json.dumps(other)  # type: ignore[attr-defined]
        raise error

    with pytest.raises(ValueError, match=raised):
        with_restarts(CHOICE, TrainingOptions(), run)
