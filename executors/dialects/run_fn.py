"""The dialect of today's TFX modules: a function `run_fn(fn_args)` that trains and exports."""

from __future__ import annotations

import inspect
from types import ModuleType

from ..errors import ModuleError
from ..options import TrainingOptions
from . import RunFn, function_in
from .dlrover.conf import conf_classes
from .signatures import takes_features_and_labels, takes_fn_args_and_schema

NEEDS = "a function run_fn(fn_args), or the name of another function that takes fn_args"


def matches(module: ModuleType, function: str | None) -> str:
    """Returns evidence when the module has the named function, or `run_fn` when none is named."""
    name = function or "run_fn"
    candidate = getattr(module, name, None)
    if not callable(candidate):
        return ""
    if function and (takes_fn_args_and_schema(candidate) or takes_features_and_labels(candidate)):
        return ""  # a trainer_fn or a model_fn by another name
    if function in conf_classes(module):
        return ""
    return f"it defines {name}" if function is None else f"the function {name} was named"


def run_fn(module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
    """Returns the module's function.

    Raises:
      ModuleError: When it is missing, or cannot be called with one positional argument.
    """
    del options
    name = function or "run_fn"
    candidate = function_in(module, name, NEEDS)
    try:
        inspect.signature(candidate).bind(object())
    except TypeError as error:
        line = inspect.unwrap(candidate).__code__.co_firstlineno if inspect.isfunction(candidate) else "?"
        raise ModuleError(
            f"{module.__file__}, line {line}: {name}{inspect.signature(candidate)} cannot be called "
            f"with fn_args alone ({error}). Write it as def {name}(fn_args)."
        ) from None
    except ValueError:
        pass  # a callable in C has no signature to look at
    run: RunFn = candidate
    return run
