"""Distinguishes code for Keras 2 from code for Keras 3, by its names and calls, and by its errors under the other one.

signs_in(ast.parse("import tf_keras"))         # KerasSign(1, "2", "import tf_keras", False)
is_typical_error("3", "has no attribute 'reset_states'")
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib.machinery
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterator, Sequence

KERAS = "keras"
# Subpackages of `keras` with Keras 3's implementation, which imports optional modules that may be missing. Imports of
# missing modules below `keras` by other code do not use these subpackages.
_IMPLEMENTATION = ("src", "_tf_keras", "api")
_PACKAGES = {"tf_keras": "2", "tensorflow_estimator": "2", "keras": "3"}
# As distributions name it in their requirements: "tf-keras", "tf_keras>=2", "tf-keras>=2.16; extra == 'tf'"; or they
# require a TensorFlow before 2.16, where `tf.keras` is Keras 2: "tensorflow<2.16.0,>=2.10", "tensorflow~=2.15.0".
_REQUIRES_KERAS_2 = re.compile(
    r"tf[-_]keras\b|tensorflow([-_](cpu|intel))?(?![\w-])[^;]*"
    r"(<\s*2\.16\b|(<=?|==)\s*2\.(\d|1[0-5])\b|~=\s*2\.(\d|1[0-5])\.)",
    re.IGNORECASE,
)
# Names that only code for one version uses, with `tf` for TensorFlow.
_NAMES = {
    "2": re.compile(
        r"^tf\.(feature_column|estimator|compat\.v1\.(estimator|feature_column|keras|layers)|layers)\b"
        r"|^(tf\.)?keras\.(layers\.(experimental|DenseFeatures|LocallyConnected\dD|ThresholdedReLU)"
        r"|optimizers\.(legacy|experimental)|experimental|wrappers|estimator|backend\.(placeholder|get_session)"
        r"|preprocessing\.(text|image\.ImageDataGenerator))\b"
    ),
    "3": re.compile(r"^(tf\.)?keras\.(ops|random|saving\.save_model|tree|distribution|Variable|KerasTensor)\b"),
}
_FIT_ARGUMENTS = frozenset({"epochs", "steps_per_epoch", "validation_data", "validation_steps", "callbacks"})
_SAVE_METHODS = ("save", "save_model", "save_weights")
_PATHS = ("join", "joinpath", "Path", "str", "fspath")  # functions whose result ends with their last argument
_FILES_OF_BOTH = (".keras", ".h5", ".hdf5")  # endings of files that `save` of Keras 2 and 3 writes

# Error messages of Keras 3 for Keras 2 code ("3"), and of Keras 2 for Keras 3 code ("2").
_ERROR_PATTERNS = {
    "3": re.compile(
        r"TF_USE_LEGACY_KERAS|Invalid filepath extension for saving|save_format|`h5` format"
        r"|KerasTensor cannot be used as input|Only instances of `keras\.|A KerasTensor is symbolic"
        r"|File format not supported: filepath="
        r"|has no attribute '(DenseFeatures|legacy|reset_states|experimental|wrappers|estimator|get_session|sess"
        r"|ImageDataGenerator|set_learning_phase|_keras_history)'|No module named 'keras\.(engine|src\.engine)"
        r"|Unrecognized keyword arguments passed to \w+: \{'(input_shape|weights|lr|decay)|batch_input_shape"
        r"|unexpected keyword argument '(workers|use_multiprocessing|max_queue_size|save_traces|include_optimizer)'"
    ),
    "2": re.compile(
        r"has no attribute '(ops|saving|random|Variable|KerasTensor|tree|distribution)'"
        r"|No module named 'tf_keras|Inputs to a layer should be tensors\. Got '<KerasTensor"
        r"|Keras 3|keras\.src\.\w+.* object.*is not|Unrecognized keyword arguments: \['(shape|batch_shape)"
    ),
}


@dataclasses.dataclass(frozen=True)
class KerasSign:
    """Evidence for a Keras version in a source file.

    Attributes:
      line: The line number, from 1.
      version: "2" or "3".
      text: The evidence, as text for messages.
      fails: Whether the code fails under the other version; False if it is only typical of this one.
    """

    line: int
    version: str
    text: str
    fails: bool


def is_typical_error(version: str, text: str) -> bool:
    """Whether the text of an error under a Keras version is typical of code for the other one."""
    return _ERROR_PATTERNS[version].search(text) is not None


def fits_in(tree: ast.Module) -> Iterator[str]:
    """Yields calls of a Keras model's `fit`, detected by a receiver with "model" in its name or by Keras arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fit":
            owner = ast.unparse(node.func.value)
            if "model" in owner.lower() or _FIT_ARGUMENTS & {keyword.arg for keyword in node.keywords}:
                yield f"line {node.lineno}: {owner}.fit(…)"


