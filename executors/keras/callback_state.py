"""Saves and restores the state of a fit's callbacks: plain values, arrays, and the files of Keras's own callbacks.

A module may use these after `fit`, even if the fit is restored instead of run.
Usage:

    before = attributes(callbacks)
    model.fit(..., callbacks=callbacks)
    values, arrays = changes(callbacks, before)
    ...
    restore(callbacks, values, arrays)
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..compat.keras import CALLBACK_ATTRIBUTES
from ..modules.keras_version import KERAS_PACKAGES
from ..runtime.files import file_io

if TYPE_CHECKING:
    import keras

_KERAS_SETS = ("model", "params", "validation_data")
_ARRAY, _TUPLE = "__array__", "__tuple__"
_PLACEHOLDER = re.compile(r"\{[^}]*\}")


class NotPlainError(Exception):
    """A callback has an attribute that cannot be stored as plain values and arrays."""


@dataclasses.dataclass(frozen=True)
class _Attribute:
    """An attribute's value with its JSON form and arrays; `is_plain` is False if it has none."""

    value: object
    plain: object = None
    arrays: tuple[np.ndarray, ...] = ()
    is_plain: bool = True

    @classmethod
    def of(cls, value: object) -> _Attribute:
        arrays: list[np.ndarray] = []
        try:
            return cls(value, _packed(value, arrays), tuple(arrays))
        except TypeError:
            return cls(value, is_plain=False)

    def equals(self, other: _Attribute | None) -> bool:
        if other is None or not (self.is_plain and other.is_plain):
            return other is not None and self.value is other.value
        same = len(self.arrays) == len(other.arrays)
        return same and self.plain == other.plain and all(map(np.array_equal, self.arrays, other.arrays))


def attributes(callbacks: Sequence[keras.callbacks.Callback]) -> list[dict[str, _Attribute]]:
    """Returns the current attributes of each callback, without those that Keras sets."""
    return [
        {name: _Attribute.of(value) for name, value in vars(one).items() if _is_own_attribute(one, name)}
        for one in callbacks
    ]


def changes(
    callbacks: Sequence[keras.callbacks.Callback], before: Sequence[Mapping[str, _Attribute]]
) -> tuple[list[dict[str, object]], list[np.ndarray]]:
    """Returns the attributes that a fit has changed as JSON values, and the arrays that these refer to.

    Args:
      callbacks: The callbacks after the fit.
      before: Their `attributes` before the fit.

    Raises:
      NotPlainError: If a callback that is not part of Keras has a changed attribute that cannot be stored.
    """
    values: list[dict[str, object]] = []
    arrays: list[np.ndarray] = []
    for callback, now, earlier in zip(callbacks, attributes(callbacks), before, strict=True):
        changed = {name: attribute for name, attribute in now.items() if not attribute.equals(earlier.get(name))}
        if _is_of_keras(callback):  # their other state, such as copies of weights, is not needed after the fit
            changed = {
                name: attribute for name, attribute in changed.items() if attribute.is_plain and not attribute.arrays
            }
        for name, attribute in changed.items():
            if not attribute.is_plain:
                raise NotPlainError(
                    f"{type(callback).__name__}.{name} is a {type(attribute.value).__name__}, which cannot be saved"
                )
        values.append({name: _packed(attribute.value, arrays) for name, attribute in changed.items()})
    return values, arrays


def _is_of_keras(callback: keras.callbacks.Callback) -> bool:
    return type(callback).__module__.partition(".")[0] in KERAS_PACKAGES


def _is_own_attribute(callback: keras.callbacks.Callback, name: str) -> bool:
    return name not in _KERAS_SETS and not (
        name.startswith("_") and (_is_of_keras(callback) or name in CALLBACK_ATTRIBUTES)
    )


def restore(
    callbacks: Sequence[keras.callbacks.Callback], values: Sequence[Mapping[str, object]], arrays: Sequence[np.ndarray]
) -> None:
    """Sets the attributes that `changes` returned."""
    for callback, plain in zip(callbacks, values, strict=True):
        for name, value in plain.items():
            setattr(callback, name, _unpacked(value, arrays))


def files_of(callback: keras.callbacks.Callback) -> list[str]:
    """Returns the files that a Keras callback with a `filepath` may have written, such as a ModelCheckpoint."""
    path = getattr(callback, "filepath", None)
    if not _is_of_keras(callback) or not isinstance(path, (str, os.PathLike)):
        return []
    return file_io.glob(_PLACEHOLDER.sub("*", os.fspath(path)) + "*")


def _packed(value: object, arrays: list[np.ndarray]) -> object:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "numpy") or isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise TypeError
        arrays.append(array)
        return {_ARRAY: len(arrays) - 1}
    if isinstance(value, (list, tuple)):
        packed = [_packed(one, arrays) for one in value]
        return {_TUPLE: packed} if isinstance(value, tuple) else packed
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _packed(one, arrays) for key, one in value.items()}
    raise TypeError


def _unpacked(value: object, arrays: Sequence[np.ndarray]) -> object:
    if isinstance(value, list):
        return [_unpacked(one, arrays) for one in value]
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            array = arrays[value[_ARRAY]]
            return array if array.shape else array[()]
        if value.keys() == {_TUPLE}:
            return tuple(_unpacked(one, arrays) for one in value[_TUPLE])
        return {name: _unpacked(one, arrays) for name, one in value.items()}
    return value
