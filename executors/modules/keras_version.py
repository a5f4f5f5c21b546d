"""Chooses the Keras version of `tf.keras` for a training module: Keras 2 (the package tf-keras) or Keras 3.

Since TensorFlow 2.16, `tf.keras` is Keras 3 by default, and modules written for Keras 2 fail. The choice is an
environment variable that TensorFlow reads on the first access to `tf.keras`, so it has to be made before the module
runs, from the module's source.

Usage:

    choice = choose("auto", source.files)   # KerasChoice("2", "taxi.py, line 8: import tensorflow_transform")
    environment = choice.environment()      # {"TF_USE_LEGACY_KERAS": "1"}
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib.metadata
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..compat.keras_modules import is_missing
from ..errors import InputError, LateVariableError
from ..runtime.logs.exceptions import chain, has_user_frame, message_of, one_line_message
from ..runtime.process.run_environment import inherited_environment
from .early_variables import variables_set_in
from .source import parsed

VARIABLE = "TF_USE_LEGACY_KERAS"
_BACKEND, _TENSORFLOW = "KERAS_BACKEND", "tensorflow"
KERAS_PACKAGES = ("keras", "tf_keras")

_KERAS_2_IMPORTS = ("tf_keras", "tensorflow_estimator")
_KERAS_3_IMPORTS = ("keras",)
# As distributions name it in their requirements: "tf-keras", "tf_keras>=2", "tf-keras>=2.16; extra == 'tf'"; or they
# require a TensorFlow before 2.16, where `tf.keras` is Keras 2: "tensorflow<2.16.0,>=2.10", "tensorflow~=2.15.0".
_REQUIRES_KERAS_2 = re.compile(
    r"tf[-_]keras\b|tensorflow([-_](cpu|intel))?(?![\w-])[^;]*"
    r"(<\s*2\.16\b|(<=?|==)\s*2\.(\d|1[0-5])\b|~=\s*2\.(\d|1[0-5])\.)",
    re.IGNORECASE,
)
# Attributes of `tf` without a counterpart in Keras 3, and names that only Keras 3 has.
_KERAS_2_NAMES = re.compile(
    r"^tf\.(feature_column|estimator|compat\.v1\.(estimator|feature_column|keras|layers)|layers)\b"
    r"|^(tf\.)?keras\.(layers\.(experimental|DenseFeatures|LocallyConnected\dD|ThresholdedReLU)"
    r"|optimizers\.(legacy|experimental)|experimental|wrappers|estimator|backend\.(placeholder|get_session)"
    r"|preprocessing\.(text|image\.ImageDataGenerator))\b"
)
_KERAS_3_NAMES = re.compile(r"^(tf\.)?keras\.(ops|random|saving\.save_model|tree|distribution|Variable|KerasTensor)\b")
_TRUE = ("1", "true")
_QUOTED = 200  # characters of an error's message in a reason
_FIT_ARGUMENTS = frozenset({"epochs", "steps_per_epoch", "validation_data", "validation_steps", "callbacks"})
_SAVE_METHODS = ("save", "save_model", "save_weights")
_PATHS = ("join", "joinpath", "Path", "str", "fspath")  # functions whose result ends with their last argument
_FILES_OF_BOTH = (".keras", ".h5", ".hdf5")  # endings of files that `save` of Keras 2 and 3 writes

# Error messages of Keras 3 for Keras 2 code ("3"), and of Keras 2 for Keras 3 code ("2").
_ERROR_PATTERNS = {
    "3": re.compile(
        rf"{VARIABLE}|Invalid filepath extension for saving|save_format|`h5` format|KerasTensor cannot be used as input"
        r"|Only instances of `keras\.|A KerasTensor is symbolic|File format not supported: filepath="
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


Signs = Callable[[str], Iterable[KerasSign]]


@dataclasses.dataclass(frozen=True)
class KerasChoice:
    """A Keras version, the reason for it, and what else must hold before TensorFlow and Keras are imported.

    Attributes:
      version: "2" or "3".
      reason: The option or source line that determined it.
      variables: Environment variables that the module sets when it is imported.
      restarts: Which of the settings a first start of the process has shown to be needed: "version" and "variables".
      is_required: Whether the module has code that fails under the other version, and none that fails under this one.
    """

    version: str
    reason: str
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    restarts: Sequence[str] = ()
    is_required: bool = False

    def environment(self) -> dict[str, str]:
        """Returns the environment variables to set before TensorFlow is imported."""
        others = {name: value for name, value in self.variables.items() if name != VARIABLE}
        if not has_keras_3():
            return others  # tf.keras is always Keras 2 there; setting the variable may break it
        return others | {VARIABLE: "1" if self.version == "2" else "0"}

    def to_record(self) -> dict[str, Any]:
        """Returns the settings for the run's record; without variables, if the module sets none."""
        variables = {"variables": dict(self.variables)} if self.variables else {}
        return {"version": self.version, "reason": self.reason, **variables}

    def check_this_process(self) -> None:
        """Checks that `tf.keras` is, or can still become, the chosen version in this process.

        Raises:
          InputError: When `tf.keras` is already in use as the other version.
        """
        if version_in_use() not in (None, self.version):
            raise InputError(
                f"keras={self.version!r} ({self.reason}) is not available in this process: tf.keras is already Keras "
                f"{version_in_use()}. Train in a subprocess (isolate=True), or set "
                f"{VARIABLE}={self.environment().get(VARIABLE)} before anything imports tf.keras."
            )

    def evidence_against(self, error: BaseException) -> tuple[str, bool]:
        """Returns why a module that failed may need the other Keras version, or "", and whether that is certain.

        Messages typical of the wrong version are certain. Other errors raised by Keras's code may have any reason, and
        are no evidence against a version that the module requires.
        """
        is_raised_there = not self.is_required and _is_raised_by_keras(error)
        is_typical = _ERROR_PATTERNS[self.version].search(_messages(error)) is not None
        if not (is_raised_there or is_typical):
            return "", False
        message = f"{type(error).__name__}: {one_line_message(error)[:_QUOTED]}".rstrip(".")  # sentences end with it
        where = "raised inside" if is_raised_there else "typical of"
        return f"the error is {where} Keras {self.version}: {message}", is_typical

    def hint(self, error: BaseException) -> str:
        """Returns `hint_for_text` for the messages of an exception and of those handled when it was raised."""
        return self.hint_for_text(_messages(error))

    def hint_for_text(self, text: str) -> str:
        """Returns advice if an error's text is typical of the wrong Keras version, else ""."""
        if not _ERROR_PATTERNS[self.version].search(text):
            return ""
        other = "2" if self.version == "3" else "3"
        return (
            f"tf.keras was Keras {self.version} here ({self.reason}). If the module was written for Keras {other}, use "
            f'--keras {other}, or keras="{other}" of the component.'
        )


