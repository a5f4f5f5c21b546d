"""Reads label values from a few batches of a Keras fit's data: bounds, distinct values, one-hot rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

_DISTINCT = 50  # maximum number of distinct values to record; labels with more are not classes
_ROWS = 4096  # maximum number of rows read of a batch


class LabelFacts(TypedDict, total=False):
    """Statistics of labels: fields of `LabelEvidence`; empty for labels that are not numeric."""

    lowest: float
    highest: float
    values: tuple[float, ...]
    is_one_hot: bool
    is_binary: bool


def label_values(
    data: tf.data.Dataset | np.ndarray, y: object, validation: tf.data.Dataset, batches: int
) -> dict[str, LabelFacts]:
    """Returns {label's key or position: fields of `LabelEvidence`}; {} if no labels can be read.

    Args:
      data: `fit`'s x: a dataset, or arrays.
      y: `fit`'s labels, or the element spec of a dataset's labels.
      validation: `fit`'s validation_data; if it is a dataset, it is read instead of `data`, as it is not shuffled.
      batches: How many batches of a dataset to read.
    """
    import numpy as np

    found: dict[str, list[np.ndarray]] = {}
    for one in itertools.islice(_label_batches(data, y, validation), batches):
        for key, values in one.items():
            found.setdefault(key, []).append(np.asarray(values)[:_ROWS])
    return {key: facts_of_labels(np.concatenate(arrays)) for key, arrays in found.items()}


def _label_batches(
    data: tf.data.Dataset | np.ndarray, y: object, validation: tf.data.Dataset
) -> Iterator[Mapping[str, object]]:
    source = validation if hasattr(validation, "element_spec") else data
    if not hasattr(source, "element_spec"):
        if hasattr(y, "shape") or isinstance(y, (Mapping, list, tuple)):
            yield {key: as_array(one) for key, one in by_key(y).items()}
        return
    for batch in source:
        if not isinstance(batch, tuple) or len(batch) < 2:
            return
        yield {key: as_array(one) for key, one in by_key(batch[1]).items()}


def by_key(y: object) -> dict[str, object]:
    """Returns the labels of a fit by key for a dict, by position ("0", "1", …) for a tuple or list, or as {"0": y}."""
    if isinstance(y, Mapping):
        return {str(key): one for key, one in y.items()}
    if isinstance(y, (tuple, list)) and any(hasattr(one, "dtype") for one in y):
        return {str(number): one for number, one in enumerate(y)}
    return {"0": y}


def as_array(value: object) -> object:
    """Returns a label as an array, a sparse or ragged one padded with zeros; others unchanged."""
    import tensorflow as tf

    if isinstance(value, tf.SparseTensor):
        value = tf.sparse.to_dense(value)
    if isinstance(value, tf.RaggedTensor):
        value = value.to_tensor()
    return value.numpy() if hasattr(value, "numpy") else value


def facts_of_labels(array: np.ndarray) -> LabelFacts:
    """Returns statistics of labels, an array [examples, …]; {} unless they are numbers."""
    import numpy as np

    if array.dtype.kind not in "biuf" or not array.size:
        return {}
    array = array.astype(np.float64)
    finite = array[np.isfinite(array)]
    if not finite.size:
        return {}
    is_binary = bool(np.isin(finite, (0.0, 1.0)).all())
    rows = array.reshape(len(array), -1)
    is_one_hot = is_binary and rows.shape[1] > 1 and bool((rows.sum(axis=1) == 1).all())
    distinct = np.unique(rows.argmax(axis=1) if is_one_hot else finite)
    values = tuple(map(float, distinct)) if len(distinct) <= _DISTINCT else ()
    return {
        "lowest": float(finite.min()),
        "highest": float(finite.max()),
        "values": values,
        "is_one_hot": is_one_hot,
        "is_binary": is_binary,
    }
