"""Which Keras `tf.keras` is for a training module: Keras 2 (the package tf-keras) or Keras 3.

TensorFlow 2.16 made Keras 3 the `tf.keras` of everyone; modules written before that break on it. The
choice is an environment variable that TensorFlow reads when `tf.keras` is first touched, so it has to be
made before the module runs: by what stands in the module's source.

Usage:

    choice = choose("auto", source.files)   # KerasChoice("2", "taxi.py, line 8: import tensorflow_transform")
    environment = choice.environment()      # {"TF_USE_LEGACY_KERAS": "1"}
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from ..errors import InputError
from ..runtime.logs.exceptions import chain, message_of
from .keras_imports import is_missing
from .source import parsed

VARIABLE = "TF_USE_LEGACY_KERAS"
KERAS_PACKAGES = ("keras", "tf_keras")

# Modules that are Keras 2 themselves, or whose Keras layers are.
_KERAS_2_IMPORTS = ("tf_keras", "tensorflow_transform", "tensorflow_estimator", "tensorflow_hub", "tensorflow_ranking")
_KERAS_3_IMPORTS = ("keras",)
# Attributes below `tf` that Keras 3 has no counterpart for, and names that only Keras 3 has.
_KERAS_2_NAMES = re.compile(
    r"^tf\.(feature_column|estimator|compat\.v1\.(estimator|feature_column|keras|layers)|layers)\b"
    r"|^(tf\.)?keras\.(layers\.(experimental|DenseFeatures|LocallyConnected\dD|ThresholdedReLU)"
    r"|optimizers\.(legacy|experimental)|experimental|wrappers|estimator|backend\.(placeholder|get_session)"
    r"|preprocessing\.(text|image\.ImageDataGenerator))\b"
)
_KERAS_3_NAMES = re.compile(r"^(tf\.)?keras\.(ops|random|saving\.save_model|tree|distribution|Variable|KerasTensor)\b")
_FIT_ARGUMENTS = frozenset({"epochs", "steps_per_epoch", "validation_data", "validation_steps", "callbacks"})
_SAVE_METHODS = ("save", "save_model", "save_weights")

# What Keras 3 says when it is given Keras 2 code, and the other way round.
_SMELLS = {
    "3": re.compile(
        r"Invalid filepath extension for saving|save_format|`h5` format|KerasTensor cannot be used as input"
        r"|Only instances of `keras\.|A KerasTensor is symbolic|File format not supported: filepath="
        r"|has no attribute '(DenseFeatures|legacy|experimental|wrappers|estimator|get_session|sess"
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
    """What in a source file speaks for a Keras version.

    Attributes:
      line: The line number, from 1.
      version: "2" or "3".
      text: What stands there.
      fails: Whether it fails under the other version, and is not just usual with this one.
    """

    line: int
    version: str
    text: str
    fails: bool


Signs = Callable[[str], Iterable[KerasSign]]


@dataclasses.dataclass(frozen=True)
class KerasChoice:
    """A Keras version and the reason for it.

    Attributes:
      version: "2" or "3".
      reason: The option, or the line of source, that decided.
    """

    version: str
    reason: str

    def environment(self) -> dict[str, str]:
        """Returns the variables to set before TensorFlow is imported."""
        if not has_keras_3():
            return {}  # tf.keras is Keras 2 there, and the variable only confuses it
        return {VARIABLE: "1" if self.version == "2" else "0"}

    def check_this_process(self) -> None:
        """Makes sure that `tf.keras` is, or can still become, the chosen version in this process.

        Raises:
          InputError: When `tf.keras` is in use as the other version already.
        """
        if _version_in_use() not in (None, self.version):
            raise InputError(
                f"keras={self.version!r} ({self.reason}) cannot be had in this process: tf.keras is Keras "
                f"{_version_in_use()} here already. Train in a process of its own (isolate=True), or set {VARIABLE}="
                f"{self.environment().get(VARIABLE)} before anything imports tf.keras."
            )

    def hint(self, error: BaseException) -> str:
        """Returns advice when an exception, or one that was handled when it was raised, reads like wrong Keras."""
        return self.hint_on(
            "\n".join(f"{type(one).__module__}.{type(one).__name__}: {message_of(one)}" for one in chain(error))
        )

    def hint_on(self, text: str) -> str:
        """Returns advice when the text of an error reads like one of the wrong Keras version, else ""."""
        if not _SMELLS[self.version].search(text):
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
      option: "2", "3", or "auto" to go by the evidence in the source.
      files: The module's source files. What fails under the other version counts first, then what is usual with one:
        `import keras` gives Keras 3 also where `tf.keras` is Keras 2. Keras 2 goes before Keras 3 in both.
      beside: Files of the pipeline's other modules. Their evidence counts where the module's own files have none.
      distributed: Whether several workers train, on which Keras 3 has no `fit`
        (https://github.com/keras-team/keras/issues/20585).
      more_signs: Returns further signs in a file, which count before those that are looked for here.

    Raises:
      InputError: When Keras 3 is asked for on a TensorFlow that has none, or needed for a `fit` on several workers.
    """
    if not has_keras_3():
        if option == "3":
            release = ".".join(map(str, _tensorflow_release()))
            raise InputError(f"keras='3' needs TensorFlow 2.16 or later; this is {release}.")
        return KerasChoice("2", "tf.keras is Keras 2 before TensorFlow 2.16")
    fit = next(_fits(files), None) if distributed else None
    if option != "auto":
        return _able(KerasChoice(option, f"keras={option!r} was asked for"), fit)
    for group in (files, beside):
        found: dict[tuple[bool, str], str] = {}
        for file in group:
            for sign in (*more_signs(file), *_signs(file)):
                found.setdefault((sign.fails, sign.version), f"{os.path.basename(file)}, line {sign.line}: {sign.text}")
        for key in ((True, "2"), (True, "3"), (False, "2"), (False, "3")):
            if key in found:
                return _able(KerasChoice(key[1], found[key]), fit)
    if fit:
        return KerasChoice("2", f"{fit}, on several workers, for which Keras 3 has none")
    undecided = "nothing in the source speaks for either"
    # What tf.keras is comes before the variable: importing Transform sets that, often too late to matter.
    if in_use := _version_in_use():
        return KerasChoice(in_use, f"tf.keras of the process that asks, since {undecided}")
    if os.environ.get(VARIABLE, "").lower() in ("1", "true"):
        return KerasChoice("2", f"{VARIABLE} is set, and {undecided}")
    return KerasChoice("3", f"TensorFlow's default, since {undecided}")