def choose(
    option: str,
    files: Sequence[str],
    *,
    beside: Sequence[str] = (),
    distributed: bool = False,
    more_signs: Signs = lambda path: (),
) -> KerasChoice:
    """Decides the Keras version.

    Args:
      option: "2", "3", or "auto" to decide by evidence in the source.
      files: The module's source files. Code that fails under the other version takes precedence over code that is only
        typical of a version, such as `import keras`, which selects Keras 3 even where `tf.keras` is Keras 2. Within
        each kind, Keras 2 takes precedence over Keras 3.
      beside: Files of the pipeline's other modules, used if the module's own files contain no evidence.
      distributed: Whether several workers train, where Keras 3 does not support `fit`
        (https://github.com/keras-team/keras/issues/20585).
      more_signs: Returns further evidence in a file, which takes precedence over evidence of the same kind found here.

    Raises:
      InputError: When Keras 3 is requested on a TensorFlow without it, or chosen for a `fit` on several workers.
    """
    variables = variables_set_in(files)
    version = _version(option, files, beside, distributed, more_signs, variables)
    return dataclasses.replace(version, variables=variables)


def _version(
    option: str,
    files: Sequence[str],
    beside: Sequence[str],
    distributed: bool,
    more_signs: Signs,
    variables: Mapping[str, str],
) -> KerasChoice:
    if not has_keras_3():
        if option == "3":
            release = ".".join(map(str, _tensorflow_release()))
            raise InputError(f"keras='3' needs TensorFlow 2.16 or later; this is {release}.")
        return KerasChoice("2", "tf.keras is Keras 2 before TensorFlow 2.16")
    fit = next(_fits(files), None) if distributed else None
    if choice := _requested(option, variables) or _by_signs((files, beside), more_signs):
        return _require_working_fit(choice, fit)
    if fit:
        return KerasChoice("2", f"{fit} runs on several workers, which Keras 3 does not support")
    return _without_signs()


