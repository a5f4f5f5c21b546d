"""Builds an Estimator and its specs from the definitions of a module; `model_fn.py` lists them."""

from __future__ import annotations

import copy
import inspect
import os
import tempfile
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

from ...compat import tensorflow_estimator as compat
from ...errors import InputError, ModuleError
from ...fn_args import FnArgs
from ...runtime.files.schema import read_schema
from ..signatures import Result, call_by_name, parameter_names, takes_features_and_labels
from .definitions import MODEL_FN
from .entry_points import is_estimator
from .inputs import ServingInputReceiverFn, examples_input_fn, parsing_receiver_fn
from .missing_parts import LABELS, missing_parts
from .training import EstimatorJob

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow_metadata.proto.v0 import schema_pb2

_KERAS_VARIABLE = "/.ATTRIBUTES/VARIABLE_VALUE"
_PATTERN_NAMES = ("file_pattern", "file_patterns", "files", "filenames", "input_files")


class _Arguments(TypedDict, total=False):
    """The arguments available to the module's functions, by parameter name, in addition to the entries of `params`."""

    fn_args: FnArgs
    params: dict[str, Any]
    schema: schema_pb2.Schema | None
    config: tf.estimator.RunConfig
    run_config: tf.estimator.RunConfig
    model_dir: str
    serving_input_receiver_fn: ServingInputReceiverFn
    estimator: tf.estimator.Estimator


