"""Builds sparse tensors from columns with a varying number of values, many batches at a time; see `tensor_blocks`.

The tensor of a batch is the same as in tfx_bsl and `tf.io.parse_example`: the values of row i are at [i, 0], [i, 1], …,
and the dense shape is [rows, most values of a row].
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple, TypedDict

import numpy as np
import tensorflow as tf


class Rows(NamedTuple):
    """Consecutive rows of a tensor.

    Attributes:
      values: For a dense tensor, an array of shape [rows, …]; else the concatenated values of all rows.
      lengths: Number of values of each row; None if each row has one value, and for dense tensors.
    """

    values: np.ndarray
    lengths: np.ndarray | None = None


class BlockPart(TypedDict):
    """Arrays or tensors of a block: "each" has one entry per batch, "all" holds the values of all batches together."""

    each: np.ndarray | tf.Tensor | tuple[np.ndarray | tf.Tensor, ...]
    all: tuple[np.ndarray | tf.Tensor | dict[str, np.ndarray | tf.Tensor], ...]


class SparseBlocks:
    """Builds blocks of batches in NumPy, and slices single batches out of them in TensorFlow.

    The indices of all columns are in one tensor. It starts with the indices of a batch with one value in each row,
    which most batches of most columns share.

    Attributes:
      spec: Type specs of a `BlockPart`.
    """

    def __init__(self, specs: Mapping[str, tf.SparseTensorSpec]) -> None:
        """Initializes from {tensor name: type spec of its batches}."""
        self._specs = dict(specs)
        count = len(specs)
        self.spec = {
            # Columns are stacked into few tensors, because each tensor of a dataset element costs time per batch.
            "each": (tf.TensorSpec([None, 4 * count, 1], tf.int64), tf.TensorSpec([None, count, 2], tf.int64)),
            "all": (
                tf.TensorSpec([None, 2], tf.int64),
                {name: tf.TensorSpec([None], spec.dtype) for name, spec in specs.items()},
            ),
        }

    def block(self, columns: Mapping[str, Rows], size: int) -> BlockPart:
        """Builds a block of batches.

        Args:
          columns: {tensor: rows of all batches}.
          size: Number of rows in a batch, which divides the number of rows.
        """
        indices = [_indices(np.arange(size), 0)]
        values, bounds, shapes, taken = {}, [], [], size
        for name in self._specs:
            found = _make_column(columns[name], size)
            # Batches that do not use the shared indices have theirs after those of the previous columns.
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
        """Slices the tensors of one batch out of a block.

        Args:
          each: The batch's entry of "each".
          whole: The block's "all".
        """
        bounds, shapes = (tf.unstack(part, axis=0) for part in each)
        indices, values = whole
        tensors = {}
        for place, (name, spec) in enumerate(self._specs.items()):
            start, end, first, last = bounds[4 * place : 4 * place + 4]
            shape = shapes[place]
            if spec.shape[0] is not None:  # a constant here gives a static shape
                shape = tf.stack([spec.shape[0], shape[1]])
            tensors[name] = tf.SparseTensor(
                tf.strided_slice(indices, start, end), tf.strided_slice(values[name], first, last), shape
            )
        return tensors


def _positions(lengths: np.ndarray) -> np.ndarray:
    """Returns the position of each value in its row, 0, 1, …, from the row lengths: [2, 0, 3] gives [0, 1, 0, 1, 2]."""
    ends = np.cumsum(lengths)
    places: np.ndarray = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    return places


@dataclasses.dataclass(frozen=True)
class _Column:
    """A column of a block.

    Attributes:
      values: Concatenated values of all batches.
      bounds: Offset of each batch's first value, followed by the number of values.
      widths: Maximum number of values in a row, for each batch.
      is_plain: For each batch, whether each of its rows has exactly one value.
      indices: Indices of the values in all batches that are not plain.
    """

    values: np.ndarray
    bounds: np.ndarray
    widths: np.ndarray
    is_plain: np.ndarray
    indices: np.ndarray


def _make_column(rows: Rows, size: int) -> _Column:
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
    # Shortcut for rows of at most one value: all positions are 0, and finding the rows takes a third of the time.
    few = widths.max() <= 1
    numbers = np.flatnonzero(lengths) if few else np.repeat(np.arange(lengths.size), lengths.ravel())
    indices = _indices(numbers % size, 0 if few else _positions(lengths.ravel()))
    return _Column(values, bounds, widths, plain, indices)


def _indices(rows: np.ndarray | list[int], places: np.ndarray | int) -> np.ndarray:
    indices: np.ndarray = np.empty([len(rows), 2], np.int64)
    indices[:, 0], indices[:, 1] = rows, places
    return indices
