"""Adapts `trainer_fn(fn_args, schema)` to `run_fn(fn_args)`.

It reproduces TFX's Estimator executor, which was last in TFX 1.15.1; see `training.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import ModuleType

from ...fn_args import FnArgs
from ...options import TrainingOptions
from ..base import RunFn
from ..signatures import (
    function_in,
    parameters_of,
    require_call,
    takes_factory_arguments,
    takes_fn_args_and_schema,
)
from .definitions import factories
from .dialect import TrainerFnDialect
from .entry_points import creates_estimator
from .trainer_fn_run import train


class TrainerFnAdapter(TrainerFnDialect):
    """Modules with `trainer_fn(fn_args, schema)`."""

    functions = ("trainer_fn",)
    converts_from = "trainer_fn"
    form = "trainer_fn(fn_args, schema)"

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns the reason if the module has `trainer_fn` and no `run_fn`, or the requested function takes two."""
        if function is not None:
            candidate = getattr(module, function, None)
            is_one = takes_fn_args_and_schema(candidate) and not creates_estimator(module, function)
            return f"the function {function} takes fn_args and schema" if is_one else ""
        if callable(getattr(module, "run_fn", None)):
            return ""  # an added run_fn takes precedence
        return "it defines trainer_fn" if callable(getattr(module, "trainer_fn", None)) else ""

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Returns a `run_fn` that calls the module's `trainer_fn`, trains and exports.

        Raises:
          ModuleError: When `trainer_fn` is missing.
        """
        name = function or "trainer_fn"
        trainer_fn = function_in(module, name, self.needs)
        where = f"{module.__file__}: {name}"
        return lambda fn_args: train(trainer_fn, where, fn_args)

    def convertible(self, definitions: Mapping[str, ast.stmt], function: str | None) -> list[str]:
        """Returns `trainer_fn`, or the requested function if it has two parameters and is not a model function."""
        name = function or "trainer_fn"
        if name not in definitions:
            return []
        parameters = parameters_of(definitions[name])
        is_factory = takes_factory_arguments(parameters) or name in factories(definitions)
        is_other = parameters[:1] == ["features"] or is_factory
        is_one = name == "trainer_fn" or (len(parameters) == 2 and not is_other)
        return [name] if is_one else []

    def check(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> list[str]:
        """Checks that `trainer_fn` takes two arguments."""
        name = function or "trainer_fn"
        require_call(module, name, getattr(module, name), 2, self.form)
        return []

    def limit_steps(self, fn_args: FnArgs, steps: int) -> bool:
        """Returns True; the trainer stops Estimators by other means."""
        return True
