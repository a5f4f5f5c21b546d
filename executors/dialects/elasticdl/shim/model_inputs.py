"""Decorators of `elasticdl_preprocessing.utils.decorators` that declare the input names of a subclassed model.

@declare_model_inputs("wide_embeddings", "deep_embeddings")
class WideAndDeep(tf.keras.Model): …
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Model = TypeVar("_Model")


def declare_model_inputs(*names: str) -> Callable[[_Model], _Model]:
    """Stores the names in the class attribute `_model_inputs`.

    Raises:
      ValueError: When there are no names, or one is not a string.
    """
    return _store_names("_model_inputs", names)


def model_input_name(*names: str) -> Callable[[_Model], _Model]:
    """Stores the names in the class attribute `_model_input_names`; the older form of the decorator."""
    return _store_names("_model_input_names", names)


def _store_names(attribute: str, names: tuple[str, ...]) -> Callable[[_Model], _Model]:
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"The names of a model's inputs must be strings, at least one, not {names!r}.")

    def decorate(model: _Model) -> _Model:
        setattr(model, attribute, list(names))
        return model

    return decorate