def _able(choice: KerasChoice, fit: str | None) -> KerasChoice:
    """Returns the choice, unless it is Keras 3 for a `fit` on several workers."""
    if choice.version == "3" and fit:
        raise InputError(
            f"{fit}: Keras 3 ({choice.reason}) cannot fit a model on several workers (keras-team/keras issue 20585). "
            "Three ways out: use Keras 2 (tf-keras; keras='2'); or write the steps in a loop of your own under "
            "generic_trainer.strategy(fn_args), which Keras 3's models can do; or train with one worker, and more GPUs."
        )
    return choice


def _fits(files: Sequence[str]) -> Iterator[str]:
    """Yields where a Keras model's `fit` is called: by the model's name, or by arguments that only Keras has."""
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
            yield from _named(node.lineno, _in_full(names.get(head, head) + dot + rest), text)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield from _calls(node, node.func)


def _named(line: int, name: str, text: str) -> Iterator[KerasSign]:
    """Yields what a dotted name is a sign of."""
    for version, pattern in (("2", _KERAS_2_NAMES), ("3", _KERAS_3_NAMES)):
        if pattern.search(name):
            fails = not name.endswith("saving.save_model")  # tf-keras has that, too
            yield KerasSign(line, version, text.replace("tensorflow.", "tf."), fails)


def _imported_names(path: str) -> dict[str, str]:
    """Returns what names stand for that import statements give: {"layers": "tensorflow.keras.layers"}."""
    names = {}
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names.update({alias.asname: alias.name for alias in node.names if alias.asname})
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def _in_full(name: str) -> str:
    return re.sub(r"^tensorflow(\.compat\.v2)?\b", "tf", name)


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[KerasSign]:
    if isinstance(node, ast.ImportFrom) and node.level:
        return
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    for name in names:
        if is_missing(name):
            yield KerasSign(node.lineno, "2", f"import {name}, a path that Keras 3 does not have", True)
            continue
        for version, known in (("2", _KERAS_2_IMPORTS), ("3", _KERAS_3_IMPORTS)):
            if name.partition(".")[0] in known:
                yield KerasSign(node.lineno, version, f"import {name}", False)
    for alias in node.names:
        name = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        yield from _named(node.lineno, _in_full(name), f"import {name}")


def _calls(node: ast.Call, method: ast.Attribute) -> Iterator[KerasSign]:
    """Looks at `model.save(…)`: Keras 2 saves a folder, Keras 3 only `.keras` and `.h5` files."""
    owner = ast.unparse(method.value).lower()
    if method.attr not in _SAVE_METHODS or not owner.endswith("model") or owner.endswith("saved_model"):
        return
    if any(keyword.arg in ("save_format", "signatures", "save_traces") for keyword in node.keywords):
        yield KerasSign(node.lineno, "2", f"{ast.unparse(method)}(…) with arguments that Keras 3 dropped", True)
    elif node.args and method.attr == "save" and "serving_model_dir" in ast.unparse(node.args[0]):
        target = ast.unparse(node.args[0])
        version = "3" if re.search(r"\.keras['\")]", target) else "2"
        yield KerasSign(node.lineno, version, f"{ast.unparse(method)}({target})", True)


def only_keras_2(files: Sequence[str]) -> bool:
    """Returns whether something in source files fails under Keras 3, and nothing under Keras 2."""
    return {sign.version for file in files for sign in _signs(file) if sign.fails} == {"2"}


def has_keras_3() -> bool:
    """Returns whether this TensorFlow can have Keras 3 as `tf.keras`: since 2.16."""
    return _tensorflow_release() >= (2, 16)


def _version_in_use() -> str | None:
    """Returns the version that `tf.keras` is in this process, or None while it can still become either."""
    tensorflow = sys.modules.get("tensorflow")
    keras = vars(tensorflow).get("keras") if tensorflow is not None else None
    # vars(), since any other look at TensorFlow's lazy loader would resolve it.
    name = vars(keras).get("__name__") if keras is not None else None
    return {"tf_keras.api._v2.keras": "2", "keras._tf_keras.keras": "3"}.get(str(name))


def _tensorflow_release() -> tuple[int, int]:
    for name in ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly"):
        try:
            major, minor = importlib.metadata.version(name).split(".")[:2]
        except importlib.metadata.PackageNotFoundError:
            continue
        return int(major), int(minor)
    raise InputError("TensorFlow is not installed in this environment.")
