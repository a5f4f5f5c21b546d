"""Converts tensors of every dtype to plain arrays, to a few values for a record, and to a verdict on NaN and infinity.

plain_array(tf.constant([1 + 2j]))                     # [[1.0, 2.0]]
excerpt(tf.constant(["café", "x" * 1000]))             # ["café", "xxx…"]
all_finite(tf.constant([0.5, math.nan], tf.bfloat16))  # False
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from ..compat.tensorflow import memory_of
from ..errors import InputError

Tensor: TypeAlias = "tf.Tensor | tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices"
Plain: TypeAlias = "str | int | float"

_VALUES, _CHARACTERS = 10, 200  # of an excerpt, and of each of its texts
_CHUNK = 1 << 20  # values that are examined at a time, so that a huge tensor needs little more memory
# Arrow, JSON and metrics have none of the narrow types of ml_dtypes. Tried in this order.
_WIDER = (np.int8, np.uint8, np.float32)


class UnreadableTensorError(InputError):
    """A tensor has no values that Python can read, such as a variant or a resource handle."""


def plain_array(value: Tensor) -> np.ndarray:
    """Returns a tensor as an array of booleans, integers, float32, float64, or objects.

    Floats of up to 16 bits become float32, and integers of less than 8 bits int8 or uint8. Quantized values are their
    integers. A complex number is a pair [real part, imaginary part] in an additional last dimension. Strings are bytes.
    A RaggedTensor is a list for each row; a SparseTensor becomes dense.

    Raises:
      UnreadableTensorError: If its dtype has no readable values.
    """
    if isinstance(value, tf.RaggedTensor):
        return _rows(plain_array(value.flat_values), value.nested_row_splits)
    if isinstance(value, tf.SparseTensor):
        return _dense(plain_array(value.values), value)
    array = _widened(_memory(tf.convert_to_tensor(value)))
    return np.stack([array.real, array.imag], axis=-1) if array.dtype.kind == "c" else array


def excerpt(value: Tensor | Sequence[bytes | Plain]) -> list[Plain]:
    """Returns the first 10 values for JSON: texts are cut, complex, NaN and infinite numbers are texts.

    Only these values are converted, so that the size of a tensor does not matter. Of a dtype without readable values,
    the reason is returned.

    Args:
      value: A tensor, or the values of a feature. Of a RaggedTensor or SparseTensor, the values that are present.
    """
    if isinstance(value, Sequence):
        return [_plain(item) for item in value[:_VALUES]]
    try:
        return [_plain(item) for item in _widened(_first_values(_flat_values(value))).tolist()]
    except UnreadableTensorError as error:
        return [str(error)]


def all_finite(value: Tensor | tf.Variable) -> bool:
    """Whether a tensor has neither NaN nor infinity; always true of integers, booleans and strings.

    Raises:
      UnreadableTensorError: If that cannot be determined.
    """
    if value.dtype == tf.string:
        return True
    try:
        return all(bool(np.isfinite(chunk).all()) for chunk in _chunks(_memory(_flat_values(value))))
    except TypeError as error:  # NumPy has no such function for the dtype
        raise UnreadableTensorError(f"dtype {value.dtype.name} cannot be tested for NaN") from error


def first_nonfinite(tensors: Iterable[tuple[str, Tensor | tf.Variable]]) -> tuple[str, str]:
    """Returns the name of the first tensor with NaN or infinity, or "", and why one cannot be tested, or ""."""
    problem = ""
    for name, tensor in tensors:
        try:
            if not all_finite(tensor):
                return name, ""
        except UnreadableTensorError as error:
            problem = problem or f"{name}: {error}"
    return "", problem


def number_word(value: float) -> str:
    """Returns the word for a NaN or infinite number, as in protobuf's JSON mapping: JSON has no such numbers."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def text_excerpt(value: bytes | str, characters: int = _CHARACTERS) -> str:
    """Returns the beginning of a text; for bytes that are no text, such as an image, their number."""
    # UTF-8 has at most 4 bytes a character.
    text = value[: 4 * characters + 4].decode("utf-8", "replace") if isinstance(value, bytes) else value
    shown = text[:characters]
    if not all(character.isprintable() or character.isspace() for character in shown):
        return f"{len(value):,} bytes"
    return shown if len(text) == len(shown) else f"{shown}…"


def _memory(value: tf.Tensor | tf.Variable) -> np.ndarray:
    """Returns the memory of a tensor, without a copy.

    Raises:
      UnreadableTensorError: If its dtype has no readable values.
    """
    if value.dtype in (tf.variant, tf.resource):
        raise UnreadableTensorError(f"dtype {value.dtype.name} has no readable values")
    try:
        return memory_of(tf.convert_to_tensor(value))
    except tf.errors.ResourceExhaustedError:  # not a property of the tensor
        raise
    except tf.errors.OpError as error:  # an uninitialized variable, or a dtype without a kernel on this device
        raise UnreadableTensorError(f"dtype {value.dtype.name} cannot be read: {type(error).__name__}") from error


def _widened(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "biucO" or array.dtype in (np.float32, np.float64):
        return array
    for wider in _WIDER:
        if np.can_cast(array.dtype, wider):
            widened: np.ndarray = array.astype(wider)
            return widened
    raise UnreadableTensorError(f"dtype {array.dtype} cannot be converted to numbers")


def _flat_values(value: Tensor | tf.Variable) -> tf.Tensor | tf.Variable:
    if isinstance(value, tf.RaggedTensor):
        return value.flat_values
    return value.values if isinstance(value, (tf.SparseTensor, tf.IndexedSlices)) else value


def _first_values(value: tf.Tensor) -> np.ndarray:
    if value.dtype == tf.string:  # the memory of strings is a copy of all of them
        texts: np.ndarray = tf.reshape(value, [-1])[:_VALUES].numpy()
        return texts
    first: np.ndarray = _memory(value).reshape(-1)[:_VALUES]
    return first


def _chunks(array: np.ndarray) -> Iterator[np.ndarray]:
    flat = array.reshape(-1)
    return (flat[start : start + _CHUNK] for start in range(0, flat.size, _CHUNK))


def _plain(value: bytes | complex | Plain) -> Plain:
    if isinstance(value, (bytes, str)):
        return text_excerpt(value)
    if isinstance(value, complex):
        return f"{value:.6g}"
    return number_word(value) if isinstance(value, float) and not math.isfinite(value) else value


def _rows(values: np.ndarray, splits: Sequence[tf.Tensor]) -> np.ndarray:
    """Returns an array of objects, a nested list for each row of a RaggedTensor."""
    for ends in (split.numpy().tolist() for split in reversed(splits)):
        rows: np.ndarray = np.empty(len(ends) - 1, object)
        rows[:] = [values[start:end].tolist() for start, end in itertools.pairwise(ends)]
        values = rows
    return values


def _dense(values: np.ndarray, sparse: tf.SparseTensor) -> np.ndarray:
    shape = (*sparse.dense_shape.numpy(), *values.shape[1:])
    dense: np.ndarray = np.full(shape, b"" if values.dtype == object else 0, values.dtype)
    dense[tuple(sparse.indices.numpy().T)] = values
    return dense
