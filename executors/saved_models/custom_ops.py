"""Imports packages that register TensorFlow custom ops, which models with such ops need before they can be loaded.

The process that trains has imported them: `imported_op_packages` names each with its ops. The model check keeps those
that the model needs, and `note_packages` writes them into the model's folder, where `import_packages_for` reads them.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TypedDict

from ..compat.patching import replaced
from ..compat.tensorflow import is_registered_op, op_libraries
from ..errors import InputError
from ..estimator import restore_estimator
from ..runtime.files import file_io
from ..runtime.logs.exceptions import add_summary

_NOTE = "assets.extra/op_packages.json"  # SavedModels keep other people's files in assets.extra
# Packages of models that were trained elsewhere.
_PACKAGES = {
    "tensorflow_addons": r"Addons>",
    "tensorflow_decision_forests": r"SimpleML",
    "tensorflow_io": r"IO>",
    "tensorflow_recommenders_addons": r"(TFRA|Recommenders)>",
    "struct2tensor": r"DecodeProtoSparse|EquiJoin|RunLengthBefore",
    "tensorflow_text": (
        r"TFText>|Sentencepiece|\w*Tokenize\w*WithOffsets|TokenizerFromLogits|NormalizeUTF8|CaseFoldUTF8|Utf8Binarize"
        r"|ConstrainedSequence|MaxSpanningTree|RougeL|SentenceFragments|SplitMerge|RegexSplitWithOffsets|NgramsStringJoin"
    ),
}


class OpPackage(TypedDict):
    """A package, or a module of the user, that has loaded libraries of custom ops.

    Attributes:
      ops: Names of the ops, with "_" for ">".
      files: The libraries whose paths are known.
    """

    ops: list[str]
    files: list[str]


@contextlib.contextmanager
def op_libraries_noted() -> Iterator[None]:
    """Notes in the module of each library that `tf.load_op_library` loads in the block its path and who called it.

    The exception for a library that was built for another TensorFlow gets a summary that says so.
    """
    import tensorflow as tf

    def load(original: Callable[[str], ModuleType], library_filename: str) -> ModuleType:
        package = _package(str(sys._getframe(2).f_globals.get("__name__")))  # beyond `replaced`
        try:
            library = original(library_filename)
        except tf.errors.NotFoundError as error:
            if "undefined symbol" in str(error):
                add_summary(error, _of_another_release(library_filename, package))
            raise
        library.__file__ = os.path.abspath(library_filename)
        library.__package__ = package
        return library

    with replaced(tf, "load_op_library", load):
        yield


def _of_another_release(library: str, package: str) -> str:
    import tensorflow as tf

    text = f"{package}: {os.path.basename(library)} was built for another TensorFlow than {tf.__version__}"
    for name in importlib.metadata.packages_distributions().get(package, ())[:1]:
        wanted = [one for one in importlib.metadata.requires(name) or () if re.match(r"tensorflow(?![\w-])", one)]
        text += "".join(f": {name} {importlib.metadata.version(name)} requires {one}" for one in wanted[:1])
    return f"{text}. Install a release of {package} for TensorFlow {tf.__version__}, if there is one."


def imported_op_packages() -> dict[str, OpPackage]:
    """Returns the packages and modules with custom ops that this process has imported, by name.

    They are those that have called `tf.load_op_library`, or refer to the module that TensorFlow has made for a library.
    """
    libraries = op_libraries()
    packages: dict[str, OpPackage] = {}
    for library in libraries:
        file, owner = vars(library).get("__file__"), library.__package__ or _referring_package(library)
        if owner and owner != "tensorflow":
            package = packages.setdefault(owner, {"ops": [], "files": []})
            package["ops"] += [op for op in vars(library) if op[0].isupper() and op not in package["ops"]]
            package["files"] += [file] if file else []
    return packages


def _referring_package(library: ModuleType) -> str:
    for name, module in list(sys.modules.items()):
        # The attributes are not read, which could load a lazy module.
        if isinstance(module, ModuleType) and any(value is library for value in list(vars(module).values())):
            return _package(name)
    return ""


def _package(name: str) -> str:
    return name.partition(".")[0]


def needed_packages(ops: Iterable[str], imported: Mapping[str, OpPackage]) -> dict[str, list[str]]:
    """Returns the packages to import before a model is loaded, with their known libraries.

    Args:
      ops: Names of all ops in the model.
      imported: The result of `imported_op_packages` in the process that made it.
    """
    unknown = [op for op in ops if not is_registered_op(op)]
    names = {op.replace(">", "_") for op in ops}
    needed = {name: package["files"] for name, package in imported.items() if names & {*package["ops"]}}
    known = {op for package in imported.values() for op in package["ops"]}
    others = [op for op in unknown if op.replace(">", "_") not in known]
    return {**{package: [] for op in others if (package := _package_of(op))}, **needed}


def note_packages(model: str, packages: Iterable[str]) -> None:
    """Writes into a SavedModel's folder which packages it needs; a no-op for a model that needs none."""
    if names := list(packages):
        file_io.makedirs(os.path.join(model, os.path.dirname(_NOTE)))
        file_io.write_text(os.path.join(model, _NOTE), json.dumps(names))


