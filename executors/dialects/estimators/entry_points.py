"""Finds the Estimators of an imported module, and chooses the one to train."""

from __future__ import annotations

import ast
import os
from types import ModuleType

from ...compat import tensorflow_estimator as compat
from ...errors import ModuleError
from ...modules.defined_names import definitions_of
from ...modules.source import parsed
from ..signatures import required_parameters, takes_factory_arguments, takes_features_and_labels
from .definitions import BUILDER, MODEL_FN, factories, preferred
from .dialect import find_estimator_use


def entry_points_in(module: ModuleType) -> dict[str, list[str]]:
    """Returns the names of Estimators, functions that return one, subclasses and model functions, by kind."""
    found = {
        "Estimators": _instances_in(module),
        "functions that return an Estimator": _factories_in(module),
        "subclasses of Estimator": _subclasses_in(module),
        "model functions": [
            name
            for name, value in vars(module).items()
            if (name == MODEL_FN and callable(value))
            or (takes_features_and_labels(value) and value.__module__ == module.__name__)
        ],
    }
    return {kind: names for kind, names in found.items() if names}


def preferred_in(module: ModuleType) -> list[str]:
    """Returns the entry points of a module; see `definitions.preferred`."""
    return preferred(entry_points_in(module), _definitions_of(module))


def only_entry_point(module: ModuleType, needs: str) -> str:
    """Returns the name of the Estimator to train, or of what creates it.

    Raises:
      ModuleError: When there is none, or several; the message lists them.
    """
    names = preferred_in(module)
    if len(names) == 1:
        return names[0]
    if not names:
        raise ModuleError(f"{module.__file__} contains no Estimator; the dialect needs {needs}.")
    listed = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in entry_points_in(module).items())
    raise ModuleError(
        f"{module.__file__} contains several entry points ({listed}). Choose one with --function, or with the "
        f"component's run_fn='{module.__name__}.{names[0]}'."
    )


def creates_estimator(module: ModuleType, name: str) -> bool:
    """Whether a name of a module is an Estimator, a subclass, or a function that can be called to return one."""
    value = getattr(module, name, None)
    if is_estimator(value) or any(name in names for names in entry_points_in(module).values()):
        return True
    known = getattr(module, "params", None)
    if not callable(value) or isinstance(value, type) or not _uses_estimators(module):
        return False  # calling a class that is no Estimator returns none
    required = required_parameters(value)
    return required is not None and takes_factory_arguments([one for one in required if one not in (known or ())])


def is_estimator(value: object) -> bool:
    """Whether a value is an Estimator."""
    estimator_class = compat.estimator_class()
    return estimator_class is not None and isinstance(value, estimator_class)


def _uses_estimators(module: ModuleType) -> bool:
    path = str(module.__file__)
    return compat.estimator_class() is not None or (os.path.exists(path) and find_estimator_use(path) is not None)


def _definitions_of(module: ModuleType) -> dict[str, ast.stmt]:
    path = str(module.__file__)
    return definitions_of(parsed(path)) if os.path.exists(path) else {}


def _instances_in(module: ModuleType) -> list[str]:
    names = {id(value): name for name, value in reversed(vars(module).items()) if is_estimator(value)}
    return list(reversed(names.values()))  # the first name of each


def _factories_in(module: ModuleType) -> list[str]:
    by_source = factories(_definitions_of(module)) if _uses_estimators(module) else []
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and (name == BUILDER or name in by_source) and not takes_features_and_labels(value)
    ]


def _subclasses_in(module: ModuleType) -> list[str]:
    estimator_class = compat.estimator_class() or ()
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, estimator_class) and value.__module__ == module.__name__
    ]