class ModelParts:
    """Builds an Estimator and its specs from the definitions of a module."""

    def __init__(self, module: ModuleType, name: str, fn_args: FnArgs) -> None:
        import tensorflow as tf

        self._module = module
        self._name = name
        self._fn_args = fn_args
        self._modes = tf.estimator.ModeKeys
        schema = read_schema(fn_args.schema_path) if fn_args.schema_path else None
        self._arguments: _Arguments = {"fn_args": fn_args, "params": {}, "schema": schema}
        self._arguments["params"] = self._params()
        self._arguments["config"] = self._arguments["run_config"] = self._run_config()
        self._require_parts()
        self._arguments["model_dir"] = fn_args.serving_model_dir
        self._arguments["serving_input_receiver_fn"] = self._serving_input_receiver_fn()

    def job(self) -> EstimatorJob:
        """Returns the Estimator, its TrainSpec and its EvalSpec."""
        import tensorflow as tf

        receiver_fn = self._arguments["serving_input_receiver_fn"]
        estimator = self._arguments["estimator"] = self._estimator()
        fn_args, known = self._fn_args, vars(self._module)
        exporters = self._value("exporters")
        if exporters is None:
            exporters = [tf.estimator.FinalExporter("final", receiver_fn)]
        timing = {name: known[name] for name in ("start_delay_secs", "throttle_secs") if name in known}
        train_spec = tf.estimator.TrainSpec(
            self._input_fn(self._modes.TRAIN),
            max_steps=fn_args.train_steps or known.get("train_steps"),
            hooks=self._value("hooks"),
        )
        eval_spec = tf.estimator.EvalSpec(
            self._input_fn(self._modes.EVAL),
            steps=fn_args.eval_steps or known.get("eval_steps"),
            exporters=exporters,
            **timing,
        )
        return EstimatorJob(estimator, train_spec, eval_spec, known.get("eval_input_receiver_fn"))

    def _value(self, name: str) -> Any:
        """Returns the module's attribute of a name, or its result if it is a function; None if it is not defined."""
        value = getattr(self._module, name, None)
        return self._call(value, name) if inspect.isroutine(value) else value

    def _call(self, function: Callable[..., Result], name: str, **more: object) -> Result:
        return call_by_name(function, {**self._arguments["params"], **self._arguments, **more}, self._where(name))

    def _where(self, name: str) -> str:
        return f"{self._module.__file__}: {name}"

    def _params(self) -> dict[str, object]:
        params = self._value("params")
        if params is not None and not hasattr(params, "keys"):
            raise ModuleError(f"{self._where('params')} must be a dict, not {params!r}.")
        tuned = self._fn_args.hyperparameters or {}
        return {**(params or {}), **tuned.get("values", tuned), **(self._fn_args.custom_config or {})}

    def _run_config(self) -> tf.estimator.RunConfig:
        import tensorflow as tf

        config = self._value("run_config") or tf.estimator.RunConfig()
        if not isinstance(config, tf.estimator.RunConfig):
            raise ModuleError(f"{self._where('run_config')} must be a tf.estimator.RunConfig, not {config!r}.")
        seed = config.tf_random_seed if config.tf_random_seed is not None else self._fn_args.seed
        return config.replace(model_dir=self._fn_args.serving_model_dir, tf_random_seed=seed)

    def _estimator(self) -> tf.estimator.Estimator:
        import tensorflow as tf

        value = getattr(self._module, self._name)
        if is_estimator(value):
            return self._with_model_dir(value)
        warm_start = self._warm_start()
        if self._name == MODEL_FN or takes_features_and_labels(value):
            params = {"params": self._arguments["params"]} if "params" in parameter_names(value) else {}
            return tf.estimator.Estimator(value, config=self._arguments["config"], **params, **warm_start)
        made = self._call(value, self._name, **warm_start)
        if not is_estimator(made):
            raise ModuleError(f"{self._where(self._name)} returned {made!r}; it must return a tf.estimator.Estimator.")
        return self._with_model_dir(made)

    def _warm_start(self) -> dict[str, str]:
        """Returns the `warm_start_from` argument for `fn_args.base_model`; {} without a base model."""
        import tensorflow as tf

        base_model = self._fn_args.base_model
        if not base_model:
            return {}
        names = [name for name, _ in tf.train.list_variables(os.path.join(base_model, "variables", "variables"))]
        if any(name.endswith(_KERAS_VARIABLE) for name in names):
            raise InputError(
                f"base_model {base_model} was not written by an Estimator: its variables have other names, such as "
                f"{names[0]}. Set a model that this module trained, or none."
            )
        return {"warm_start_from": base_model}

    def _with_model_dir(self, estimator: tf.estimator.Estimator) -> tf.estimator.Estimator:
        """Returns a copy of the Estimator with the run's `model_dir`, if its `model_dir` was not set explicitly.

        TensorFlow creates a temporary directory for an Estimator without `model_dir`, which identifies this case.
        """
        parent, name = os.path.split(os.path.realpath(estimator.model_dir))
        if parent != os.path.realpath(tempfile.gettempdir()) or not name.startswith("tmp"):
            return estimator
        moved = copy.copy(estimator)
        compat.move(moved, self._fn_args.serving_model_dir)
        return moved

    def _input_fn(self, mode: str) -> Callable[..., object]:
        training = mode == self._modes.TRAIN
        patterns = self._fn_args.train_files if training else self._fn_args.eval_files
        name = "train_input_fn" if training else "eval_input_fn"
        function = getattr(self._module, name, None) or getattr(self._module, "input_fn", None)
        if function is None:
            return examples_input_fn(self._fn_args, patterns, self._label(), self._arguments["params"], training)
        more = {"mode": mode, **dict.fromkeys(_PATTERN_NAMES, patterns)}
        if "input_context" in parameter_names(function):
            return lambda input_context=None: self._call(function, name, **more, input_context=input_context)
        return lambda: self._call(function, name, **more)

    def _serving_input_receiver_fn(self) -> ServingInputReceiverFn:
        function = getattr(self._module, "serving_input_receiver_fn", None)
        if function is not None:
            return lambda: self._call(function, "serving_input_receiver_fn")
        return parsing_receiver_fn(self._fn_args, self._label())

    def _label(self) -> str | None:
        names: Sequence[str] = [name for name in LABELS if isinstance(getattr(self._module, name, None), str)]
        own = next((getattr(self._module, name) for name in names), None)
        found: str | None = self._arguments["params"].get("label_key") or own
        return found

    def _require_parts(self) -> None:
        """Raises a ModuleError that lists everything that the module lacks."""
        has_schema = bool(self._fn_args.schema_path or self._fn_args.transform_graph_path)
        missing = missing_parts(lambda name: hasattr(self._module, name), has_schema, self._label() is not None)
        if missing:
            raise ModuleError("\n".join([f"{self._module.__file__} lacks definitions.", *missing]))
