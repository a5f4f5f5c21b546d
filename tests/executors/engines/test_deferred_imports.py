"""Deferred imports behave like normal ones, except for the time at which they run."""

from __future__ import annotations

import importlib
import json
import pathlib
import subprocess
import sys
import textwrap
import threading

import pytest

from generic_trainer.executors.engines.deferred_imports import deferred


@pytest.fixture
def package(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that is slow to import and counts its imports, and a module that binds it."""
    folder = tmp_path / "slow_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import pathlib, time\nwith open(pathlib.Path(__file__).parent / 'log', 'a') as file: file.write('x')\n"
        "time.sleep(0.2)\nvalue = 7\n"
    )
    (folder / "inner.py").write_text("from slow_package import value\nvalue += 1\n")
    (tmp_path / "binds_it.py").write_text("import slow_package\ndef value(): return slow_package.value\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "slow_package"
    for name in ("slow_package", "slow_package.inner", "binds_it"):
        sys.modules.pop(name, None)


def imported(tmp_path: pathlib.Path) -> int:
    log = tmp_path / "slow_package" / "log"
    return len(log.read_text()) if log.exists() else 0


def test_a_package_is_imported_once_on_first_access(package: str, tmp_path: pathlib.Path) -> None:
    with deferred([package]):
        binds_it = importlib.import_module("binds_it")
        assert package in sys.modules
    assert imported(tmp_path) == 0
    assert package not in sys.modules
    threads = [threading.Thread(target=binds_it.value) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert binds_it.value() == 7
    assert imported(tmp_path) == 1
    assert sys.modules[package].value == 7
    binds_it.slow_package.value = 8  # as monkey patches do
    assert sys.modules[package].value == 8
    assert "value" in dir(binds_it.slow_package)


def test_importing_a_submodule_imports_the_package(package: str, tmp_path: pathlib.Path) -> None:
    with deferred([package]):
        import slow_package.inner

        assert slow_package.inner.value == 8
    assert imported(tmp_path) == 1


def test_a_missing_package_is_reported_immediately() -> None:
    with deferred(["no_such_package"]), pytest.raises(ModuleNotFoundError, match="no_such_package"):
        importlib.import_module("no_such_package")


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("keras", ["0", "1"])
def test_tensorflow_and_keras_work_unchanged_with_it(keras: str, tmp_path: pathlib.Path) -> None:
    if keras == "1":
        pytest.importorskip("tf_keras", reason="Keras 2 is TensorFlow's own here")
    program = """
        import json, sys
        from generic_trainer.executors.engines.deferred_imports import deferred
        with deferred():
            import tensorflow as tf
        put_off = [name for name in ("IPython", "pandas", "sklearn", "googleapiclient.discovery", "h5py")
                   if name not in sys.modules]
        import numpy as np, pandas as pd
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        frame = pd.DataFrame({"x": [1.0, 2.0], "y": [2.0, 4.0]})
        loss = model.fit(frame[["x"]], frame["y"], verbose=0, epochs=2).history["loss"]
        model.save_weights("weights.weights.h5")
        import keras
        wrappers = keras.wrappers.SKLearnClassifier.__name__ if keras.__version__.startswith("3.") else ""
        print("FOUND", json.dumps([put_off, len(loss), wrappers, pd is sys.modules["pandas"]]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "TF_USE_LEGACY_KERAS": keras, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    put_off, losses, wrappers, same = json.loads(done.stdout.rpartition("FOUND ")[2])
    assert {"pandas", "googleapiclient.discovery", "h5py"} <= set(put_off)
    assert losses == 2
    assert same
    assert wrappers in ("", "SKLearnClassifier")
