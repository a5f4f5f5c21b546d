"""Describes a call of `Model.fit` as JSON values, to compare it with the same call in an earlier run."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras

_DATA = ("x", "y", "sample_weight", "validation_data")
_BUILT_BY = ("build_config", "build_input_shape", "batch_input_shape", "batch_shape")
_NOT_TRAINING = ("self", "verbose", "callbacks", "max_queue_size", "workers", "use_multiprocessing")


def describe(
    bound: inspect.BoundArguments, model: keras.Model, callbacks: Sequence[keras.callbacks.Callback]
) -> dict[str, object]:
    """Describes a call of `fit`: its arguments, its data's structure, the model, the optimizer and the callbacks.

    Args:
      bound: The call's arguments; missing ones are set to their defaults.
      model: The compiled model.
      callbacks: The callbacks that the module passed.
    """
    bound.apply_defaults()
    description = {name: value for name, value in bound.arguments.items() if name not in (*_NOT_TRAINING, *_DATA)}
    for name in _DATA:
        description[f"kind of {name}"] = _kind(bound.arguments.get(name))
    description |= {
        "model": _digest(model),
        "trainable weights": len(model.trainable_weights) if model.built else None,
        "optimizer": _digest(model.optimizer),
        "callbacks": [type(one).__qualname__ for one in callbacks],
    }
    plain: dict[str, object] = json.loads(json.dumps(description, default=_type_name))
    return plain


def differences(call: Mapping[str, object], earlier: Mapping[str, object]) -> list[str]:
    """Returns descriptions of the differences from an earlier call."""
    found = []
    for name in sorted({*call, *earlier}):
        before, now = earlier.get(name), call.get(name)
        if before != now:
            shown = isinstance(now, (int, float, type(None))) and isinstance(before, (int, float, type(None)))
            found.append(f"{name} ({before!r}, now {now!r})" if shown else name)
    return found


def _kind(data: object) -> object:
    if hasattr(data, "element_spec"):
        return str(data.element_spec)
    if isinstance(data, Mapping):
        return {str(name): _kind(one) for name, one in data.items()}
    if isinstance(data, (list, tuple)):
        return [_kind(one) for one in data[:100]] if len(data) <= 100 else len(data)
    if hasattr(data, "shape") and hasattr(data, "dtype"):
        return f"{data.dtype} {tuple(data.shape)}"
    return _type_name(data)


def _digest(configured: keras.Model | keras.optimizers.Optimizer) -> str:
    """Returns the class name and a hash of the Keras configuration; only the name if there is no configuration."""
    digest = ""
    with contextlib.suppress(Exception):  # the get_config of a subclass may raise anything
        config = json.dumps(_without_shapes(configured.get_config()), sort_keys=True, default=_type_name)
        digest = hashlib.sha256(config.encode()).hexdigest()[:16]
    return f"{_type_name(configured)} {digest}"


def _without_shapes(config: object) -> object:
    """Returns a configuration without the shapes that the model was built with, which include the batch size."""
    if isinstance(config, Mapping):
        return {name: _without_shapes(one) for name, one in config.items() if name not in _BUILT_BY}
    return [_without_shapes(one) for one in config] if isinstance(config, (list, tuple)) else config


def _type_name(value: object) -> str:
    return type(value).__qualname__