def signs_in(tree: ast.Module) -> Iterator[KerasSign]:
    """Yields the evidence for a Keras version in a source file."""
    names = _imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imports(node)
        elif isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            head, dot, rest = text.partition(".")
            yield from _named(node.lineno, _with_full_module(names.get(head, head) + dot + rest), text)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield from _calls(node, node.func)


def _named(line: int, name: str, text: str) -> Iterator[KerasSign]:
    """Yields the evidence in a dotted name."""
    for version, pattern in _NAMES.items():
        if pattern.search(name):
            fails = not name.endswith("saving.save_model")  # tf-keras has it, too
            yield KerasSign(line, version, text.replace("tensorflow.", "tf."), fails)


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Returns the full names of imported names, such as {"layers": "tensorflow.keras.layers"}."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update({alias.asname: alias.name for alias in node.names if alias.asname})
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def _with_full_module(name: str) -> str:
    return re.sub(r"^tensorflow(\.compat\.v2)?\b", "tf", name)


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[KerasSign]:
    if isinstance(node, ast.ImportFrom) and node.level:
        return
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    for name in names:
        if is_missing(name):
            yield KerasSign(node.lineno, "2", f"import {name}, a module that Keras 3 does not have", True)
            continue
        package = name.partition(".")[0]
        if version := _PACKAGES.get(package) or ("2" if _requires_keras_2(package) else ""):
            yield KerasSign(node.lineno, version, f"import {name}", False)
    for alias in node.names:
        name = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        yield from _named(node.lineno, _with_full_module(name), f"import {name}")


def _requires_keras_2(package: str) -> bool:
    """Whether a package's distribution requires tf-keras or an old TensorFlow, so that its layers are of Keras 2."""
    if package == __name__.partition(".")[0]:  # it requires both versions, and works with either
        return False
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        return any(map(_REQUIRES_KERAS_2.match, importlib.metadata.requires(package) or ()))
    return False


def _calls(node: ast.Call, method: ast.Attribute) -> Iterator[KerasSign]:
    """Yields the evidence in method calls.

    `model.save(…)`: Keras 2 saves a folder, Keras 3 only `.keras` and `.h5` files. `metric.reset_states()`: Keras 3 has
    `reset_state()`; other classes may have a method of this name.
    """
    owner = ast.unparse(method.value).lower()
    if method.attr == "reset_states" and not node.args and not node.keywords:
        yield KerasSign(node.lineno, "2", f"{ast.unparse(method)}()", False)
    if method.attr not in _SAVE_METHODS or not owner.endswith("model") or owner.endswith("saved_model"):
        return
    if any(keyword.arg in ("save_format", "signatures", "save_traces") for keyword in node.keywords):
        yield KerasSign(node.lineno, "2", f"{ast.unparse(method)}(…) with arguments that Keras 3 removed", True)
    elif node.args and method.attr == "save":
        target = ast.unparse(node.args[0])
        end = _constant_end(node.args[0])
        is_served = "serving_model_dir" in target
        version = "3" if is_served and end.endswith(".keras") else "2"
        if is_served or (end and not end.endswith(_FILES_OF_BOTH)):
            yield KerasSign(node.lineno, version, f"{ast.unparse(method)}({target})", is_served)


def _constant_end(path: ast.expr) -> str:
    """Returns the end of a path that the source shows: "/1" for `folder + "/1"`, "1" for `join(folder, "1")`; or ""."""
    if isinstance(path, ast.Constant):
        return str(path.value)
    if isinstance(path, ast.BinOp):
        return _constant_end(path.right) if isinstance(path.op, (ast.Add, ast.Div)) else ""
    parts: Sequence[ast.expr] = ()
    if isinstance(path, ast.JoinedStr):
        parts = path.values
    elif isinstance(path, ast.Call) and ast.unparse(path.func).rpartition(".")[2] in _PATHS:
        parts = path.args
    return _constant_end(parts[-1]) if parts else ""


def is_missing(name: str) -> bool:
    """Whether a dotted name below `keras` is a module that the installed Keras does not have; imports nothing."""
    package, *parts = name.split(".")
    if package != KERAS or not parts or parts[0] in _IMPLEMENTATION:
        return False
    roots = _folders()
    places = [os.path.join(root, *parts) for root in roots]
    return bool(roots) and not any(os.path.isdir(place) or os.path.isfile(f"{place}.py") for place in places)


def _folders() -> list[str]:
    present = sys.modules.get(KERAS)
    if present is not None and not hasattr(present, "__path__"):
        return []
    spec = importlib.machinery.PathFinder.find_spec(KERAS)
    return list(spec.submodule_search_locations or ()) if spec else []
