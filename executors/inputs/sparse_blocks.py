"""Columns of any number of values as sparse tensors, many batches at a time; see `parquet_tensors`.

A batch's tensor is that of tfx_bsl and of `tf.io.parse_example`: the values of row i at [i, 0], [i, 1], …, and a shape
of [rows, most values of a row].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf


class SparseBlocks:
    """Makes blocks in Python, and cuts batches out of them in TensorFlow.

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
            "each": (tf.TensorSpec([None, 2 * count, 1], tf.int64), tf.TensorSpec([None, count, 2], tf.int64)),
            "all": {name: (tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([None], types[name])) for name in columns},
        }
        self._single = np.zeros([0, 2], np.int64), 0  # the indices of rows with one value each, and the batch's size

    def block(self, table: pa.Table, size: int) -> dict[str, Any]:
        """Returns the columns of some batches.

        Args:
          table: Their rows; the columns are values or lists.
          size: Rows in a batch, of which the table has a whole number.
        """
        found = {name: self._column(_whole(table.column(column)), size) for name, column in self._columns.items()}
        bounds = [end for ends, _, _, _ in found.values() for end in (ends[:-1], ends[1:])]
        batches = table.num_rows // size
        widths = np.array([width for _, width, _, _ in found.values()], np.int64).reshape(-1, batches)
        shapes = np.stack([np.full_like(widths, size), widths], axis=-1).swapaxes(0, 1)
        return {
            "each": (np.array(bounds, np.int64).reshape(-1, batches).T[:, :, None], shapes),
            "all": {name: (indices, values) for name, (_, _, indices, values) in found.items()},
        }

    def batch(self, each: Any, whole: Mapping[str, Any]) -> dict[str, tf.SparseTensor]:
        """Returns the tensors of one batch: an entry of "each", and "all"."""
        if not self._columns:
            return {}
        bounds, shapes = (tf.unstack(part, axis=0) for part in each)
        tensors = {}
        for place, (name, parts) in enumerate(whole.items()):
            indices, values = (tf.strided_slice(part, *bounds[2 * place : 2 * place + 2]) for part in parts)
            tensors[name] = tf.SparseTensor(indices, values, shapes[place])
        return tensors

    def _column(self, column: pa.Array, size: int) -> tuple[Any, Any, Any, Any]:
        """Returns where the batches' values begin, and the last ones end; their widths; all indices and values."""
        firsts = np.arange(0, len(column) + 1, size)
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            return _of_lists(column, firsts)
        single = self._of_single(len(column), size)
        if not column.null_count:
            return firsts, np.ones(len(firsts) - 1, np.int64), single, _numpy(column)
        rows = np.flatnonzero(np.asarray(column.is_valid()))
        ends = np.searchsorted(rows, firsts)
        return ends, np.minimum(np.diff(ends), 1), single[rows], _numpy(column.drop_null())

    def _of_single(self, rows: int, size: int) -> Any:
        """Returns [row of its batch, 0] for each row."""
        indices, of_size = self._single
        if of_size != size or len(indices) < rows:
            indices = np.zeros([rows, 2], np.int64)
            indices[:, 0] = np.arange(rows) % size
            self._single = indices, size
        return indices[:rows]


def _of_lists(column: pa.Array, firsts: Any) -> tuple[Any, Any, Any, Any]:
    lengths = np.asarray(column.value_lengths().fill_null(0)).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    values = _numpy(column.flatten())
    rows = np.repeat(np.arange(len(lengths)), lengths)
    indices = np.stack([rows % firsts[1], np.arange(len(values)) - np.repeat(starts, lengths)], axis=1)
    return np.append(starts, len(values))[firsts], np.maximum.reduceat(lengths, firsts[:-1]), indices, values


def _numpy(values: pa.Array) -> Any:
    return np.asarray(values)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
