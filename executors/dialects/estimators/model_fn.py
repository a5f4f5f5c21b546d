"""The dialect of bare Estimators: a module with `model_fn` or an Estimator, and optional input functions.

    def model_fn(features, labels, mode, params): …       # as tf.estimator.Estimator calls it
    def input_fn(fn_args, mode): …                        # or train_input_fn(fn_args) and eval_input_fn(fn_args)

Input functions are called with those of `fn_args`, `mode`, `params`, `config`, `file_pattern` and the keys of `params`
that they have parameters for. Without input functions, examples are parsed by their schema, with the module's LABEL_KEY
as the label. A module may also define:

* `params`: a dict, or a function that returns one. Tuned hyperparameters, then custom_config, override its entries.
* `run_config`: a tf.estimator.RunConfig, or a function that returns one.
* `serving_input_receiver_fn`: by default, tf.Examples are parsed by their schema.
* `exporters`: exporters, or a function that returns them; default a FinalExporter.
* `hooks`: training hooks, or a function that returns them.
* `train_steps`, `eval_steps`: used if fn_args has no value.
* `start_delay_secs`, `throttle_secs`: for the EvalSpec.

Instead of `model_fn`, the module may have an Estimator instance, a function `build_estimator` that returns one, or a
subclass of Estimator.
"""

from __future__ import annotations

import ast
import copy
import inspect
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

from ...compat import tensorflow_estimator as compat
from ...errors import InputError, ModuleError, did_you_mean
from ...fn_args import FnArgs
from ...options import TrainingOptions
from ...runtime.files.schema import read_schema
from ..base import Dialect, Evidence, RunFn, function_in
from ..signatures import Result, call_by_name, parameter_names, parameters_of, takes_features_and_labels
from .detection import find_estimator_use, restore_used_apis
from .inputs import ServingInputReceiverFn, examples_input_fn, parsing_receiver_fn
from .training import EstimatorJob, in_model_run_dir, train_and_export

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow_metadata.proto.v0 import schema_pb2

_KERAS_VARIABLE = "/.ATTRIBUTES/VARIABLE_VALUE"
_BUILDER = "build_estimator"
_PATTERN_NAMES = ("file_pattern", "file_patterns", "files", "filenames", "input_files")
_LABELS = ("LABEL_KEY", "_LABEL_KEY", "label_key", "LABEL")
_PARAMETERS = ("features", "labels", "mode", "params", "config", "self")  # as an Estimator passes to model_fn


class ModelFnDialect(Dialect):
    """Modules with `model_fn` or an Estimator. Any other matching dialect takes precedence."""

    needs = "a function model_fn(features, labels, mode, params), or an Estimator"
    entry_points = ("model_fn",)
    functions = ("model_fn", "input_fn", "train_input_fn", "eval_input_fn", "serving_input_receiver_fn")
    converts_from = "model_fn"
    form = "model_fn(features, labels, mode, params)"
    reads_examples = True
    no_scaffold = "it requires Estimators, which TensorFlow removed in 2.16"

    def detect(self, path: str) -> Evidence | None:
        """Returns where a file uses Estimators, for modules of any dialect."""
        found = find_estimator_use(path)
        return Evidence(*found, keras="2", uses_estimators=True) if found else None

    def prepare(self, files: Sequence[str]) -> None:
        """Restores `tf.estimator` and `tfma.export` for files that use them."""
        restore_used_apis(files)

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns the reason if the module has a model function or an Estimator."""
        if function is not None:
            candidate = getattr(module, function, None)
            return f"the function {function} takes features and labels" if takes_features_and_labels(candidate) else ""
        if callable(getattr(module, "model_fn", None)):
            return "it defines model_fn"
        found = _estimators_in(module)
        return f"it contains the Estimator {found[0]}" if found else ""

    def yields(self, function: str | None) -> bool:
        """Whether no function was requested: a module's `run_fn`, `trainer_fn` or conf takes precedence then."""
        return function is None

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Returns a `run_fn` that builds the Estimator, trains and exports it.

        Raises:
          ModuleError: When there is neither a model function nor exactly one Estimator.
        """
        name = function or ("model_fn" if hasattr(module, "model_fn") else "")
        if name:
            function_in(module, name, self.needs)
        elif len(found := _estimators_in(module)) == 1:
            [name] = found
        else:
            there = ", ".join(found) or "no Estimator"
            raise ModuleError(f"{module.__file__} contains {there}; the dialect needs {self.needs}.")
        where = f"{module.__file__}: {name}"
        return lambda fn_args: train_and_export(
            lambda: _Parts(module, name, in_model_run_dir(fn_args)).job(), fn_args, where
        )

    def convertible(self, definitions: Mapping[str, ast.stmt], function: str | None) -> list[str]:
        """Returns `model_fn`, else `build_estimator`; or the requested function if it takes `features` first."""
        if function is None:
            return [name for name in ("model_fn", _BUILDER) if name in definitions][:1]
        if function not in definitions:
            return []
        is_one = function in ("model_fn", _BUILDER) or parameters_of(definitions[function])[:1] == ["features"]
        return [function] if is_one else []

    def check(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> list[str]:
        """Checks that the model function has no required parameter that an Estimator does not pass.

        Raises:
          ModuleError: When it has one; names the parameter and the required signature.
        """
        name = function or "model_fn"
        model_fn = getattr(module, name, None)
        if not inspect.isfunction(model_fn):
            return []
        parameters = inspect.signature(model_fn).parameters.values()
        unknown = [
            one.name
            for one in parameters
            if one.name not in _PARAMETERS and one.default is one.empty and one.kind is not one.VAR_KEYWORD
        ]
        if unknown:
            raise ModuleError(
                f"{module.__file__}: {name}{inspect.signature(model_fn)} has the parameter {unknown[0]!r}, which an "
                f"Estimator does not pass.{did_you_mean(unknown[0], _PARAMETERS)} "
                f"Write it as def {name}(features, labels, mode, params)."
            )
        return []

    def limit_steps(self, fn_args: FnArgs, steps: int) -> bool:
        """Returns True; the trainer stops Estimators by other means."""
        return True


def _estimators_in(module: ModuleType) -> list[str]:
    """Returns the names by which the module provides Estimators: `build_estimator`, else instances, else subclasses."""
    if callable(getattr(module, _BUILDER, None)):
        return [_BUILDER]
    estimator_class = compat.estimator_class()
    if estimator_class is None:
        return []  # no Estimator class is loaded
    instances = [name for name, value in vars(module).items() if isinstance(value, estimator_class)]
    return instances or [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, estimator_class) and value.__module__ == module.__name__
    ]


class _Arguments(TypedDict, total=False):
    """The arguments available to the module's functions, by parameter name, in addition to the entries of `params`."""

    fn_args: FnArgs
    params: dict[str, Any]
    schema: schema_pb2.Schema | None
    config: tf.estimator.RunConfig
    run_config: tf.estimator.RunConfig
    model_dir: str
    serving_input_receiver_fn: ServingInputReceiverFn


