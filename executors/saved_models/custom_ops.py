"""Finds the packages that register TensorFlow custom ops, which a model with such ops needs before it can be loaded.

The process that trains has imported them: `imported_op_packages` names each with its ops. The model check keeps those
that the model needs. `op_package_note.py` notes them in the model's folder, `op_package_imports.py` imports them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import TypedDict

from ..compat.patching import replaced
from ..compat.tensorflow import is_registered_op, modules_that_load_op_libraries, op_libraries
from ..runtime.logs.exceptions import add_summary
from .installed_op_libraries import packages_with


class OpPackage(TypedDict):
    """A package, or a module of the user, that has loaded libraries of custom ops.

    Attributes:
      ops: Names of the ops, with "_" for ">".
      files: Its libraries if the paths of all are known, else [].
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
        package = _caller(sys._getframe(2).f_globals)  # beyond `replaced`
        try:
            library = original(library_filename)
        except tf.errors.NotFoundError as error:
            if "undefined symbol" in str(error):
                add_summary(error, _of_another_release(library_filename, package))
            raise
        library.__file__ = os.path.abspath(library_filename)
        library.__package__ = package
        return library

    with contextlib.ExitStack() as stack:
        for module in modules_that_load_op_libraries():
            stack.enter_context(replaced(module, "load_op_library", load))
        yield


def _of_another_release(library: str, package: str) -> str:
    import tensorflow as tf

    text = f"{package}: {os.path.basename(library)} was built for another TensorFlow than {tf.__version__}"
    for name in importlib.metadata.packages_distributions().get(package, ())[:1]:
        needs = [need for need in importlib.metadata.requires(name) or () if re.match(r"tensorflow(?![\w-])", need)]
        text += "".join(f": {name} {importlib.metadata.version(name)} requires {need}" for need in needs[:1])
    return f"{text}. Install a release of {package} for TensorFlow {tf.__version__}, if there is one."


def imported_op_packages() -> dict[str, OpPackage]:
    """Returns the packages and modules with custom ops that this process has imported, by name.

    They are those that have called `tf.load_op_library`, or refer to the module that TensorFlow has made for a library.
    """
    packages: dict[str, list[ModuleType]] = {}
    for owner, library in _owned(op_libraries()):
        packages.setdefault(owner, []).append(library)
    return {owner: _described(libraries) for owner, libraries in packages.items() if owner != "tensorflow"}


def _owned(libraries: Sequence[ModuleType]) -> Iterator[tuple[str, ModuleType]]:
    """Yields the libraries whose package is known, with the package."""
    modules = list(sys.modules.items())
    for library in libraries:
        if library.__package__:
            yield library.__package__, library
            continue
        # Python adds the module that loads a library before TensorFlow adds the library's module.
        before = next((index for index, (_, module) in enumerate(modules) if module is library), len(modules))
        for name, module in (*reversed(modules[:before]), *modules[before:]):
            # The attributes are not read, which could load a lazy module.
            if isinstance(module, ModuleType) and any(value is library for value in list(vars(module).values())):
                yield name.partition(".")[0], library
                break


def _described(libraries: Sequence[ModuleType]) -> OpPackage:
    names = {name: value for library in libraries for name, value in vars(library).items() if name[0].isupper()}
    files = [vars(library).get("__file__") or "" for library in libraries]
    # Other capitalized names are of `typing`: TensorFlow has an op "Any".
    ops = [name for name, value in names.items() if isinstance(value, FunctionType)]
    return {"ops": ops, "files": files if all(files) else []}


def _caller(variables: Mapping[str, object]) -> str:
    """Returns the package or module with these global variables; a script has the name by which it can be imported."""
    name = str(variables.get("__name__"))
    if name == "__main__":
        spec, file = variables.get("__spec__"), str(variables.get("__file__") or name)
        name = spec.name if isinstance(spec, ModuleSpec) else os.path.splitext(os.path.basename(file))[0]
    return name.partition(".")[0]


def needed_packages(ops: Iterable[str], imported: Mapping[str, OpPackage]) -> dict[str, list[str]]:
    """Returns the packages to import before a model is loaded, with their known libraries.

    Args:
      ops: Names of all ops in the model.
      imported: The result of `imported_op_packages` in the process that made it.
    """
    names = {op.replace(">", "_"): op for op in ops}
    needed = {name: package for name, package in imported.items() if not names.keys().isdisjoint(package["ops"])}
    known = {op for package in needed.values() for op in package["ops"]}
    unknown = [op for name, op in names.items() if name not in known and not is_registered_op(op)]
    installed: dict[str, list[str]] = {name: [] for name in packages_with(unknown)}
    return installed | {name: package["files"] for name, package in needed.items()}
