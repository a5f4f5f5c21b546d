"""Trains and exports what a module's `trainer_fn` returns."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import ModuleError
from ...fn_args import FnArgs
from ...runtime.files.schema import read_schema
from .training import EstimatorJob, in_model_run_dir, train_and_export

_KEYS = ("estimator", "train_spec", "eval_spec")


def train(trainer_fn: Callable[..., object], where: str, fn_args: FnArgs) -> dict[str, float]:
    """Calls `trainer_fn`, trains what it returns, and exports it.

    Args:
      trainer_fn: The module's function.
      where: Its file and name, for messages.
      fn_args: The arguments.

    Raises:
      ModuleError: When a key of the returned dict is missing or has a wrong type.
    """
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
