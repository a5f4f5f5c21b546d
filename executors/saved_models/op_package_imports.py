"""Imports the packages whose custom ops a model needs before it can be loaded, and notes them in the model's folder.

    note_packages(model, {"tensorflow_text": []})    # after the check of a trained model
    import_packages_for(ops, {}, model)              # in `predict` and the Evaluator

Models of other programs have no such note: then the installed packages are searched for the ops.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from ..compat.tensorflow import is_registered_op
from ..errors import InputError
from ..estimator import restore_estimator
from ..runtime.files import file_io
from ..runtime.files.artifact_layout import read_json_object
from .installed_op_libraries import packages_with
from .locations import find_saved_model

_NOTE = "assets.extra/op_packages.json"  # SavedModels keep other people's files in assets.extra


def note_packages(folder: str, packages: Mapping[str, Sequence[str]]) -> None:
    """Writes beside a SavedModel's graph which packages it needs; a no-op for a model that needs none.

    Args:
      folder: A folder for `find_saved_model`.
      packages: The packages, with their known libraries.
    """
    model = find_saved_model(folder)
    if model and packages:
        file_io.makedirs(os.path.join(model, os.path.dirname(_NOTE)))
        file_io.write_text(os.path.join(model, _NOTE), json.dumps(packages))


def _noted_packages(model: str) -> dict[str, list[str]]:
    path = os.path.join(model, _NOTE)
    if not file_io.exists(path):
        return {}
    what = "The list of the packages that the model needs"
    remedy = "Copy it again from the trained model, or delete it: then the installed packages are searched."
    try:
        packages = read_json_object(path, what)
    except InputError as error:
        raise InputError(f"{error} {remedy}") from error
    for name, files in packages.items():
        if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
            raise InputError(
                f"{what} {path} must map names of packages to lists of libraries, not {name!r} to {files!r}. {remedy}"
            )
    return packages


def import_op_package(package: str, files: Sequence[str] = ()) -> None:
    """Imports a package, and loads its libraries; restores `tf.estimator`, removed from TensorFlow, if it needs it.

    Args:
      package: Its name.
      files: Its libraries. If they are there, a single module is not imported: it may be a script that trains.

    Raises:
      Exception: Any exception of the package's import.
    """
    import tensorflow as tf

    files = files if all(map(os.path.exists, files)) else ()
    spec = importlib.util.find_spec(package) if files else None
    if not files or (spec and spec.submodule_search_locations):
        _import_with_estimator(package)
    for file in files:
        tf.load_op_library(file)


def _import_with_estimator(package: str) -> None:
    try:
        importlib.import_module(package)
    except (AttributeError, ImportError) as error:
        if "estimator" not in str(error):
            raise
        restore_estimator()
        importlib.import_module(package)


def _unregistered(ops: Iterable[str]) -> list[str]:
    return [op for op in ops if not is_registered_op(op)]


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
    unknown = _unregistered(sorted(ops))
    noted = _noted_packages(model) if unknown else {}
    for name, files in noted.items():
        _import_noted(name, files, model)
    unknown = _unregistered(unknown)
    installed = packages_with(unknown)
    for name in installed:
        _import(name, f"--model {model} uses the op {unknown[0]!r}, which {name} has")
    if unknown := _unregistered(unknown):
        tried = ", ".join([*named, *noted, *installed])
        registers = f"{tried} does not register" if tried else "no installed package registers"
        raise InputError(
            f"--model {model} uses the op {unknown[0]!r}, which {registers}. Install the package that registered it in "
            f"the training, such as tensorflow_text, in a release for {_tensorflow()}, or specify it with --op-package."
        )


def _import_noted(package: str, files: Sequence[str], model: str) -> None:
    """Imports a package that a model's note names.

    A model must not be able to run any file, so that its libraries are only loaded from folders on Python's path.
    """
    inside = f"/{package}/"
    folders = {file.partition(inside)[0] if inside in file else os.path.dirname(file) for file in files}
    place = f", which was {', '.join(sorted(folders))} in the training" if folders else ""
    _import(package, f"--model {model} needs {package}", files if folders <= {*sys.path} else (), place)


def _import(package: str, why: str, files: Sequence[str] = (), place: str = "") -> None:
    try:
        import_op_package(package, files)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{why}: no module named {error.name!r}. Add its folder to PYTHONPATH{place}, or install a release of it "
            f"for {_tensorflow()}."
        ) from error
    except Exception as error:  # TensorFlow raises its own errors for a library built for another release
        raise InputError(f"{why}: import failed: {type(error).__name__}: {error}") from error


def _tensorflow() -> str:
    import tensorflow as tf

    return f"TensorFlow {tf.__version__}"
