"""Imports the packages whose custom ops a model needs before it can be loaded.

    import_packages_for(ops, {}, model)              # in `predict` and the Evaluator

Models of other programs have no note of their packages, see `op_package_note.py`: then the installed packages are
searched for the ops.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from absl import logging

from ..compat.tensorflow import is_registered_op
from ..errors import InputError
from ..estimator import restore_estimator
from ..runtime.logs.exceptions import one_line_message
from .installed_op_libraries import packages_with
from .op_package_note import noted_packages


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


def import_problems(packages: Mapping[str, Sequence[str]]) -> list[str]:
    """Imports packages with their libraries; returns the import errors, which are also logged as warnings."""
    problems = []
    for package, files in packages.items():
        try:
            import_op_package(package, files)
        except Exception as error:
            problems.append(f"{package} cannot be imported: {type(error).__name__}: {one_line_message(error)}")
            logging.warning("The model check continues without a package: %s", problems[-1])
    return problems


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
    noted = noted_packages(model) if unknown else {}
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
