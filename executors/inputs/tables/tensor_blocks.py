"""Transfers batches of tensors from Python to tf.data in blocks of many batches, which TensorFlow splits.

One step of a Python generator costs as much as hundreds of rows in TensorFlow. The generator therefore yields blocks
with the values of many batches and the offset of each batch. A batch's dense tensors are then slices of the block;
sparse and ragged ones take two ops each.

Usage:

    blocks = TensorBlocks({"fare": tf.TensorSpec([None, 1]), "tips": tf.SparseTensorSpec([None, None])})
    rows = {"fare": Rows(np.zeros([4, 1], np.float32)), "tips": Rows(np.ones(3, np.float32), np.array([0, 1, 0, 2]))}
    dataset = blocks.dataset(lambda: [blocks.block(rows, size=2)])    # two batches
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf

from ... import run_context

if TYPE_CHECKING:
    from tfx_bsl.types.common_types import TensorType

Function = TypeVar("Function", bound=Callable[..., object])
Array: TypeAlias = "np.ndarray | tf.Tensor"

_BATCHES_PER_CALL = 2  # batches to slice in parallel; slicing takes half the time that Python takes to build them


class Rows(NamedTuple):
    """Consecutive rows of a tensor.

    Attributes:
      values: For a dense tensor, an array of shape [rows, …]; else the concatenated values of all rows.
      lengths: Number of values of each row; None if each row has one value, and for dense tensors.
    """

    values: np.ndarray
    lengths: np.ndarray | None = None


class Block(NamedTuple):
    """A block of batches.

    Attributes:
      dense: {dense tensor: its batches, [batches, rows, …]}.
      bounds: Offsets of each batch's values in `values`, [batches, 2 * tensors, 1]: the first value of each sparse or
        ragged tensor, and then the end of each. These tensors are stacked, because each tensor of a dataset element
        costs time per batch.
      splits: Offsets of each row's values in the batch, [batches, tensors, rows + 1].
      values: {sparse or ragged tensor: the concatenated values of all batches}.
    """

    dense: dict[str, Array]
    bounds: Array
    splits: Array
    values: dict[str, Array]


class TensorBlocks:
    """Builds blocks of batches, and datasets of batches from blocks.

    Args:
      specs: {tensor: type spec of its batches}: dense, sparse of rank 2, or ragged with one partition.
    """

    def __init__(self, specs: Mapping[str, tf.TypeSpec]) -> None:
        self._specs = dict(specs)
        self._dense = {name: spec for name, spec in specs.items() if isinstance(spec, tf.TensorSpec)}
        self._others = {name: spec for name, spec in specs.items() if name not in self._dense}

    def block(self, tensors: Mapping[str, Rows], size: int) -> Block:
        """Builds a block of batches.

        Args:
          tensors: {tensor: rows of all batches}.
          size: Number of rows in a batch, which divides the number of rows.
        """
        dense = {name: tensors[name].values for name in self._dense}
        batches = {name: values.reshape(-1, size, *values.shape[1:]) for name, values in dense.items()}
        if not self._others:
            return Block(batches, np.zeros([0, 0, 1], np.int64), np.zeros([0, 0, 1], np.int64), {})
        splits = np.stack([_splits(tensors[name], size) for name in self._others], axis=1)
        counts = splits[:, :, -1:]
        ends = np.cumsum(counts, axis=0)
        bounds = np.concatenate([ends - counts, ends], axis=1)
        return Block(batches, bounds, splits, {name: tensors[name].values for name in self._others})

    def dataset(self, make_blocks: Callable[[], Iterable[Block]], label_key: str | None = None) -> tf.data.Dataset:
        """Returns a dataset of single batches.

        Args:
          make_blocks: Called for each iteration over the dataset; returns an iterable of blocks.
          label_key: Name of the tensor to use as the label; None for a dataset without labels.
        """
        count = len(self._others)
        signature = Block(
            {name: tf.TensorSpec([None, *spec.shape], spec.dtype) for name, spec in self._dense.items()},
            tf.TensorSpec([None, 2 * count, 1], tf.int64),
            tf.TensorSpec([None, count, None], tf.int64),
            {name: tf.TensorSpec([None], spec.dtype) for name, spec in self._others.items()},
        )
        blocks = tf.data.Dataset.from_generator(run_context.bound(make_blocks), output_signature=signature)
        return blocks.prefetch(1).flat_map(without_autograph(lambda block: self._batches(block, label_key)))

    def _batches(self, block: Block, label_key: str | None) -> tf.data.Dataset:
        if not self._others:
            return tf.data.Dataset.from_tensor_slices(in_order(block.dense, self._specs, label_key))

        def batch(
            dense: Mapping[str, tf.Tensor], bounds: tf.Tensor, splits: tf.Tensor
        ) -> dict[str, TensorType] | tuple[dict[str, TensorType], TensorType]:
            offsets = tf.unstack(bounds)
            starts, ends = offsets[: len(self._others)], offsets[len(self._others) :]
            others = {
                name: _tensor(tf.strided_slice(block.values[name], start, end), of_rows, spec)
                for (name, spec), start, end, of_rows in zip(
                    self._others.items(), starts, ends, tf.unstack(splits), strict=True
                )
            }
            return in_order({**dense, **others}, self._specs, label_key)

        # The function captures the values of the whole block. As parts of the elements, tf.data would compute their
        # size in bytes for each batch, which for strings takes every single string.
        return tf.data.Dataset.from_tensor_slices((block.dense, block.bounds, block.splits)).map(
            without_autograph(batch), _BATCHES_PER_CALL
        )


def in_order(
    tensors: Mapping[str, TensorType], names: Iterable[str], label_key: str | None
) -> dict[str, TensorType] | tuple[dict[str, TensorType], TensorType]:
    """Returns a batch as a dict in the order of `names`, or as a (dict, label) pair if `label_key` is given."""
    ordered = {name: tensors[name] for name in names}
    return ordered if label_key is None else (ordered, ordered.pop(label_key))


def without_autograph(function: Function) -> Function:
    """Excludes a function from AutoGraph, which would spend time to find nothing to convert."""
    unconverted: Function = tf.autograph.experimental.do_not_convert(function)
    return unconverted


def _splits(rows: Rows, size: int) -> np.ndarray:
    """Returns the offsets of each row's values in its batch, [batches, size + 1]."""
    lengths = np.ones(len(rows.values), np.int64) if rows.lengths is None else rows.lengths
    splits: np.ndarray = np.pad(np.cumsum(lengths.reshape(-1, size), axis=1), [(0, 0), (1, 0)])
    return splits


def _tensor(values: tf.Tensor, splits: tf.Tensor, spec: tf.TypeSpec) -> tf.RaggedTensor | tf.SparseTensor:
    """Returns a batch of a tensor; a sparse one as tfx_bsl and `tf.io.parse_example` return it."""
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensor.from_row_splits(values, tf.cast(splits, spec.row_splits_dtype), validate=False)
    return tf.SparseTensor(*tf.raw_ops.RaggedTensorToSparse(rt_nested_splits=[splits], rt_dense_values=values))
