"""Batches of tensors, which Python makes many at a time, and TensorFlow cuts apart.

A step of a Python generator costs as much as hundreds of rows in TensorFlow. So it gives a block of batches: the
values of all of them, and where each begins. Dense tensors of a batch are a view of the block then; sparse and ragged
ones take two ops each.

Usage:

    blocks = TensorBlocks({"fare": tf.TensorSpec([None, 1]), "tips": tf.SparseTensorSpec([None, None])})
    rows = {"fare": Rows(np.zeros([4, 1], np.float32)), "tips": Rows(np.ones(3, np.float32), np.array([0, 1, 0, 2]))}
    dataset = blocks.dataset(lambda: [blocks.block(rows, size=2)])    # of two batches
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypedDict, TypeVar

import numpy as np
import tensorflow as tf

from .sparse_blocks import BlockPart, Rows, SparseBlocks

if TYPE_CHECKING:
    from tfx_bsl.types.common_types import TensorType

Function = TypeVar("Function", bound=Callable[..., object])

_CUT_AT_ONCE = 2  # batches of a block; it takes half the time that Python takes for them


class Block(TypedDict):
    """Some batches: of each dense or ragged tensor, and of all sparse ones."""

    others: dict[str, BlockPart]
    sparse: BlockPart


class TensorBlocks:
    """Makes blocks of batches, and batches of blocks.

    Args:
      specs: {tensor: the type spec of its batches}: dense, sparse of rank 2, or ragged with one partition.
    """

    def __init__(self, specs: Mapping[str, tf.TypeSpec]) -> None:
        self._specs = dict(specs)
        sparse = {name: spec for name, spec in specs.items() if isinstance(spec, tf.SparseTensorSpec)}
        self._sparse = SparseBlocks(sparse) if sparse else None
        self._others = {name: spec for name, spec in specs.items() if name not in sparse}

    def block(self, tensors: Mapping[str, Rows], size: int) -> Block:
        """Returns a block.

        Args:
          tensors: The rows of its batches.
          size: Rows in a batch, of which there is a whole number.
        """
        block = {name: _block(tensors[name], spec, size) for name, spec in self._others.items()}
        return {"others": block, "sparse": self._sparse.block(tensors, size) if self._sparse else _NOTHING}

    def dataset(self, make_blocks: Callable[[], Iterable[Block]], label_key: str | None = None) -> tf.data.Dataset:
        """Returns the batches of the blocks.

        Args:
          make_blocks: Called at each run through the dataset.
          label_key: The tensor that becomes the label; None for features alone.
        """
        signature = {
            "others": {name: _block_spec(spec) for name, spec in self._others.items()},
            "sparse": self._sparse.spec if self._sparse else _NOTHING,
        }
        blocks = tf.data.Dataset.from_generator(make_blocks, output_signature=signature)
        return blocks.prefetch(1).flat_map(as_it_is(lambda block: self._batches(block, label_key)))

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

        # What belongs to all batches is caught by the function. As part of the elements it would be measured anew
        # for each batch, and of strings tf.data measures every single one.
        return tf.data.Dataset.from_tensor_slices((each, sparse["each"])).map(as_it_is(batch), _CUT_AT_ONCE)


def in_order(
    tensors: Mapping[str, TensorType], names: Iterable[str], label_key: str | None
) -> dict[str, TensorType] | tuple[dict[str, TensorType], TensorType]:
    """Returns a batch with its tensors in an order, and the label beside them unless there is none."""
    ordered = {name: tensors[name] for name in names}
    return ordered if label_key is None else (ordered, ordered.pop(label_key))


def as_it_is(function: Function) -> Function:
    """Returns a function that AutoGraph leaves alone: it takes its time to find nothing to convert."""
    unconverted: Function = tf.autograph.experimental.do_not_convert(function)
    return unconverted


_NOTHING: BlockPart = {"each": (), "all": ()}


def _block_spec(spec: tf.TypeSpec) -> dict[str, tf.TensorSpec | tuple[tf.TensorSpec, ...]]:
    """Returns the specs of a block: "all" is of all its batches together, "each" has one entry a batch."""
    if isinstance(spec, tf.RaggedTensorSpec):
        rows = spec.shape[0]
        end = tf.TensorSpec([None, 1], tf.int64)
        splits = tf.TensorSpec([None, None if rows is None else rows + 1], spec.row_splits_dtype)
        return {"each": (end, end, splits), "all": (tf.TensorSpec([None], spec.dtype),)}
    return {"each": tf.TensorSpec([None, *spec.shape], spec.dtype), "all": ()}


def _block(rows: Rows, spec: tf.TypeSpec, size: int) -> BlockPart:
    values, lengths = rows
    if not isinstance(spec, tf.RaggedTensorSpec):
        return {"each": values.reshape(len(values) // size, size, *values.shape[1:]), "all": ()}
    if lengths is None:
        lengths = np.ones(len(values), np.int64)
    ends = np.cumsum(lengths.reshape(-1, size), axis=1)  # in its own batch
    splits = np.pad(ends, [(0, 0), (1, 0)]).astype(spec.row_splits_dtype.as_numpy_dtype)
    lasts = np.cumsum(ends[:, -1:], axis=0)
    return {"each": (lasts - ends[:, -1:], lasts, splits), "all": (values,)}


def _ragged_batch(each: tuple[tf.Tensor, ...], whole: tuple[tf.Tensor, ...]) -> tf.RaggedTensor:
    (start, end, splits), (values,) = each, whole
    return tf.RaggedTensor.from_row_splits(tf.strided_slice(values, start, end), splits, validate=False)
