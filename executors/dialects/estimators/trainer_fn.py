"""The dialect of TFX up to 0.29: `trainer_fn(fn_args, schema)` returns an Estimator, a TrainSpec and an EvalSpec.

It reproduces TFX's Estimator executor, which was last in TFX 1.15.1; see `training.py`.
"""

from __future__ import annotations

import ast
import copy
import os
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ...errors import ModuleError
from ...fn_args import FnArgs
from ...options import TrainingOptions
from ...runtime.files.schema import read_schema
from ..base import Dialect, RunFn, function_in
from ..signatures import parameters_of, require_call, takes_factory_arguments, takes_fn_args_and_schema
from .definitions import factories
from .entry_points import creates_estimator
from .training import EstimatorJob, in_model_run_dir, train_and_export

_KEYS = ("estimator", "train_spec", "eval_spec")


class TrainerFnDialect(Dialect):
    """Modules with `trainer_fn(fn_args, schema)`."""

    needs = "a function trainer_fn(fn_args, schema) that returns a dict with estimator, train_spec and eval_spec"
    entry_points = ("trainer_fn",)
    functions = ("trainer_fn",)
    converts_from = "trainer_fn"
    form = "trainer_fn(fn_args, schema)"
    keras = "2"
    no_scaffold = "it requires Estimators, which TensorFlow removed in 2.16"

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
        return lambda fn_args: _train(trainer_fn, where, fn_args)

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


def _train(trainer_fn: Callable[..., object], where: str, fn_args: FnArgs) -> dict[str, float]:
    theirs = in_model_run_dir(fn_args)
    former_names = {  # up to TFX 0.15
        "warm_start_from": fn_args.base_model,
        "tf_transform_dir": fn_args.transform_graph_path,
        "output_dir": os.path.dirname(theirs.serving_model_dir),
    }
    # TFX 0.21 to 0.25 set the entries of custom_config as attributes.
    for key, value in {**former_names, **(fn_args.custom_config or {})}.items():
        vars(theirs).setdefault(key, value)
    schema = read_schema(fn_args.schema_path) if fn_args.schema_path else None

    def make_job() -> EstimatorJob:
        spec = _checked(trainer_fn(copy.copy(theirs), schema), where)
        return EstimatorJob(
            spec["estimator"], spec["train_spec"], spec["eval_spec"], spec.get("eval_input_receiver_fn")
        )

    return train_and_export(make_job, fn_args, where)


def _checked(spec: object, where: str) -> Mapping[str, Any]:
    """Checks the keys and types of the returned dict.

    Raises:
      ModuleError: When a key is missing or has a wrong type; names the key, its value and the required type.
    """
    import tensorflow as tf

    if not isinstance(spec, Mapping):
        raise ModuleError(f"{where} must return a dict with {', '.join(_KEYS)}; it returned {spec!r}.")
    kinds = (tf.compat.v1.estimator.Estimator, tf.estimator.TrainSpec, tf.estimator.EvalSpec)
    if missing := [key for key in _KEYS if key not in spec]:
        names = " and ".join(map(repr, missing))
        raise ModuleError(f"{where} returned a dict without {names}; it has {', '.join(map(str, spec))}.")
    for key, kind in zip(_KEYS, kinds, strict=True):
        if not isinstance(spec[key], kind):
            raise ModuleError(f"{where} returned {key}={spec[key]!r}; it must be a tf.estimator.{kind.__name__}.")
    return spec
