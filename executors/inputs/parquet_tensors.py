"""Rows of Parquet as batches of tensors: Python makes many batches at a time, and TensorFlow cuts them apart.

A step of a Python generator costs as much as hundreds of rows in TensorFlow. So it gives a block of batches: the
values of all of them, and where each begins. Dense tensors of a batch are a view of the block then; sparse and ragged
ones take two ops each.

Usage:

    tensors = BatchTensors(schema)
    dataset = tensors.dataset(lambda: batched_rows(paths, options, tensors.arrow_schema), batch_size, label_key=None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.tfxio import tensor_adapter, tensor_representation_util

from .parquet_rows import as_lists
from .sparse_blocks import SparseBlocks

_ARROW_TYPES = {
    schema_pb2.INT: pa.large_list(pa.int64()),
    schema_pb2.FLOAT: pa.large_list(pa.float32()),
    schema_pb2.BYTES: pa.large_list(pa.large_binary()),
}
_CUT_AT_ONCE = 2  # batches of a block; it takes half the time that Python takes for them


class BatchTensors:
    """What a schema makes of rows, as tfx_bsl's tensor adapter has it.

    Attributes:
      arrow_schema: The columns as lists, one a feature.
      specs: {tensor: its type spec}.
    """

    def __init__(self, schema: schema_pb2.Schema) -> None:
        """Takes a schema.

        Raises:
          ValueError: When a feature's type is none of a tf.Example.
        """
        self.arrow_schema = arrow_schema(schema)
        representations = tensor_representation_util.InferTensorRepresentationsFromMixedSchema(schema)
        self._adapter = _adapter(self.arrow_schema, representations)
        self.specs: dict[str, Any] = self._adapter.TypeSpecs()
        self._is_cut = all(map(_can_be_cut, representations.values()))
        if self._is_cut:
            sparse = {
                name: representation.varlen_sparse_tensor.column_name
                for name, representation in representations.items()
                if representation.WhichOneof("kind") == "varlen_sparse_tensor"
            }
            self._sparse = SparseBlocks(sparse, {name: self.specs[name].dtype for name in sparse})
            self._others = [name for name in representations if name not in sparse]
            columns = {column for name in self._others for column in _columns_of(representations[name])}
            self._columns = pa.schema([field for field in self.arrow_schema if field.name in columns])
            self._adapter = _adapter(self._columns, {name: representations[name] for name in self._others})

    def dataset(
        self, make_tables: Callable[[], Iterator[pa.Table]], batch_size: int, label_key: str | None
    ) -> tf.data.Dataset:
        """Returns the batches of the tables of `batched_rows`.

        Args:
          make_tables: Called at each run through the dataset.
          batch_size: Rows in a batch.
          label_key: The tensor that becomes the label; None for features alone.
        """

        def element(tensors: dict[str, Any]) -> Any:
            ordered = {name: tensors[name] for name in self.specs}
            return ordered if label_key is None else (ordered, ordered.pop(label_key))

        if self._is_cut:
            signature = {"sparse": self._sparse.spec, **{name: _block_spec(self.specs[name]) for name in self._others}}
            blocks = tf.data.Dataset.from_generator(
                lambda: self._blocks(make_tables(), batch_size), output_signature=signature
            )
            return self._cut(blocks.prefetch(1), element)
        batches = tf.data.Dataset.from_generator(
            lambda: self._batches(make_tables(), batch_size), output_signature=self.specs
        )
        return batches.map(_as_it_is(element))

    def _cut(self, blocks: tf.data.Dataset, element: Callable[[dict[str, Any]], Any]) -> tf.data.Dataset:
        """Returns the batches of the blocks."""
        is_dense = all(isinstance(spec, tf.TensorSpec) for spec in self.specs.values())

        def batches(block: dict[str, Any]) -> tf.data.Dataset:
            each = {name: tensors["each"] for name, tensors in block.items()}
            if is_dense:
                return tf.data.Dataset.from_tensor_slices(element(each))

            def batch(each: dict[str, Any]) -> Any:
                cut = {
                    name: _ragged_batch(each[name], block[name]["all"]) if block[name]["all"] else each[name]
                    for name in self._others
                }
                return element({**cut, **self._sparse.batch(each["sparse"], block["sparse"]["all"])})

            # What belongs to all batches is caught by the function. As part of the elements it would be measured anew
            # for each batch, and of strings tf.data measures every single one.
            return tf.data.Dataset.from_tensor_slices(each).map(_as_it_is(batch), _CUT_AT_ONCE)

        return blocks.flat_map(_as_it_is(batches))

    def _blocks(self, tables: Iterator[pa.Table], batch_size: int) -> Iterator[dict[str, Any]]:
        for table in tables:
            size = min(batch_size, table.num_rows)  # the last batch of all may be smaller
            try:
                yield self._block(table, size)
            except ValueError:
                # Something is wrong with one of the batches; those before it are good.
                for start in range(0, table.num_rows, size):
                    yield self._block(table.slice(start, size), size)

    def _block(self, table: pa.Table, size: int) -> dict[str, Any]:
        others = {}
        if self._others:
            rows = as_lists(table.select(self._columns.names), self._columns)
            for name, tensor in self._adapter.ToBatchTensors(rows, produce_eager_tensors=False).items():
                is_ragged = isinstance(self.specs[name], tf.RaggedTensorSpec)
                others[name] = _ragged_block(tensor, size) if is_ragged else _dense_block(tensor, size)
        return {"sparse": self._sparse.block(table, size), **others}

    def _batches(self, tables: Iterator[pa.Table], batch_size: int) -> Iterator[dict[str, Any]]:
        """Yields batches one by one: of tensors that are made of several columns, or have more than one partition."""
        for table in tables:
            for start in range(0, table.num_rows, batch_size):
                batch = as_lists(table.slice(start, batch_size), self.arrow_schema)
                yield self._adapter.ToBatchTensors(batch, produce_eager_tensors=True)


def arrow_schema(schema: schema_pb2.Schema) -> pa.Schema:
    """Returns the columns that a schema's features have in Arrow, as tfx_bsl's Parquet reader has them.

    Raises:
      ValueError: When a feature's type is none of a tf.Example.
    """
    for feature in schema.feature:
        if feature.type not in _ARROW_TYPES:
            kind = schema_pb2.FeatureType.Name(feature.type)
            raise ValueError(f"feature {feature.name!r} has the type {kind}; INT, FLOAT and BYTES can be read.")
    return pa.schema([(feature.name, _ARROW_TYPES[feature.type]) for feature in schema.feature])


def _adapter(columns: pa.Schema, representations: dict[str, Any]) -> tensor_adapter.TensorAdapter:
    return tensor_adapter.TensorAdapter(tensor_adapter.TensorAdapterConfig(columns, representations))


def _can_be_cut(representation: schema_pb2.TensorRepresentation) -> bool:
    """Returns whether a tensor is made of one column, and its batches can be cut out of many by their rows."""
    if representation.WhichOneof("kind") == "ragged_tensor":
        return not representation.ragged_tensor.partition
    return representation.WhichOneof("kind") in ("dense_tensor", "varlen_sparse_tensor")


def _columns_of(representation: schema_pb2.TensorRepresentation) -> list[str]:
    paths = tensor_representation_util.GetSourceColumnsFromTensorRepresentation(representation)
    return [path.initial_step() for path in paths]


def _as_it_is(function: Callable[..., Any]) -> Any:
    """Returns a function that AutoGraph leaves alone: it takes its time to find nothing to convert."""
    return tf.autograph.experimental.do_not_convert(function)


def _block_spec(spec: Any) -> dict[str, Any]:
    """Returns the specs of a block: "all" is of all its batches together, "each" has one entry a batch."""
    if isinstance(spec, tf.RaggedTensorSpec):
        end, splits = tf.TensorSpec([None, 1], tf.int64), tf.TensorSpec([None, None], spec.row_splits_dtype)
        return {"each": (end, end, splits), "all": (tf.TensorSpec([None], spec.dtype),)}
    return {"each": tf.TensorSpec([None, *spec.shape], spec.dtype), "all": ()}


def _dense_block(values: Any, size: int) -> dict[str, Any]:
    return {"each": values.reshape(-1, size, *values.shape[1:]), "all": ()}


def _ragged_block(tensor: Any, size: int) -> dict[str, Any]:
    starts, ends = tensor.row_splits[:-1:size, None], tensor.row_splits[size::size, None]
    splits = np.concatenate([tensor.row_splits[:-1].reshape(-1, size), ends], axis=1) - starts
    return {"each": (starts.astype(np.int64), ends.astype(np.int64), splits), "all": (tensor.values,)}


def _ragged_batch(each: Any, whole: Any) -> Any:
    (start, end, splits), (values,) = each, whole
    return tf.RaggedTensor.from_row_splits(tf.strided_slice(values, start, end), splits, validate=False)
