"""Columns of any number of values as sparse tensors, many batches at a time; see `tensor_blocks`.

A batch's tensor is that of tfx_bsl and of `tf.io.parse_example`: the values of row i at [i, 0], [i, 1], …, and a shape
of [rows, most values of a row].
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple, TypedDict

import numpy as np
import tensorflow as tf


class Rows(NamedTuple):
    """Some rows of a tensor.

    Attributes:
      values: Of a dense tensor, of shape [rows, …]; of another one those of all rows, one after another.
      lengths: How many values each row has; None if it is one each, and for dense tensors.
    """

    values: np.ndarray
    lengths: np.ndarray | None = None


class BlockPart(TypedDict):
    """Arrays of a block, or its tensors: "each" has one entry a batch, "all" is of all its batches together."""

    each: np.ndarray | tf.Tensor | tuple[np.ndarray | tf.Tensor, ...]
    all: tuple[np.ndarray | tf.Tensor | dict[str, np.ndarray | tf.Tensor], ...]


class SparseBlocks:
    """Makes blocks in Python, and cuts batches out of them in TensorFlow.

    The indices of all columns are in one tensor. It begins with those of a batch that has one value in each row, for
    most batches of most columns are such.

    Attributes:
      spec: The type specs of a block: "all" is of all its batches together, "each" has one entry a batch.
    """

    def __init__(self, specs: Mapping[str, tf.SparseTensorSpec]) -> None:
        """Takes {tensor: the type spec of its batches}."""
        self._specs = dict(specs)
        count = len(specs)
        self.spec = {
            # Few tensors of many columns: each one that an element has costs time for every batch.
            "each": (tf.TensorSpec([None, 4 * count, 1], tf.int64), tf.TensorSpec([None, count, 2], tf.int64)),
            "all": (
                tf.TensorSpec([None, 2], tf.int64),
                {name: tf.TensorSpec([None], spec.dtype) for name, spec in specs.items()},
            ),
        }

    def block(self, columns: Mapping[str, Rows], size: int) -> BlockPart:
        """Returns the tensors of some batches.

        Args:
          columns: Their rows.
          size: Rows in a batch, of which there is a whole number.
        """
        indices = [_indices(np.arange(size), 0)]
        values, bounds, shapes, taken = {}, [], [], size
        for name in self._specs:
            found = _of_rows(columns[name], size)
            # Batches with indices of their own have them behind those of the columns before.
            lengths = np.where(found.is_plain, 0, np.diff(found.bounds))
            ends = taken + np.cumsum(lengths)
            starts = np.where(found.is_plain, 0, ends - lengths)
            bounds += [starts, np.where(found.is_plain, size, ends), found.bounds[:-1], found.bounds[1:]]
            values[name] = found.values
            shapes.append(_indices(np.full(len(found.widths), size), found.widths))
            indices.append(found.indices)
            taken += len(found.indices)
        each = np.stack(bounds, axis=1)[:, :, None], np.stack(shapes, axis=1)
        return {"each": each, "all": (np.concatenate(indices), values)}

    def batch(
        self, each: tuple[tf.Tensor, tf.Tensor], whole: tuple[tf.Tensor | dict[str, tf.Tensor], ...]
    ) -> dict[str, tf.SparseTensor]:
        """Returns the tensors of one batch: an entry of "each", and "all"."""
        bounds, shapes = (tf.unstack(part, axis=0) for part in each)
        indices, values = whole
        tensors = {}
        for place, (name, spec) in enumerate(self._specs.items()):
            start, end, first, last = bounds[4 * place : 4 * place + 4]
            shape = shapes[place]
            if spec.shape[0] is not None:  # TensorFlow knows it where it is a constant
                shape = tf.stack([spec.shape[0], shape[1]])
            tensors[name] = tf.SparseTensor(
                tf.strided_slice(indices, start, end), tf.strided_slice(values[name], first, last), shape
            )
        return tensors


def positions(lengths: np.ndarray) -> np.ndarray:
    """Returns 0, 1, … for each row's values: [2, 0, 3] gives [0, 1, 0, 1, 2]."""
    ends = np.cumsum(lengths)
    places: np.ndarray = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    return places


@dataclasses.dataclass(frozen=True)
class _Column:
    """A column of some batches.

    Attributes:
      values: Of all batches.
      bounds: Where each batch's values begin, and the last one's end.
      widths: The most values that a row has, batch by batch.
      is_plain: Whether each row of a batch has one value.
      indices: Of the values in all other batches.
    """

    values: np.ndarray
    bounds: np.ndarray
    widths: np.ndarray
    is_plain: np.ndarray
    indices: np.ndarray


def _of_rows(rows: Rows, size: int) -> _Column:
    values, lengths = rows
    if lengths is None:
        bounds = np.arange(0, len(values) + 1, size)
        plain: np.ndarray = np.ones(len(bounds) - 1, bool)
        return _Column(values, bounds, plain.astype(np.int64), plain, _indices([], 0))
    firsts = np.arange(0, len(lengths), size)
    bounds = np.append(0, np.cumsum(np.add.reduceat(lengths, firsts)))
    widths = np.maximum.reduceat(lengths, firsts)
    plain = (widths == 1) & (np.diff(bounds) == size)
    lengths = np.where(plain[:, None], 0, lengths.reshape(-1, size))
    # Of one value at most, the places are all 0, and which rows have one is found in a third of the time.
    few = widths.max() <= 1
    numbers = np.flatnonzero(lengths) if few else np.repeat(np.arange(lengths.size), lengths.ravel())
    indices = _indices(numbers % size, 0 if few else positions(lengths.ravel()))
    return _Column(values, bounds, widths, plain, indices)


def _indices(rows: np.ndarray | list[int], places: np.ndarray | int) -> np.ndarray:
    indices: np.ndarray = np.empty([len(rows), 2], np.int64)
    indices[:, 0], indices[:, 1] = rows, places
    return indices