def _requested(option: str, variables: Mapping[str, str]) -> KerasChoice | None:
    """Returns the version that the option or a variable set by the module requests, or None."""
    if option != "auto":
        return KerasChoice(option, f"keras={option!r} was requested")
    if VARIABLE in variables:
        version = "2" if variables[VARIABLE].lower() in _TRUE else "3"
        return KerasChoice(version, f"the module sets {VARIABLE}={variables[VARIABLE]}")
    if (backend := variables.get(_BACKEND, _TENSORFLOW)) != _TENSORFLOW:  # only Keras 3 has others
        return KerasChoice("3", f"the module sets {_BACKEND}={backend}", is_required=True)
    return None


def _by_signs(groups: Iterable[Sequence[str]], more_signs: Signs) -> KerasChoice | None:
    """Returns the version that the first group of files with evidence needs, or None."""
    for group in groups:
        reasons: dict[tuple[bool, str], str] = {}
        for file in group:
            for sign in (*more_signs(file), *_signs(file)):
                reasons.setdefault(
                    (sign.fails, sign.version), f"{os.path.basename(file)}, line {sign.line}: {sign.text}"
                )
        for fails, version in ((True, "2"), (True, "3"), (False, "2"), (False, "3")):
            if reason := reasons.get((fails, version)):
                is_required = fails and not {(True, "2"), (True, "3")} <= reasons.keys()
                return KerasChoice(version, reason, is_required=is_required)
    return None


def _without_signs() -> KerasChoice:
    undecided = "the source does not indicate a version"
    # Precedence over the variable: importing Transform sets it, often after tf.keras was loaded.
    if in_use := version_in_use():
        return KerasChoice(in_use, f"tf.keras of the calling process, since {undecided}")
    if inherited_environment().get(VARIABLE, "").lower() in _TRUE:
        return KerasChoice("2", f"{VARIABLE} is set, and {undecided}")
    return KerasChoice("3", f"TensorFlow's default, since {undecided}")


def _require_working_fit(choice: KerasChoice, fit: str | None) -> KerasChoice:
    """Returns the choice, or raises InputError if it is Keras 3 for a `fit` on several workers."""
    if choice.version == "3" and fit:
        raise InputError(
            f"{fit}: Keras 3 ({choice.reason}) cannot fit a model on several workers (keras-team/keras issue 20585). "
            "Use Keras 2 (tf-keras; keras='2'), or write a custom training loop under "
            "generic_trainer.strategy(fn_args), which works with Keras 3 models, or train with one worker and more "
            "GPUs."
        )
    return choice


def _fits(files: Sequence[str]) -> Iterator[str]:
    """Yields calls of a Keras model's `fit`, detected by a receiver with "model" in its name or by Keras arguments."""
    for file in files:
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fit":
                owner = ast.unparse(node.func.value)
                if "model" in owner.lower() or _FIT_ARGUMENTS & {keyword.arg for keyword in node.keywords}:
                    yield f"{os.path.basename(file)}, line {node.lineno}: {owner}.fit(…)"


