"""Decorators of `elasticdl_preprocessing.utils.decorators` by which a subclassed model names its inputs.

@declare_model_inputs("wide_embeddings", "deep_embeddings")
class WideAndDeep(tf.keras.Model): …
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Model = TypeVar("_Model")


def declare_model_inputs(*names: str) -> Callable[[_Model], _Model]:
    """Notes the names in the class's `_model_inputs`.

    Raises:
      ValueError: When there are none, or one is not a string.
    """
    return _noting("_model_inputs", names)


def model_input_name(*names: str) -> Callable[[_Model], _Model]:
    """Notes the names in the class's `_model_input_names`: the decorator's first form."""
    return _noting("_model_input_names", names)


def _noting(attribute: str, names: tuple[str, ...]) -> Callable[[_Model], _Model]:
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"The names of a model's inputs are strings, at least one; these are {names!r}.")

    def decorate(model: _Model) -> _Model:
        setattr(model, attribute, list(names))
        return model

    return decorate
