"""`data_mapping`: TensorFlow dtypes by the dtype names of columns, as in the inputs of DLRover's exported models."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["data_mapping"]

data_mapping: dict[str, tf.DType]

_NAMES = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "string")
# These differ from DLRover's row decoding, where "float" was float64 and "int" int64.
_OTHER_NAMES = {"float": "float32", "double": "float64", "int": "int8"}


def __getattr__(name: str) -> dict[str, tf.DType]:
    if name != "data_mapping":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _mapping()


@functools.cache
def _mapping() -> dict[str, tf.DType]:
    import tensorflow as tf

    names = {name: name for name in _NAMES} | _OTHER_NAMES
    return {name: tf.as_dtype(dtype) for name, dtype in names.items()}
