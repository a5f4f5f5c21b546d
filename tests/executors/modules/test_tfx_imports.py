"""A training module finds the same process environment as in TFX's own Trainer."""

from __future__ import annotations

import importlib
import inspect
import logging
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from generic_trainer.executors.modules.tfx_imports import tfx_imports_available

NOTEBOOK = "IPython.core.magics.namespace"
# A TFX user's module that breaks wherever the process differs from TFX's own.
SOURCE = """
    import argparse, os, sys
    import tensorflow as tf
    import tfx
    from keras.src.utils import model_visualization

    model_visualization.pydot = None  # as where it is not installed

    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=3)
    ARGUMENTS = parser.parse_args()

    def run_fn(fn_args):
        assert "generic_trainer" not in " ".join(sys.argv[1:])
        assert tfx.v1.components.FnArgs
        assert os.environ["TF2_BEHAVIOR"] == "1"
        model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(ARGUMENTS.units)])
        tf.keras.utils.plot_model(model, "model.png")
        model.export(fn_args.serving_model_dir)
"""


@pytest.fixture
def without_ipython() -> Iterator[None]:
    held = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "IPython"}
    yield
    sys.modules.update(held)


@pytest.mark.usefixtures("without_ipython")
def test_ipython_counts_as_imported_and_is_imported_on_use() -> None:
    pytest.importorskip("IPython")
    for name in [name for name in sys.modules if name.partition(".")[0] == "IPython"]:
        del sys.modules[name]
    with tfx_imports_available():
        assert NOTEBOOK in sys.modules
        inspect.getmodule(test_ipython_counts_as_imported_and_is_imported_on_use)
        assert "IPython" not in sys.modules
        assert importlib.import_module(NOTEBOOK).NamespaceMagics.__module__ == NOTEBOOK
        assert "IPython" in sys.modules


def test_a_submodule_is_imported_on_access_and_a_misspelled_one_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(logging, "handlers", raising=False)
    with tfx_imports_available():
        assert logging.handlers.RotatingFileHandler
        with pytest.raises(AttributeError, match="module 'logging' has no attribute 'handlerz'"):
            logging.handlerz  # type: ignore[attr-defined] # noqa: B018
    assert "__getattr__" not in vars(logging)


@pytest.mark.thorough
def test_a_module_that_relies_on_tfxs_process_trains(
    command: Callable[..., subprocess.CompletedProcess[str]],
    module: Callable[..., str],
    iris: Any,
    tmp_path: pathlib.Path,
) -> None:
    pytest.importorskip("IPython")
    done = command("train", module(SOURCE), "--train-files", iris.train, "--output", tmp_path / "out", "--keras", "3")
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
def test_tensorflow_data_validation_imports_first(tmp_path: pathlib.Path) -> None:
    (module := tmp_path / "trainer.py").write_text("import tensorflow_data_validation as tfdv\n")
    code = (
        "from generic_trainer.executors.modules.loader import loaded\n"
        "from generic_trainer.executors.modules.source import find_source\n"
        f"with loaded(find_source({str(module)!r}, {str(tmp_path / 'scratch')!r})) as module:\n"
        "    assert module.tfdv.infer_schema\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
