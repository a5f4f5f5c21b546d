"""Imports classes by dotted name."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from ....errors import ModuleError, did_you_mean


def get_class(module_class: str) -> Any:
    """Imports a module and returns its class, or any other attribute.

    Args:
      module_class: `module.ClassName` or `package.module.ClassName`.

    Raises:
      ModuleError: When the module or the attribute does not exist; suggests a similar name.
      Exception: Any exception that the module raises on import, with its original type and traceback.
    """
    name, _, content = module_class.rpartition(".")
    if not name:
        raise ModuleError(
            f"{module_class!r} is not a class name: use module.ClassName, such as 'train_conf.TrainConf'."
        )
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # an import inside the module failed
        raise ModuleError(f"{module_class}: there is no module {error.name!r}.{_near(error.name)}") from error
    try:
        return getattr(module, content)
    except AttributeError as error:
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ModuleError(
            f"{module_class}: {module.__file__} has no {content!r}.{did_you_mean(content, known)}"
        ) from error


def _near(name: str) -> str:
    package, _, last = name.rpartition(".")
    places = getattr(importlib.import_module(package), "__path__", []) if package else None
    return did_you_mean(last, [module.name for module in pkgutil.iter_modules(places)])
