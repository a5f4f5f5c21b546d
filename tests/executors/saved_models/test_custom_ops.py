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

from generic_trainer.executors.runtime.logs.exceptions import summary_of
from generic_trainer.executors.saved_models.custom_ops import needed_packages, op_libraries_noted

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
@pytest.mark.parametrize("owner", ["an installed package", "a package of the user", "the module"])
@pytest.mark.thorough_but("an installed package")
def test_a_model_is_loaded_with_the_ops_that_it_needs(
    owner: str, command: Command, iris: Any, library: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    path = tmp_path / "project" / "doubles.py"
    write_package(tmp_path / "installed" if owner == "an installed package" else path.parent, library)
    path.parent.mkdir(exist_ok=True)
    shutil.copy(library, path.parent)
    path.write_text(MODULE.format(load=LOAD if owner == "the module" else "from doubling_ops import double_it"))
    arguments = ["--train-files", iris.train, "--eval-files", iris.eval, "--output", tmp_path / "out"]
    done = command("train", path, *arguments, new_python=True, env=environment)
    assert done.returncode == 0, done.stderr
    name = "doubles" if owner == "the module" else "doubling_ops"
    assert f"Model needs:  {name}\n" in done.stdout
    record = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())
    assert (record["check"]["checks"]["answers"], [*record["check"]["op_packages"]]) == ("passed", [name])
    if owner != "an installed package":
        return
    predict = ["predict", "--model", tmp_path / "out", "--examples", iris.eval, "--output", tmp_path / "answers.jsonl"]
    done = command(*predict, new_python=True, env={**os.environ})
    assert done.returncode == 2
    assert "needs the package doubling_ops: no module named 'doubling_ops'" in done.stderr
    assert command(*predict, new_python=True, env=environment).returncode == 0
    first = json.loads((tmp_path / "answers.jsonl").read_text().splitlines()[0])
    assert first["y"] > 0


def test_needed_packages_register_an_op_of_the_model() -> None:
    ours = {"ours": {"ops": ["Ours_Double", "Double"], "files": ["/a.so"]}, "other": {"ops": ["Other"], "files": []}}
    assert needed_packages(["MatMul", "Ours>Double"], ours) == {"ours": ["/a.so"]}
    assert needed_packages(["MatMul"], ours) == {}
    assert needed_packages(["TFText>Tokenize", "Unknown"], ours) == {"tensorflow_text": []}  # trained elsewhere


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
