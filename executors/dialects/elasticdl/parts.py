"""Access to the definitions of an ElasticDL model file, in all forms that ElasticDL's releases supported.

| part | forms |
| --- | --- |
| model | a function, a class, or an instance: `custom_model`, `CustomModel`, `model`, or the requested name |
| feed | `feed(dataset, mode, metadata)`, `dataset_fn(dataset, mode)`, `dataset_fn(dataset, training)` |
| loss | `loss(labels, predictions)`, or in reverse order, depending on the parameter names |
| optimizer | a function without required arguments, or an optimizer |
| eval_metrics_fn | `()` returns metrics or functions by name, or by output and name; `(predictions, labels)` values |
| callbacks | `()` returns a list of Keras callbacks |
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pathlib
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...errors import ModuleError, did_you_mean
from .detection import FEED_NAMES
from .options import ElasticDLOptions
from .readers.reader_params import parse_reader_params
from .shim.constants import Mode

if TYPE_CHECKING:
    import tensorflow as tf

    from .readers.records import Metadata
    from .shim.tensor_values import Tensors

TRAINING, EVALUATION, PREDICTION = Mode.TRAINING, Mode.EVALUATION, Mode.PREDICTION
MODEL_NAMES = ("custom_model", "CustomModel", "model")
_IS_LABEL = re.compile(r"label|target|true|truth|^y$|^gt$", re.IGNORECASE)
_EXAMPLES = {
    "loss": "def loss(labels, predictions): …",
    "optimizer": "def optimizer(lr=0.1): return tf.optimizers.SGD(lr)",
    "feed": "def feed(dataset, mode, metadata): …",
    "model": "def custom_model(): return tf.keras.Model(…)",
}


class Parts:
    """The definitions of one model file.

    Attributes:
      module: The imported module.
      options: The job's options, which include the names of the definitions.
    """

    def __init__(self, module: ModuleType, model_name: str | None, options: ElasticDLOptions) -> None:
        self.module = module
        self.options = options
        self._model_name = model_name
        self._others: dict[str, ModuleType] = {}

    def model(self) -> tf.keras.Model:
        """Returns the Keras model: the result of its function or class, or the module's instance.

        Raises:
          ModuleError: When it is missing, or not a Keras model.
        """
        import tensorflow as tf

        name = self._name_of_model()
        value = self._get(name)
        if value is None:
            raise self._missing(name, "model")
        params = parse_reader_params(self.options.model_params, "--model_params")
        model = value if isinstance(value, tf.keras.Model) else value(**params) if callable(value) else value
        if not isinstance(model, tf.keras.Model):
            raise ModuleError(f"{self._name_in_file(name)} must return a tf.keras.Model; it returned {model!r}.")
        return model

    def require_functions(self, why: str) -> None:
        """Checks that the model and the optimizer are functions or classes, so that each call creates a new one.

        Args:
          why: The reason for the requirement, for the error message.

        Raises:
          ModuleError: When one of them is an instance that is created on import.
        """
        for part, name in (("model", self._name_of_model()), ("optimizer", self.options.optimizer)):
            value = self._get(name)
            if not (inspect.isroutine(value) or inspect.isclass(value)):
                raise ModuleError(
                    f"{self._name_in_file(name)} is created when the file is imported. {why} Write {_EXAMPLES[part]}"
                )

    def _name_of_model(self) -> str:
        return self._model_name or next((name for name in MODEL_NAMES if hasattr(self.module, name)), MODEL_NAMES[0])

    def feed(self, dataset: tf.data.Dataset, mode: str, metadata: Metadata) -> tf.data.Dataset:
        """Returns the dataset from the file's feed function: (features, labels), or features for prediction.

        Args:
          dataset: The records.
          mode: TRAINING, EVALUATION or PREDICTION.
          metadata: The reader's metadata.

        Raises:
          ModuleError: When there is no feed function, or it does not return a dataset.
        """
        name, function = self._feed()
        parameters = _positional(function)
        second = parameters[1:2]
        given = (mode == TRAINING) if second == ["training"] or second == ["is_training"] else mode
        arguments = [dataset, given, metadata]
        result = function(*arguments[: len(parameters)] if parameters else arguments)
        if not hasattr(result, "element_spec"):
            raise ModuleError(f"{self._name_in_file(name)} must return a tf.data.Dataset; it returned {result!r}.")
        return result

    def loss(self, labels: Tensors, predictions: Tensors) -> tf.Tensor:
        """Calls the file's loss function with its arguments in the order of its parameters.

        Raises:
          ModuleError: When it returns None.
        """
        function = self._function("loss")
        arguments = (labels, predictions) if labels_first(function) else (predictions, labels)
        result: tf.Tensor | None = function(*arguments)
        if result is None:
            raise ModuleError(
                f"{self._name_in_file(self.options.loss)} returned None. Return the loss, a number or one per record; "
                "a return statement may be missing."
            )
        return result

    def optimizer(self) -> tf.keras.optimizers.Optimizer:
        """Returns the optimizer: the result of its function or class, or the module's instance."""
        value = self._get(self.options.optimizer)
        if value is None:
            raise self._missing(self.options.optimizer, "optimizer")
        return value() if inspect.isroutine(value) or inspect.isclass(value) else value

    def eval_metrics_fn(self) -> Callable[..., object] | None:
        """Returns the metrics function, or None; evaluation then computes the loss only."""
        return self._optional(self.options.eval_metrics_fn)

    def callbacks(self) -> list[tf.keras.callbacks.Callback]:
        """Returns the file's Keras callbacks."""
        function = self._optional(self.options.callbacks)
        return list(function() or ()) if function is not None else []

    def custom_data_reader(self) -> Callable[..., Any] | None:
        """Returns the file's reader function, or None."""
        return self._optional(self.options.custom_data_reader)

    def prediction_outputs_processor(self) -> Any:
        """Returns the object whose `process(predictions, worker_id)` gets the predictions, or None.

        It is an object, a module, or a class, of which an instance is created if that takes no arguments. ElasticDL
        called `process` of the attribute itself, so it may be a static or class method.

        Raises:
          ModuleError: When it has no method `process`.
        """
        name = self.options.prediction_outputs_processor
        if (value := self._get(name)) is None:
            return None
        if callable(value) and (inspect.isclass(value) or not hasattr(value, "process")) and has_no_parameters(value):
            value = value()
        if not callable(getattr(value, "process", None)):
            raise ModuleError(
                f"{self._name_in_file(name)} is {value!r}, which has no process(predictions, worker_id). Write a class "
                "with this method."
            )
        return value

    def require(self) -> None:
        """Checks that feed, loss and optimizer exist.

        Raises:
          ModuleError: When one is missing; names it and shows an example.
        """
        self._feed()
        self._function("loss")
        if self._get(self.options.optimizer) is None:
            raise self._missing(self.options.optimizer, "optimizer")

    def _feed(self) -> tuple[str, Callable[..., tf.data.Dataset]]:
        names = [self.options.feed] if self.options.feed else FEED_NAMES
        for name in names:
            if callable(function := self._get(name)):
                return name, function
        raise self._missing(names[0], "feed")

    def _function(self, part: str) -> Callable[..., tf.Tensor]:
        name = getattr(self.options, part)
        function = self._get(name)
        if not callable(function):
            raise self._missing(name, part)
        found: Callable[..., tf.Tensor] = function
        return found

    def _optional(self, name: str) -> Callable[..., Any] | None:
        value = self._get(name)
        return value if callable(value) else None

    def _get(self, name: str) -> Any:
        """Returns the attribute of a name in the file, or `other_module.name` of another file in the zoo; else None."""
        other, _, last = name.rpartition(".")
        return getattr(self._other_module(other) if other else self.module, last, None)

    def _other_module(self, name: str) -> ModuleType:
        """Returns a module of the zoo, by its file below a folder above this one, or else any importable module."""
        path = os.path.join(*name.split(".")) + ".py"
        above = pathlib.Path(self.module.__file__ or "").resolve().parents
        found = next((folder / path for folder in above if (folder / path).is_file()), None)
        if found is None:
            return importlib.import_module(name)
        if str(found) not in self._others:
            spec = importlib.util.spec_from_file_location(name, found)
            assert spec  # always found for a .py file
            assert spec.loader
            self._others[str(found)] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self._others[str(found)])
        return self._others[str(found)]

    def _name_in_file(self, name: str) -> str:
        return f"{self.module.__file__}: {name}"

    def _missing(self, name: str, part: str) -> ModuleError:
        own = [key for key, value in vars(self.module).items() if callable(value) and not key.startswith("_")]
        return ModuleError(
            f"The model file {self.module.__file__} has no {part}: it does not define {name!r}."
            f"{did_you_mean(name, own)} Write {_EXAMPLES[part]} or select another name."
        )


def labels_first(function: Callable[..., object]) -> bool:
    """Returns whether a loss or metric takes labels before predictions, by its parameter names; default True."""
    first, second = (*_positional(function), "", "")[:2]
    return bool(_IS_LABEL.search(first)) or not _IS_LABEL.search(second)


def has_no_parameters(function: Callable[..., object]) -> bool:
    """Returns whether a function can be called without arguments."""
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    return True


def _positional(function: Callable[..., object]) -> list[str]:
    try:
        parameters: Mapping[str, inspect.Parameter] = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in parameters.items() if parameter.kind in kinds]
