"""Packages with custom ops: found by the library that they have loaded, needed by check, predict and evaluation."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from generic_trainer import InputError
from generic_trainer.executors.runtime.logs.exceptions import summary_of
from generic_trainer.executors.saved_models.custom_ops import (
    imported_op_packages,
    needed_packages,
    op_libraries_noted,
)
from generic_trainer.executors.saved_models.installed_op_libraries import packages_with
from generic_trainer.executors.saved_models.op_package_imports import import_packages_for

Command = Callable[..., subprocess.CompletedProcess[str]]

OP = """
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("DoubleIt").Input("x: float").Output("y: float").SetShapeFn(
    [](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return absl::OkStatus();
    });

class DoubleIt : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& x = context->input(0);
    tensorflow::Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, x.shape(), &y));
    for (int i = 0; i < x.NumElements(); ++i) y->flat<float>()(i) = 2 * x.flat<float>()(i);
  }
};
REGISTER_KERNEL_BUILDER(Name("DoubleIt").Device(tensorflow::DEVICE_CPU), DoubleIt);
"""
LOAD = """
import os
import tensorflow as tf

double_it = tf.load_op_library(os.path.join(os.path.dirname(__file__), "_double.so")).double_it
"""
MODULE = """
import tensorflow as tf
{load}

class Model(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="petal_length")])
    def serve(self, petal_length):
        return {{"y": double_it(petal_length)}}


def run_fn(fn_args):
    model = Model()
    tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("ops")
    (folder / "double.cc").write_text(OP)
    flags = [*tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]
    target = folder / "_double.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-w", str(folder / "double.cc"), "-o", str(target), *flags], check=True)
    return target


def write_package(folder: pathlib.Path, library: pathlib.Path) -> None:
    (folder / "doubling_ops").mkdir(parents=True)
    (folder / "doubling_ops" / "__init__.py").write_text(LOAD)
    shutil.copy(library, folder / "doubling_ops")


