"""Adapts bare Estimators to `run_fn(fn_args)`: a module with `model_fn` or an Estimator, and optional input functions.

    def model_fn(features, labels, mode, params): …       # as tf.estimator.Estimator calls it
    def input_fn(fn_args, mode): …                        # or train_input_fn(fn_args) and eval_input_fn(fn_args)

Input functions are called with those of `fn_args`, `mode`, `params`, `config`, `file_pattern` and the keys of `params`
that they have parameters for. Without input functions, examples are parsed by their schema, with the module's LABEL_KEY
as the label. A module may also define:

* `params`: a dict, or a function that returns one. Tuned hyperparameters, then custom_config, override its entries.
* `run_config`: a tf.estimator.RunConfig, or a function that returns one.
* `serving_input_receiver_fn`: by default, tf.Examples are parsed by their schema.
* `exporters`: exporters, or a function that returns them; default a FinalExporter.
* `hooks`: training hooks, or a function that returns them; it may take `estimator`, as may `exporters`.
* `train_steps`, `eval_steps`: used if fn_args has no value.
* `start_delay_secs`, `throttle_secs`: for the EvalSpec.

Instead of `model_fn`, the module may have an Estimator instance, a function that returns one, a subclass of Estimator,
or a model function of another name. If it has several, the requested function is the name of one of them.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Mapping, Sequence
from types import ModuleType

from ...errors import ModuleError, did_you_mean
from ...fn_args import FnArgs
from ...options import TrainingOptions
from ..base import RunFn
from ..signatures import (
    function_in,
    parameters_of,
    required_parameters_of,
    takes_factory_arguments,
    takes_features_and_labels,
)
from .definitions import MODEL_FN, candidates, preferred
from .dialect import ModelFnDialect
from .entry_points import creates_estimator, is_estimator, only_entry_point, preferred_in
from .missing_parts import LABELS, missing_parts
from .used_apis import restore_used_apis, restored_when_used

_PARAMETERS = ("features", "labels", "mode", "params", "config", "self")  # as an Estimator passes to model_fn


class ModelFnAdapter(ModelFnDialect):
    """Modules with `model_fn` or an Estimator. Any other matching dialect takes precedence."""

    functions = ("model_fn", "input_fn", "train_input_fn", "eval_input_fn", "serving_input_receiver_fn")
    converts_from = "model_fn"
    form = "model_fn(features, labels, mode, params)"

    def prepare(self, files: Sequence[str]) -> None:
        """Restores `tf.estimator` and `tfma.export` for files that use them."""
        restore_used_apis(files)

    def importing(self) -> contextlib.AbstractContextManager[object]:
        """Restores `tf.estimator` if the module or a library uses it, and notes that such a module needs Keras 2."""
        return restored_when_used()

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns the reason if the module has a model function or an Estimator."""
        if function is not None:
            if takes_features_and_labels(getattr(module, function, None)):
                return f"the function {function} takes features and labels"
            return f"{function} is or creates an Estimator" if creates_estimator(module, function) else ""
        names = preferred_in(module)
        if not names:
            return ""
        return f"it defines {MODEL_FN}" if names == [MODEL_FN] else f"it contains the Estimator {' and '.join(names)}"

    def yields(self, function: str | None) -> bool:
        """Whether no function was requested: a module's `run_fn`, `trainer_fn` or conf takes precedence then."""
        return function is None

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Returns a `run_fn` that builds the Estimator, trains and exports it.

        Raises:
          ModuleError: When there is neither a model function nor exactly one Estimator.
        """
        from .model_parts import ModelParts  # imports TensorFlow
        from .training import in_model_run_dir, train_and_export

        name = function or only_entry_point(module, self.needs)
        if not hasattr(module, name):
            raise ModuleError(f"{module.__file__} has no {name!r}; the dialect needs {self.needs}.")
        if not is_estimator(getattr(module, name)):
            function_in(module, name, self.needs)
        where = f"{module.__file__}: {name}"
        return lambda fn_args: train_and_export(
            lambda: ModelParts(module, name, in_model_run_dir(fn_args)).job(), fn_args, where
        )

    def convertible(self, definitions: Mapping[str, ast.stmt], function: str | None) -> list[str]:
        """Returns what a run would train, or what there is to choose from.

        A requested name may also be a variable or an import, which may be an Estimator.
        """
        known = candidates(definitions)
        if function is None:
            return preferred(known, definitions)
        every = [name for names in known.values() for name in names]
        if function not in definitions:
            return []
        node = definitions[function]
        required = required_parameters_of(node)
        is_variable = not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        is_one = function in every or is_variable or parameters_of(node)[:1] == ["features"]
        return [function] if is_one or (required is not None and takes_factory_arguments(required)) else []

    def lacks(self, definitions: Mapping[str, ast.stmt]) -> list[str]:
        """Returns the parts that a run needs in addition, if it has no schema."""
        if "*" in definitions:  # from an import
            return []
        has_label = any(name in definitions for name in LABELS)
        return missing_parts(definitions.__contains__, has_schema=False, has_label=has_label)

    def check(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> list[str]:
        """Checks that the model function has no required parameter that an Estimator does not pass.

        Raises:
          ModuleError: When it has one; names the parameter and the required signature.
        """
        name = function or only_entry_point(module, self.needs)
        model_fn = getattr(module, name, None)
        if not inspect.isfunction(model_fn) or not (name == MODEL_FN or takes_features_and_labels(model_fn)):
            return []
        parameters = inspect.signature(model_fn).parameters.values()
        unknown = [
            parameter.name
            for parameter in parameters
            if parameter.name not in _PARAMETERS
            and parameter.default is parameter.empty
            and parameter.kind is not parameter.VAR_KEYWORD
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
