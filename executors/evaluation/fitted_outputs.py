"""Records which tensors a fitted model returns, to find them among the outputs of the exported model.

A Keras model returns a symbolic tensor wherever a function is traced that calls it, such as the one that is exported as
a signature. The SavedModel keeps the names of function and tensor. Of an Estimator's predictions, those count that its
loss is computed from.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import logging

from ..compat.tensorflow_estimator import weight_column
from ..estimator.interception import EstimatorCall, EstimatorObserver
from ..saved_models.output_forms import FORMS
from .label_values import by_key

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')  # in JSON
_NAME = re.compile(rf'"name": ({_TEXT.pattern})')


@dataclasses.dataclass(eq=False)
class _Returned:
    """The tensors that the calls of a layer or model returned.

    Attributes:
      names: {key or position of an output: names of its tensors}, named as in `saved_models.output_forms`.
      architecture: See `_architecture`; "" for a layer.
      is_fitted: Whether it was fitted.
    """

    names: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    architecture: str = ""
    is_fitted: bool = False

    @property
    def all_names(self) -> set[str]:
        return set().union(*self.names.values())


class ModelCalls:
    """The symbolic tensors that Keras models and layers returned."""

    def __init__(self) -> None:
        self._of_layer: weakref.WeakKeyDictionary[keras.layers.Layer, _Returned] = weakref.WeakKeyDictionary()
        self._returned: list[_Returned] = []  # also of layers that are gone, but were exported before

    def note(self, layer: keras.layers.Layer, result: object) -> None:
        """Records the result of a call; cheap if it is not symbolic."""
        import tensorflow as tf

        if tf.executing_eagerly():
            return
        tensors = {key: value for key, value in by_key(result).items() if tf.is_symbolic_tensor(value)}
        if not tensors:
            return
        returned = self._record(layer)
        if hasattr(layer, "fit") and not returned.architecture:
            returned.architecture = _architecture(layer)
        for key, tensor in tensors.items():
            returned.names.setdefault(key, set()).update(map(_name, (tensor, _root(tensor))))

    def note_fit(self, model: keras.Model) -> None:
        """Records that a model was fitted."""
        self._record(model).is_fitted = True

    def of(self, model: keras.Model, outputs: Sequence[tuple[str, ...]]) -> list[FittedTensors]:
        """Returns the tensors of each output of a model.

        Args:
          model: The model.
          outputs: The names and keys by which each is known, in the model's order.
        """
        own = self._record(model)
        keys = [next((key for key in known if key in own.names), "") for known in outputs]
        if not all(keys):
            keys = sorted(own.names) if len(own.names) == len(outputs) else [""] * len(outputs)
        return [self._tensors(own, key) for key in keys]

    def of_others(self, model: keras.Model) -> tuple[str, ...]:
        """Returns the names of the outputs of the other fitted models."""
        own = self._record(model)
        others = [other.all_names for other in self._returned if other.is_fitted and other is not own]
        return tuple(sorted(set().union(*others)))

    def all_names(self) -> tuple[str, ...]:
        """Returns the names of the outputs of all models."""
        models = [returned.all_names for returned in self._returned if returned.architecture]
        return tuple(sorted(set().union(*models)))

    def _record(self, layer: keras.layers.Layer) -> _Returned:
        if layer not in self._of_layer:
            self._of_layer[layer] = _Returned()
            self._returned.append(self._of_layer[layer])
        return self._of_layer[layer]

    def _tensors(self, own: _Returned, key: str) -> FittedTensors:
        names = own.names.get(key, set())
        models = [returned for returned in self._returned if returned.architecture]
        equal = [model.names.get(key, set()) for model in models if model.architecture == own.architecture]
        own_names, alike = _with_same(names, models), _with_same(names.union(*equal), self._returned)
        return FittedTensors(tuple(sorted(own_names)), tuple(sorted(alike)))


@dataclasses.dataclass(frozen=True)
class FittedTensors:
    """Names of the tensors of an output of a fitted model.

    Attributes:
      own: Those that the model returns, or an inner model whose output is the same tensor.
      alike: The same, and those that its last layer returns elsewhere, or a model of the same architecture.
    """

    own: tuple[str, ...]
    alike: tuple[str, ...]


class LossObserver(EstimatorObserver):
    """Records what the loss of an Estimator is computed from.

    Attributes:
      keys: The keys of its predictions; () without an Estimator, or if none was found.
      weights: The column that weights the examples, as "weight column NAME"; "" without one.
    """

    def __init__(self) -> None:
        self.keys: tuple[str, ...] = ()
        self.weights = ""

    def train(self, call: EstimatorCall, proceed: Callable[[], tf.estimator.Estimator]) -> tf.estimator.Estimator:
        """Finds the weight column in the head of the Estimator."""
        column = weight_column(call.estimator)
        self.weights = f"weight column {column}" if column else ""
        return proceed()

    def call_model_fn(
        self, call: EstimatorCall, proceed: Callable[[], tf.estimator.EstimatorSpec]
    ) -> tf.estimator.EstimatorSpec:
        """Inspects the result of `model_fn` if it has a loss."""
        spec = proceed()
        if spec.loss is not None and isinstance(spec.predictions, Mapping):
            with logged_errors("the outputs that the loss is computed from"):
                self.keys = tuple(_keys_of(spec.loss, spec.predictions)) or self.keys
        return spec


@contextlib.contextmanager
def logged_errors(what: str) -> Iterator[None]:
    """Logs errors of the observation in the block, which must not fail the training."""
    try:
        yield
    except Exception as error:
        logging.warning("Could not inspect %s: %r", what, error)


def _with_same(names: set[str], returned: Iterable[_Returned]) -> set[str]:
    return names.union(*(other for each in returned for other in each.names.values() if other & names))


def _architecture(model: keras.Model) -> str:
    """Returns a text of class, weights and configuration, without names, which differ between equal models."""
    import tensorflow as tf

    try:
        # Outside of the graph that is being traced: the size of a vocabulary would be a tensor of it, which cannot be
        # copied, and which Keras 2 would reuse for the model that it is saving.
        with tf.init_scope():
            config = json.dumps(model.get_config(), sort_keys=True, default=repr)
    except NotImplementedError:  # of a subclass that Keras cannot configure
        config = ""
    numbers = {name: str(number) for number, name in enumerate(dict.fromkeys(_NAME.findall(config)))}
    shapes = [tuple(getattr(weight, "shape", ())) for weight in model.weights]  # a vocabulary of Keras 2 has none
    return f"{type(model)} {shapes} {_TEXT.sub(lambda text: numbers.get(text[0], text[0]), config)}"


def _name(tensor: tf.Tensor) -> str:
    return f"{getattr(tensor.graph, 'name', '')}:{tensor.name}"


def _keys_of(loss: tf.Tensor, predictions: Mapping[object, object]) -> Iterator[str]:
    import tensorflow as tf

    # The keys of a multi-head Estimator are tuples, which are no names of outputs.
    named = {key: value for key, value in predictions.items() if isinstance(key, str) and tf.is_symbolic_tensor(value)}
    roots = {key: str(_root(value).name) for key, value in named.items()}
    reached = _ancestors(loss, set(roots.values()))
    return (key for key, root in sorted(roots.items()) if root in reached)


def _root(tensor: tf.Tensor) -> tf.Tensor:
    while tensor.op.type in FORMS:
        tensor = tensor.op.inputs[0]
    return tensor


def _ancestors(loss: tf.Tensor, ends: Collection[str]) -> set[str]:
    """Returns the names of the tensors that a loss depends on, without going beyond those in `ends`."""
    seen: set[str] = set()
    waiting: list[Iterable[tf.Tensor]] = [[loss]]
    while waiting:
        for tensor in waiting.pop():
            if tensor.name not in seen:
                seen.add(tensor.name)
                if tensor.name not in ends:
                    waiting.append(tensor.op.inputs)
    return seen