@pytest.mark.slow
@pytest.mark.parametrize("owner", ["an installed package", "a package of the user", "the module", "a script"])
@pytest.mark.thorough_but("an installed package")
def test_a_model_is_loaded_with_the_ops_that_it_needs(
    owner: str, command: Command, iris: Any, library: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    project, name = tmp_path / "project", "doubles" if owner == "the module" else "doubling_ops"
    path = project / "doubles.py"
    write_package(tmp_path / "installed" if owner == "an installed package" else project, library)
    project.mkdir(exist_ok=True)
    shutil.copy(library, project)
    path.write_text(MODULE.format(load=LOAD if owner == "the module" else "from doubling_ops import double_it"))
    words = ["train", path, "--train-files", iris.train, "--eval-files", iris.eval]
    if owner == "a script":
        name, path = "train-it", project / "train-it.py"
        save = 'tf.saved_model.save(model, "exported", signatures=model.serve)'
        path.write_text(MODULE.format(load=LOAD).partition("def run_fn")[0] + f"model = Model()\n{save}\n")
        words = ["script", path]
    done = command(*words, "--output", tmp_path / "out", new_python=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"Model needs:  {name}\n" in done.stdout
    record = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())
    assert (record["check"]["checks"]["answers"], [*record["check"]["op_packages"]]) == ("passed", [name])
    predict = ["predict", "--model", tmp_path / "out", "--examples", iris.eval, "--output", tmp_path / "answers.jsonl"]
    done = command(*predict, new_python=True, env={**os.environ})
    assert done.returncode == 2
    folder = tmp_path / "installed" if owner == "an installed package" else project
    remedy = f"Add its folder to PYTHONPATH, which was {folder} in the training"
    assert f"needs {name}: no module named '{name}'." in done.stderr
    assert remedy in done.stderr
    assert command(*predict, new_python=True, env={**os.environ, "PYTHONPATH": str(folder)}).returncode == 0
    first = json.loads((tmp_path / "answers.jsonl").read_text().splitlines()[0])
    assert first["y"] > 0


PIPELINE = """
import tensorflow as tf
from doubling_ops import double_it

class Model(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        x = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([], tf.float32)})["x"]
        return {"y": tf.sigmoid(double_it(x))[:, None]}


def run_fn(fn_args):
    model = Model()
    tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_the_evaluator_of_a_pipeline_loads_the_ops(
    command: Command, library: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    write_package(tmp_path / "installed", library)
    (tmp_path / "module.py").write_text(PIPELINE)
    rows = [f"{x / 100},{int(x % 17 < 8 + x / 25)}" for x in range(-200, 200)]
    (tmp_path / "data.csv").write_text("\n".join(["x,y", *rows]))
    words = ["--data", "data.csv", "--module-file", "module.py", "--label", "y", "--pipeline-root", "pipeline"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    done = command("run", *words, new_python=True, env=environment, cwd=tmp_path)
    assert "Evaluated:    binary: y (probabilities) against label y" in done.stdout, done.stderr


def test_a_package_is_found_by_its_call_or_by_a_reference_to_its_library(
    library: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    load = f"load_op_library({str(library)!r})"  # TensorFlow loads a copy of the file without ops
    (tmp_path / "keeps_the_library.py").write_text(f"import tensorflow as tf\nlibrary = tf.{load}\n")
    private = "from tensorflow.python.framework import load_library"
    (tmp_path / "keeps_the_function.py").write_text(f"{private}\ndouble_it = load_library.{load}.double_it\n")
    importlib.import_module("keeps_the_library")
    assert imported_op_packages() == {"keeps_the_library": {"ops": ["DoubleIt"], "files": []}}
    with op_libraries_noted():
        importlib.import_module("keeps_the_function")
    assert imported_op_packages() == {"keeps_the_function": {"ops": ["DoubleIt"], "files": [str(library)]}}


def test_needed_packages_register_an_op_of_the_model() -> None:
    ours = {"ours": {"ops": ["Ours_Double", "Double"], "files": ["/a.so"]}, "other": {"ops": ["Other"], "files": []}}
    assert needed_packages(["MatMul", "Ours>Double"], ours) == {"ours": ["/a.so"]}
    assert needed_packages(["MatMul"], ours) == {}


def test_the_packages_of_a_model_from_elsewhere_are_found_by_the_libraries_of_installed_packages(
    library: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package(tmp_path, library)
    (tmp_path / "doubling_ops-1.dist-info").mkdir()
    (tmp_path / "doubling_ops-1.dist-info" / "METADATA").write_text("Name: doubling-ops\nVersion: 1\n")
    lines = ["doubling_ops/__init__.py", "doubling_ops/_double.so", "doubling_ops/_deleted.so", "text.so"]
    (tmp_path / "doubling_ops-1.dist-info" / "RECORD").write_text("".join(f"{line},,\n" for line in lines))
    (tmp_path / "text.so").write_text("DoubleIt")  # not a library of TensorFlow
    monkeypatch.syspath_prepend(tmp_path)
    assert packages_with(["Ours>DoubleIt", "Unknown"]) == ["doubling_ops"]
    assert needed_packages(["Ours>DoubleIt"], {}) == {"doubling_ops": []}
    with pytest.raises(InputError, match="'UnknownOp', which no installed package registers"):
        import_packages_for(["UnknownOp"], {}, "model")


DAMAGED = {
    '{"ours": [': " is not JSON",
    "": " is not JSON",
    '["ours"]': ": its value: expected an object, not a list",
    '{"ours": "/a.so"}': ': ours: expected a list, not "/a.so"',
}


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_list_of_packages_is_reported_with_its_path(content: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "assets.extra" / "op_packages.json"
    path.parent.mkdir()
    path.write_text(content)
    import_packages_for(["MatMul"], {}, str(tmp_path))  # a model without custom ops needs no list
    with pytest.raises(InputError, match=rf"{path}{DAMAGED[content]}.* Copy it again .*, or delete it"):
        import_packages_for(["UnknownOp"], {}, str(tmp_path))


def test_a_library_for_another_tensorflow_is_named_with_its_requirement(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code.c").write_text("void gone(void);\nvoid call(void) { gone(); }\n")
    library = tmp_path / "trees" / "_trees.so"
    library.parent.mkdir()
    subprocess.run(["g++", "-shared", "-fPIC", "-x", "c", str(tmp_path / "code.c"), "-o", str(library)], check=True)
    (library.parent / "__init__.py").write_text(LOAD.replace("_double.so", "_trees.so"))
    metadata = tmp_path / "tree_trees-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: tree-trees\nVersion: 1.2\nRequires-Dist: tensorflow==2.4.1\n")
    (metadata / "top_level.txt").write_text("trees\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with op_libraries_noted(), pytest.raises(tf.errors.NotFoundError) as caught:
        importlib.import_module("trees")
    assert summary_of(caught.value) == (
        f"trees: _trees.so was built for another TensorFlow than {tf.__version__}: tree-trees 1.2 requires "
        f"tensorflow==2.4.1. Install a release of trees for TensorFlow {tf.__version__}, if there is one."
    )
