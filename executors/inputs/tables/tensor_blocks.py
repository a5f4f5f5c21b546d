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
from typing import TYPE_CHECKING, TypedDict, TypeVar

import numpy as np
import tensorflow as tf

from ... import run_context
from .sparse_blocks import BlockPart, Rows, SparseBlocks

if TYPE_CHECKING:
    from tfx_bsl.types.common_types import TensorType

Function = TypeVar("Function", bound=Callable[..., object])

_BATCHES_PER_CALL = 2  # batches to slice in parallel; slicing takes half the time that Python takes to build them


class Block(TypedDict):
    """A block of batches: one part for each dense or ragged tensor, and one for all sparse tensors."""

    others: dict[str, BlockPart]
    sparse: BlockPart


class TensorBlocks:
    """Builds blocks of batches, and datasets of batches from blocks.

    Args:
      specs: {tensor: type spec of its batches}: dense, sparse of rank 2, or ragged with one partition.
    """

    def __init__(self, specs: Mapping[str, tf.TypeSpec]) -> None:
        self._specs = dict(specs)
        sparse = {name: spec for name, spec in specs.items() if isinstance(spec, tf.SparseTensorSpec)}
        self._sparse = SparseBlocks(sparse) if sparse else None
        self._others = {name: spec for name, spec in specs.items() if name not in sparse}

    def block(self, tensors: Mapping[str, Rows], size: int) -> Block:
        """Builds a block of batches.

        Args:
          tensors: {tensor: rows of all batches}.
          size: Number of rows in a batch, which divides the number of rows.
        """
        block = {name: _block(tensors[name], spec, size) for name, spec in self._others.items()}
        return {"others": block, "sparse": self._sparse.block(tensors, size) if self._sparse else _NOTHING}

    def dataset(self, make_blocks: Callable[[], Iterable[Block]], label_key: str | None = None) -> tf.data.Dataset:
        """Returns a dataset of single batches.

        Args:
          make_blocks: Called for each iteration over the dataset; returns an iterable of blocks.
          label_key: Name of the tensor to use as the label; None for a dataset without labels.
        """
        signature = {
            "others": {name: _block_spec(spec) for name, spec in self._others.items()},
            "sparse": self._sparse.spec if self._sparse else _NOTHING,
        }
        blocks = tf.data.Dataset.from_generator(run_context.bound(make_blocks), output_signature=signature)
        return blocks.prefetch(1).flat_map(without_autograph(lambda block: self._batches(block, label_key)))

    def _batches(self, block: Block, label_key: str | None) -> tf.data.Dataset:
        others, sparse = block["others"], block["sparse"]
        each = {name: tensors["each"] for name, tensors in others.items()}
        if not any(tensors["all"] for tensors in others.values()) and not self._sparse:
            return tf.data.Dataset.from_tensor_slices(in_order(each, self._specs, label_key))

        def batch(
            each: Mapping[str, tf.Tensor | tuple[tf.Tensor, ...]], each_sparse: tuple[tf.Tensor, tf.Tensor]
        ) -> dict[str, TensorType] | tuple[dict[str, TensorType], TensorType]:
            cut = {
                name: _ragged_batch(each[name], tensors["all"]) if tensors["all"] else each[name]
                for name, tensors in others.items()
            }
            cut.update(self._sparse.batch(each_sparse, sparse["all"]) if self._sparse else {})
            return in_order(cut, self._specs, label_key)

        # The function captures the tensors of the whole block. As parts of the elements, tf.data would compute their
        # size in bytes for each batch, which for strings takes every single string.
        return tf.data.Dataset.from_tensor_slices((each, sparse["each"])).map(
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


_NOTHING: BlockPart = {"each": (), "all": ()}


def _block_spec(spec: tf.TypeSpec) -> dict[str, tf.TensorSpec | tuple[tf.TensorSpec, ...]]:
    """Returns the type specs of a tensor's `BlockPart`."""
    if isinstance(spec, tf.RaggedTensorSpec):
        rows = spec.shape[0]
        end = tf.TensorSpec([None, 1], tf.int64)
        splits = tf.TensorSpec([None, None if rows is None else rows + 1], spec.row_splits_dtype)
        return {"each": (end, end, splits), "all": (tf.TensorSpec([None], spec.dtype),)}
    return {"each": tf.TensorSpec([None, *spec.shape], spec.dtype), "all": ()}


def _block(rows: Rows, spec: tf.TypeSpec, size: int) -> BlockPart:
    values, lengths = rows
    if lengths is None:  # a dense tensor
        return {"each": values.reshape(len(values) // size, size, *values.shape[1:]), "all": ()}
    ends = np.cumsum(lengths.reshape(-1, size), axis=1)  # relative to the start of the batch
    splits = np.pad(ends, [(0, 0), (1, 0)]).astype(spec.row_splits_dtype.as_numpy_dtype)
    lasts = np.cumsum(ends[:, -1:], axis=0)
    return {"each": (lasts - ends[:, -1:], lasts, splits), "all": (values,)}


def _ragged_batch(each: tuple[tf.Tensor, ...], whole: tuple[tf.Tensor, ...]) -> tf.RaggedTensor:
    (start, end, splits), (values,) = each, whole
    return tf.RaggedTensor.from_row_splits(tf.strided_slice(values, start, end), splits, validate=False)
