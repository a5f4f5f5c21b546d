"""Records which tensors a fitted model returns, to find them among the outputs of the exported model.

A Keras model returns a symbolic tensor wherever a function is traced that calls it, such as the one that is exported as
a signature. The SavedModel keeps the names of function and tensor. Of an Estimator's predictions, those count that its
loss is computed from.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from absl import logging

from ..compat.tensorflow_estimator import weight_column
from ..estimator.interception import EstimatorCall, EstimatorObserver
from ..saved_models.output_forms import FORMS

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


class ModelCalls:
    """The symbolic tensors that Keras models returned, named as in `saved_models.output_forms`."""

    def __init__(self) -> None:
        # {model: [names of each output]}; a model that is gone is not exported.
        self._returned: weakref.WeakKeyDictionary[keras.Model, list[set[str]]] = weakref.WeakKeyDictionary()

    def note(self, model: keras.Model, result: object) -> None:
        """Records the result of a call; cheap if it is not symbolic."""
        import tensorflow as tf

        tensors = [tensor for tensor in tf.nest.flatten(result) if tf.is_symbolic_tensor(tensor)]
        if tensors:
            known = self._returned.setdefault(model, [])
            known += [set() for _ in tensors[len(known) :]]
            for names, tensor in zip(known, tensors, strict=False):
                names.add(f"{getattr(tensor.graph, 'name', '')}:{tensor.name}")

    def of(self, model: keras.Model) -> list[tuple[str, ...]]:
        """Returns the names for each output of a model, with those of inner models whose output is the same tensor."""
        return [tuple(sorted(self._with_same(names))) for names in self._returned.get(model, ())]

    def all_names(self) -> tuple[str, ...]:
        """Returns the names of the outputs of all models."""
        return tuple(sorted(name for outputs in self._returned.values() for names in outputs for name in names))

    def _with_same(self, names: set[str]) -> set[str]:
        every = [other for outputs in self._returned.values() for other in outputs]
        return names.union(*(other for other in every if other & names))


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


def _keys_of(loss: tf.Tensor, predictions: Mapping[object, object]) -> Iterator[str]:
    import tensorflow as tf

    # The keys of a multi-head Estimator are tuples, which are no names of outputs.
    named = {key: value for key, value in predictions.items() if isinstance(key, str) and tf.is_symbolic_tensor(value)}
    roots = {key: _root(value) for key, value in named.items()}
    reached = _ancestors(loss, set(roots.values()))
    return (key for key, root in sorted(roots.items()) if root in reached)


def _root(tensor: tf.Tensor) -> str:
    while tensor.op.type in FORMS:
        tensor = tensor.op.inputs[0]
    return str(tensor.name)


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