class _Parts:
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
        self._arguments["model_dir"] = fn_args.serving_model_dir
        self._arguments["serving_input_receiver_fn"] = self._serving_input_receiver_fn()

    def job(self) -> EstimatorJob:
        """Returns the Estimator, its TrainSpec and its EvalSpec."""
        import tensorflow as tf

        receiver_fn = self._arguments["serving_input_receiver_fn"]
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
        return EstimatorJob(self._estimator(), train_spec, eval_spec, known.get("eval_input_receiver_fn"))

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
        if isinstance(value, tf.compat.v1.estimator.Estimator):
            return self._with_model_dir(value)
        warm_start = self._warm_start()
        if self._name == _BUILDER or inspect.isclass(value):
            return self._call(value, self._name, **warm_start)
        params = {"params": self._arguments["params"]} if "params" in parameter_names(value) else {}
        return tf.estimator.Estimator(value, config=self._arguments["config"], **params, **warm_start)

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
            other = "eval_input_fn" if training else "train_input_fn"
            if hasattr(self._module, other):
                raise ModuleError(f"{self._module.__file__} defines {other}, but neither {name} nor input_fn.")
            return examples_input_fn(self._fn_args, patterns, self._label(), self._arguments["params"], training)
        more = {"mode": mode, **dict.fromkeys(_PATTERN_NAMES, patterns)}
        if "input_context" in parameter_names(function):
            return lambda input_context=None: self._call(function, name, **more, input_context=input_context)
        return lambda: self._call(function, name, **more)

    def _serving_input_receiver_fn(self) -> ServingInputReceiverFn:
        function = getattr(self._module, "serving_input_receiver_fn", None)
        if function is not None:
            return lambda: self._call(function, "serving_input_receiver_fn")
        if not self._fn_args.schema_path and not self._fn_args.transform_graph_path:
            raise ModuleError(
                f"{self._module.__file__} has no serving_input_receiver_fn, and there is no schema to make one from. "
                "Define serving_input_receiver_fn(), or set the examples' schema."
            )
        return parsing_receiver_fn(self._fn_args, self._label(required=False))

    def _label(self, required: bool = True) -> str | None:
        names: Sequence[str] = [name for name in _LABELS if isinstance(getattr(self._module, name, None), str)]
        label = self._arguments["params"].get("label_key") or next(
            (getattr(self._module, name) for name in names), None
        )
        if label is None and required:
            raise ModuleError(
                f"{self._module.__file__} has no input_fn. To read the examples by their schema, it needs the label's "
                "feature name: LABEL_KEY = '…', or label_key in custom_config."
            )
        return label