def _noted_packages(model: str) -> list[str]:
    path = os.path.join(model, _NOTE)
    names = json.loads(file_io.read_text(path)) if file_io.exists(path) else []
    return [name for name in names if isinstance(name, str) and name.isidentifier()]


def _package_of(op: str) -> str:
    return next((name for name, pattern in _PACKAGES.items() if re.match(pattern, op)), "")


def import_op_package(package: str, files: Sequence[str] = ()) -> None:
    """Imports a package; restores `tf.estimator`, removed from TensorFlow, if the package needs it.

    Args:
      package: Its name.
      files: Its libraries, which are loaded instead if they are there: the package may be a training module.

    Raises:
      Exception: Any exception of the package's import.
    """
    if files and all(map(os.path.exists, files)):
        import tensorflow as tf

        for file in files:
            tf.load_op_library(file)
        return
    try:
        importlib.import_module(package)
    except (AttributeError, ImportError) as error:
        if "estimator" not in str(error):
            raise
        restore_estimator()
        importlib.import_module(package)


def import_packages_for(ops: Iterable[str], named: Mapping[str, Sequence[str]], model: str) -> None:
    """Imports the packages that register a model's ops that TensorFlow itself does not have.

    Args:
      ops: Names of all ops in the model.
      named: Packages from --op-package, or of the run that made the model, with their libraries; imported first.
      model: The model's folder, for messages.

    Raises:
      InputError: If a package cannot be imported, or an op is still not registered; names the op and the package.
    """
    for name, files in named.items():
        _import(name, f"--op-package {name}", files)
    unknown = [op for op in sorted(ops) if not is_registered_op(op)]
    for name in _noted_packages(model) if unknown else ():
        _import(name, f"--model {model} needs the package {name}")
    for op in unknown:
        if is_registered_op(op):
            continue
        package = _package_of(op)
        if not package:
            raise InputError(
                f"--model {model} uses the op {op!r}, which is not registered. Specify the package that registers it "
                "with --op-package."
            )
        _import(package, f"--model {model} uses the op {op!r}, which the package {package} registers")
        if not is_registered_op(op):
            raise InputError(f"--model {model} uses the op {op!r}, which this release of {package} does not register.")


def _import(package: str, why: str, files: Sequence[str] = ()) -> None:
    try:
        import_op_package(package, files)
    except ModuleNotFoundError as error:
        import tensorflow as tf

        raise InputError(
            f"{why}: no module named {error.name!r}. Install a release of it for TensorFlow {tf.__version__}, or add "
            "its folder to PYTHONPATH."
        ) from error
    except Exception as error:  # TensorFlow raises its own errors for a library built for another release
        raise InputError(f"{why}: import failed: {type(error).__name__}: {error}") from error
