"""The parts of an ElasticDL model file, in every form that they had over the years.

| part | forms |
| --- | --- |
| model | a function, a class, or an instance: `custom_model`, `CustomModel`, `model`, or the one that is named |
| feed | `feed(dataset, mode, metadata)`, `dataset_fn(dataset, mode)`, `dataset_fn(dataset, training)` |
| loss | `loss(labels, predictions)`, or the other way round; the parameters' names decide |
| optimizer | a function without required arguments, or an optimizer |
| eval_metrics_fn | `()` to metrics or functions by name, also nested by output; or `(predictions, labels)` to values |
| callbacks | `()` to a list of Keras callbacks |
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...errors import ModuleError, did_you_mean
from ...inputs.readers.reader_params import parse_reader_params
from .detection import FEED_NAMES
from .options import ElasticDLOptions
from .shim.constants import Mode

if TYPE_CHECKING:
    import tensorflow as tf

    from ...inputs.readers.records import Metadata
    from .shim.tensor_values import Tensors

TRAINING, EVALUATION, PREDICTION = Mode.TRAINING, Mode.EVALUATION, Mode.PREDICTION
MODEL_NAMES = ("custom_model", "CustomModel", "model")
_IS_LABEL = re.compile(r"label|target|true|truth|^y$|^gt$", re.IGNORECASE)
_LOOKS = {
    "loss": "def loss(labels, predictions): …",
    "optimizer": "def optimizer(lr=0.1): return tf.optimizers.SGD(lr)",
    "feed": "def feed(dataset, mode, metadata): …",
    "model": "def custom_model(): return tf.keras.Model(…)",
}


class Parts:
    """One model file.

    Attributes:
      module: The module.
      options: The job's options, with the parts' names.
    """

    def __init__(self, module: ModuleType, model_name: str | None, options: ElasticDLOptions) -> None:
        self.module = module
        self.options = options
        self._model_name = model_name

    def model(self) -> tf.keras.Model:
        """Returns the Keras model: built by its function or class, or as it stands in the module.

        Raises:
          ModuleError: When there is none, or when it is something else.
        """
        import tensorflow as tf

        name = self._name_of_model()
        value = self._get(name)
        if value is None:
            raise self._missing(name, "model")
        params = parse_reader_params(self.options.model_params)
        model = value if isinstance(value, tf.keras.Model) else value(**params) if callable(value) else value
        if not isinstance(model, tf.keras.Model):
            raise ModuleError(f"{self._where(name)} must give a tf.keras.Model; it gave {model!r}.")
        return model

    def require_functions(self, why: str) -> None:
        """Makes sure that the model and the optimizer are made anew each time, by a function or a class.

        Raises:
          ModuleError: When one of them stands in the file ready-made.
        """
        for part, name in (("model", self._name_of_model()), ("optimizer", self.options.optimizer)):
            value = self._get(name)
            if not (inspect.isroutine(value) or inspect.isclass(value)):
                raise ModuleError(f"{self._where(name)} is made while the file is imported. {why} Write {_LOOKS[part]}")

    def _name_of_model(self) -> str:
        return self._model_name or next((name for name in MODEL_NAMES if hasattr(self.module, name)), MODEL_NAMES[0])

    def feed(self, dataset: tf.data.Dataset, mode: str, metadata: Metadata) -> tf.data.Dataset:
        """Returns features and labels (in prediction, features) of each record, as the file makes them."""
        name, function = self._feed()
        parameters = _positional(function)
        second = parameters[1:2]
        given = (mode == TRAINING) if second == ["training"] or second == ["is_training"] else mode
        arguments = [dataset, given, metadata]
        result = function(*arguments[: len(parameters)] if parameters else arguments)
        if not hasattr(result, "element_spec"):
            raise ModuleError(f"{self._where(name)} must return a tf.data.Dataset; it returned {result!r}.")
        return result

    def loss(self, labels: Tensors, predictions: Tensors) -> tf.Tensor:
        """Calls the file's loss, whichever order its parameters have."""
        function = self._function("loss")
        return function(labels, predictions) if labels_first(function) else function(predictions, labels)

    def optimizer(self) -> tf.keras.optimizers.Optimizer:
        """Returns the optimizer."""
        value = self._get(self.options.optimizer)
        if value is None:
            raise self._missing(self.options.optimizer, "optimizer")
        return value() if inspect.isroutine(value) or inspect.isclass(value) else value

    def eval_metrics_fn(self) -> Callable[..., object] | None:
        """Returns the metrics' function, or None; a job without metrics is evaluated by its loss."""
        return self._optional(self.options.eval_metrics_fn)

    def callbacks(self) -> list[tf.keras.callbacks.Callback]:
        """Returns the file's Keras callbacks."""
        function = self._optional(self.options.callbacks)
        return list(function() or ()) if function is not None else []

    def custom_data_reader(self) -> Callable[..., Any] | None:
        """Returns the file's reader function, or None."""
        return self._optional(self.options.custom_data_reader)

    def prediction_outputs_processor(self) -> Any:
        """Returns an instance of the file's processor of predictions, or None."""
        value = self._optional(self.options.prediction_outputs_processor)
        return value() if inspect.isclass(value) else value

    def require(self) -> None:
        """Makes sure that all parts are there that training cannot do without.

        Raises:
          ModuleError: With the part and what it looks like.
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
        """Returns what has a name in the file, or, as `other_module.name`, in another one of its folder."""
        other, _, last = name.rpartition(".")
        return getattr(importlib.import_module(other) if other else self.module, last, None)

    def _where(self, name: str) -> str:
        return f"{self.module.__file__}: {name}"

    def _missing(self, name: str, part: str) -> ModuleError:
        own = [key for key in vars(self.module) if not key.startswith("_")]
        return ModuleError(
            f"The model file {self.module.__file__} has no {part}: nothing in it is called {name!r}."
            f"{did_you_mean(name, own)} Write {_LOOKS[part]} or name another one."
        )


def labels_first(function: Callable[..., object]) -> bool:
    """Returns whether a loss or metric takes labels before predictions, by its parameters' names; True in doubt."""
    first, second = (*_positional(function), "", "")[:2]
    return bool(_IS_LABEL.search(first)) or not _IS_LABEL.search(second)


def takes_nothing(function: Callable[..., object]) -> bool:
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