def _signs(path: str) -> Iterator[KerasSign]:
    names = _imported_names(path)
    for node in ast.walk(parsed(path)):
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
    for version, pattern in (("2", _KERAS_2_NAMES), ("3", _KERAS_3_NAMES)):
        if pattern.search(name):
            fails = not name.endswith("saving.save_model")  # tf-keras has it, too
            yield KerasSign(line, version, text.replace("tensorflow.", "tf."), fails)


def _imported_names(path: str) -> dict[str, str]:
    """Returns the full names of imported names, such as {"layers": "tensorflow.keras.layers"}."""
    names = {}
    for node in ast.walk(parsed(path)):
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
        if package in _KERAS_2_IMPORTS or _requires_keras_2(package):
            yield KerasSign(node.lineno, "2", f"import {name}", False)
        elif package in _KERAS_3_IMPORTS:
            yield KerasSign(node.lineno, "3", f"import {name}", False)
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


def _messages(error: BaseException) -> str:
    return "\n".join(f"{type(cause).__module__}.{type(cause).__name__}: {message_of(cause)}" for cause in chain(error))


def _is_raised_by_keras(error: BaseException) -> bool:
    """Whether an exception's innermost frame is in Keras.

    Left out are TensorFlow's exceptions, whose frames Keras removes, and those of files and of the network, which Keras
    replaces. Below an observed layer, Keras removes its own frames, so this package's are ignored.
    """
    is_of_files = any(isinstance(cause, OSError) and not has_user_frame(cause) for cause in chain(error))
    if is_of_files or isinstance(error, (MemoryError, OSError)) or type(error).__module__.startswith("tensorflow."):
        return False
    names = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    innermost = next((name for name in reversed(names) if not name.startswith("generic_trainer.")), "")
    return innermost.partition(".")[0] in KERAS_PACKAGES


def only_keras_2(files: Sequence[str]) -> bool:
    """Whether some code in the source files fails under Keras 3, and none under Keras 2."""
    return {sign.version for file in files for sign in _signs(file) if sign.fails} == {"2"}


def has_keras_3() -> bool:
    """Whether the installed TensorFlow supports Keras 3 as `tf.keras`: 2.16 and later."""
    return _tensorflow_release() >= (2, 16)


def version_in_use() -> str | None:
    """Returns the Keras version of `tf.keras` in this process, or None if it is not loaded yet."""
    tensorflow = sys.modules.get("tensorflow")
    keras = vars(tensorflow).get("keras") if tensorflow is not None else None
    # vars() does not trigger TensorFlow's lazy loader; attribute access would.
    name = vars(keras).get("__name__") if keras is not None else None
    return {"tf_keras.api._v2.keras": "2", "keras._tf_keras.keras": "3"}.get(str(name))


def backend_in_use() -> str | None:
    """Returns the backend of Keras 3 in this process, such as "tensorflow"; None if it is not imported."""
    config = getattr(sys.modules.get("keras"), "config", None)
    return str(config.backend()) if config is not None and hasattr(config, "backend") else None


def require_backend() -> None:
    """Checks that Keras uses the backend that the environment, or the module that was just imported, sets.

    Raises:
      LateVariableError: When Keras was imported before, with another backend.
    """
    in_use = backend_in_use()
    wanted = os.environ.get(_BACKEND)
    if in_use and wanted and wanted != in_use:
        raise LateVariableError(
            f"{_BACKEND}={wanted} has no effect: Keras was imported before in this process, with the backend {in_use}. "
            f"Train in a subprocess (isolate=True), or set it in the shell: export {_BACKEND}={wanted}"
        )


def _tensorflow_release() -> tuple[int, int]:
    for name in ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly"):
        try:
            major, minor = importlib.metadata.version(name).split(".")[:2]
        except importlib.metadata.PackageNotFoundError:
            continue
        return int(major), int(minor)
    raise InputError("TensorFlow is not installed in this environment.")
