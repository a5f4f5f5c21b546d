"""The dialect of TFX up to 0.29: `trainer_fn(fn_args, schema)` returns an Estimator and how to train it.

The shim does what TFX's executor of that time did (1.15.1 had it last): the Estimator works in the model run's folder,
and what the chief exports there is copied to where models are expected. Where several exports lie in that folder, the
newest counts; TFX died of them.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from absl import logging

from .. import file_io
from ..errors import ModuleError
from ..estimator import tfma_export
from ..fn_args import FnArgs
from ..options import TrainingOptions
from ..saved_model import find_saved_model
from ..schema_file import read_schema
from . import RunFn, function_in

NEEDS = "a function trainer_fn(fn_args, schema) that returns a dict with estimator, train_spec and eval_spec"
_KEYS = ("estimator", "train_spec", "eval_spec")


def matches(module: ModuleType, function: str | None) -> str:
    """Returns evidence when the module has `trainer_fn` and no `run_fn`, or names a function of two arguments."""
    if function is not None:
        candidate = getattr(module, function, None)
        return f"the function {function} takes fn_args and schema" if takes_two(candidate) else ""
    if callable(getattr(module, "run_fn", None)):
        return ""  # a module that grew a run_fn wants it to be used
    return "it defines trainer_fn" if callable(getattr(module, "trainer_fn", None)) else ""


def takes_two(function: Any) -> bool:
    """Returns whether a function takes fn_args and schema, rather than fn_args alone."""
    if not callable(function):
        return False
    try:
        signature = inspect.signature(function)
        signature.bind(object(), object())
    except (TypeError, ValueError):
        return False
    required = [p for p in signature.parameters.values() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    return len(required) == 2


def run_fn(module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
    """Returns a `run_fn` around the module's `trainer_fn`.

    Raises:
      ModuleError: When it is missing.
    """
    del options
    name = function or "trainer_fn"
    trainer_fn = function_in(module, name, NEEDS)
    where = f"{module.__file__}: {name}"
    return lambda fn_args: _train(trainer_fn, where, fn_args)


def _train(trainer_fn: Callable[..., Any], where: str, fn_args: FnArgs) -> dict[str, float]:
    """Trains and exports; returns the last evaluation's metrics as `eval_…`."""
    import tensorflow as tf

    serving_model_dir, eval_model_dir = fn_args.serving_model_dir, fn_args.eval_model_dir
    fn_args.serving_model_dir = os.path.join(fn_args.model_run_dir, os.path.basename(serving_model_dir))
    fn_args.eval_model_dir = os.path.join(fn_args.model_run_dir, os.path.basename(eval_model_dir or "Format-TFMA"))
    for key, value in (fn_args.custom_config or {}).items():
        vars(fn_args).setdefault(key, value)  # TFX 0.21 to 0.25 handed its entries over one by one
    schema = read_schema(fn_args.schema_path) if fn_args.schema_path else None
    spec = _checked(trainer_fn(fn_args, schema), where)
    logging.info("Training the Estimator in %s.", spec["estimator"].model_dir)
    metrics, _ = tf.estimator.train_and_evaluate(*(spec[key] for key in _KEYS)) or (None, None)
    if not fn_args.is_chief:
        logging.info("This is not the chief: it exports no model.")
        return {}
    _export_eval_model(spec, fn_args)
    export = find_saved_model(spec["estimator"].model_dir)
    if export is None:
        raise ModuleError(
            f"{where}: the Estimator exported no SavedModel below {spec['estimator'].model_dir}. Give its EvalSpec an "
            "exporter, such as tf.estimator.FinalExporter('taxi', serving_input_receiver_fn)."
        )
    file_io.copytree(export, serving_model_dir)
    if eval_model_dir and (found := _newest(fn_args.eval_model_dir)):
        file_io.copytree(found, eval_model_dir)
    return {f"eval_{name}": float(value) for name, value in (metrics or {}).items() if name != "global_step"}


def _checked(spec: Any, where: str) -> Mapping[str, Any]:
    """Looks the returned dict over, key by key.

    Raises:
      ModuleError: With the key, what it holds, and what it has to hold.
    """
    import tensorflow as tf

    if not isinstance(spec, Mapping):
        raise ModuleError(f"{where} must return a dict with {', '.join(_KEYS)}; it returned {spec!r}.")
    kinds = (tf.estimator.Estimator, tf.estimator.TrainSpec, tf.estimator.EvalSpec)
    for key, kind in zip(_KEYS, kinds, strict=True):
        if key not in spec:
            raise ModuleError(f"{where} returned a dict without {key!r}; it has {', '.join(map(str, spec))}.")
        if not isinstance(spec[key], kind):
            raise ModuleError(f"{where} returned {key}={spec[key]!r}; it must be a tf.estimator.{kind.__name__}.")
    return spec


def _export_eval_model(spec: Mapping[str, Any], fn_args: FnArgs) -> None:
    receiver_fn = spec.get("eval_input_receiver_fn")
    if receiver_fn is None:
        return
    try:
        from tensorflow_model_analysis.export import export_eval_savedmodel
    except ImportError:
        export_eval_savedmodel = tfma_export.export_eval_savedmodel
    export_eval_savedmodel(
        estimator=spec["estimator"], export_dir_base=fn_args.eval_model_dir, eval_input_receiver_fn=receiver_fn
    )


def _newest(folder: str) -> str | None:
    stamps = [name for name in file_io.listdir(folder) if name.isdigit()] if file_io.isdir(folder) else []
    return os.path.join(folder, max(stamps, key=int)) if stamps else None
