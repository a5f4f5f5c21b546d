"""Columns of any number of values as sparse tensors, many batches at a time; see `parquet_tensors`.

A batch's tensor is that of tfx_bsl and of `tf.io.parse_example`: the values of row i at [i, 0], [i, 1], …, and a shape
of [rows, most values of a row].
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf


class SparseBlocks:
    """Makes blocks in Python, and cuts batches out of them in TensorFlow.

    The indices of all columns are in one tensor. It begins with those of a batch that has one value in each row, for
    most batches of most columns are such.

    Attributes:
      spec: The type specs of a block: "all" is of all its batches together, "each" has one entry a batch.
    """

    def __init__(self, columns: Mapping[str, str], types: Mapping[str, tf.DType]) -> None:
        """Takes the columns.

        Args:
          columns: {tensor: its column}.
          types: {tensor: the type of its values}.
        """
        self._columns = dict(columns)
        count = len(columns)
        self.spec = {
            # Few tensors of many columns: each one that an element has costs time for every batch.
            "each": (tf.TensorSpec([None, 4 * count, 1], tf.int64), tf.TensorSpec([None, count, 2], tf.int64)),
            "all": (
                tf.TensorSpec([None, 2], tf.int64),
                {name: tf.TensorSpec([None], types[name]) for name in columns},
            ),
        }

    def block(self, table: pa.Table, size: int) -> dict[str, Any]:
        """Returns the columns of some batches.

        Args:
          table: Their rows; the columns are values or lists.
          size: Rows in a batch, of which the table has a whole number.
        """
        indices = [_indices(np.arange(size), 0)]
        values, bounds, widths, taken = {}, [], [], size
        for name, column in self._columns.items():
            found = _of_column(table.column(column).combine_chunks(), size)
            # Batches with indices of their own have them behind those of the columns before.
            lengths = np.where(found.is_plain, 0, np.diff(found.bounds))
            ends = taken + np.cumsum(lengths)
            starts = np.where(found.is_plain, 0, ends - lengths)
            bounds += [starts, np.where(found.is_plain, size, ends), found.bounds[:-1], found.bounds[1:]]
            values[name] = found.values
            widths.append(found.widths)
            indices.append(found.indices)
            taken += len(found.indices)
        batches = table.num_rows // size
        shapes: Any = np.full([batches, len(widths), 2], size, np.int64)
        shapes[:, :, 1] = np.array(widths, np.int64).reshape(-1, batches).T
        each = np.array(bounds, np.int64).reshape(-1, batches).T[:, :, None], shapes
        return {"each": each, "all": (np.concatenate(indices), values)}

    def batch(self, each: Any, whole: Any) -> dict[str, tf.SparseTensor]:
        """Returns the tensors of one batch: an entry of "each", and "all"."""
        if not self._columns:
            return {}
        bounds, shapes = (tf.unstack(part, axis=0) for part in each)
        indices, values = whole
        tensors = {}
        for place, name in enumerate(self._columns):
            start, end, first, last = bounds[4 * place : 4 * place + 4]
            tensors[name] = tf.SparseTensor(
                tf.strided_slice(indices, start, end), tf.strided_slice(values[name], first, last), shapes[place]
            )
        return tensors


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

    values: Any
    bounds: Any
    widths: Any
    is_plain: Any
    indices: Any


def _of_column(column: pa.Array, size: int) -> _Column:
    firsts = np.arange(0, len(column) + 1, size)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return _of_lists(column, firsts)
    if not column.null_count:
        plain: Any = np.ones(len(firsts) - 1, bool)
        return _Column(np.asarray(column), firsts, plain.astype(np.int64), plain, _indices([], 0))
    rows = np.flatnonzero(np.asarray(column.is_valid()))
    bounds = np.searchsorted(rows, firsts)
    lengths = np.diff(bounds)
    plain = lengths == size
    others: Any = rows[np.repeat(~plain, lengths)] % size
    return _Column(np.asarray(column.drop_null()), bounds, np.minimum(lengths, 1), plain, _indices(others, 0))


def _of_lists(column: pa.Array, firsts: Any) -> _Column:
    lengths = np.asarray(column.value_lengths().fill_null(0)).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    values = np.asarray(column.flatten())
    rows: Any = np.repeat(np.arange(len(lengths)), lengths)
    indices = _indices(rows % firsts[1], np.arange(len(values)) - np.repeat(starts, lengths))
    bounds = np.append(starts, len(values))[firsts]
    return _Column(values, bounds, np.maximum.reduceat(lengths, firsts[:-1]), np.zeros(len(firsts) - 1, bool), indices)


def _indices(rows: Any, places: Any) -> Any:
    indices: Any = np.empty([len(rows), 2], np.int64)
    indices[:, 0], indices[:, 1] = rows, places
    return indices
