"""Converts rows of tables to the batches of tensors that tfx_bsl creates, many batches at a time if possible.

Usage:

    tensors = BatchTensors(schema)
    dataset = tensors.dataset(lambda: batched_rows(files, options), batch_size, label_key=None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.tfxio import tensor_adapter, tensor_representation_util

from ... import run_context
from ..parse_errors import keeping_errors
from .rows import as_lists
from .tensor_blocks import Block, Rows, TensorBlocks, in_order, without_autograph

if TYPE_CHECKING:
    from tfx_bsl.types.common_types import TensorType

_ARROW_TYPES = {
    schema_pb2.INT: pa.large_list(pa.int64()),
    schema_pb2.FLOAT: pa.large_list(pa.float32()),
    schema_pb2.BYTES: pa.large_list(pa.large_binary()),
}


class BatchTensors:
    """Converts rows to tensors according to a schema, with the same result as tfx_bsl's `TensorAdapter`.

    Attributes:
      arrow_schema: The list columns, one per feature.
      specs: {tensor: its type spec}.
      sizes: {column: number of values that each row must have}, for dense tensors without a default value.
    """

    def __init__(self, schema: schema_pb2.Schema) -> None:
        """Derives columns and type specs from a schema.

        Raises:
          ValueError: If a feature's type is not INT, FLOAT or BYTES.
        """
        self.arrow_schema = arrow_schema(schema)
        representations = tensor_representation_util.InferTensorRepresentationsFromMixedSchema(schema)
        self._adapter = _adapter(self.arrow_schema, representations)
        self.specs: dict[str, tf.TypeSpec] = self._adapter.TypeSpecs()
        self.sizes = dict(found for found in map(_size, representations.values()) if found)
        self._is_cut = all(map(_can_be_cut, representations.values()))
        if self._is_cut:
            self._tensors = TensorBlocks(self.specs)
            self._sparse = {
                name: representation.varlen_sparse_tensor.column_name
                for name, representation in representations.items()
                if representation.WhichOneof("kind") == "varlen_sparse_tensor"
            }
            others = {name: found for name, found in representations.items() if name not in self._sparse}
            columns = {column for representation in others.values() for column in _columns_of(representation)}
            self._columns = pa.schema([field for field in self.arrow_schema if field.name in columns])
            self._adapter = _adapter(self._columns, others)

    def dataset(
        self, make_tables: Callable[[], Iterator[pa.Table]], batch_size: int, label_key: str | None
    ) -> tf.data.Dataset:
        """Returns a dataset of the batches of tables from `batched_rows`.

        Args:
          make_tables: Called for each iteration over the dataset; returns an iterator over tables.
          batch_size: Number of rows in a batch.
          label_key: Name of the tensor to use as the label; None for a dataset without labels.
        """
        if self._is_cut:
            return self._tensors.dataset(
                lambda: keeping_errors(self._block(table, batch_size) for table in make_tables()), label_key
            )
        batches = tf.data.Dataset.from_generator(
            run_context.bound(lambda: keeping_errors(self._batches(make_tables(), batch_size))),
            output_signature=self.specs,
        )
        return batches.map(without_autograph(lambda tensors: in_order(tensors, self.specs, label_key)))

    def _block(self, table: pa.Table, batch_size: int) -> Block:
        tensors = {name: _rows(table.column(column).combine_chunks()) for name, column in self._sparse.items()}
        if len(self._columns):
            rows = as_lists(table.select(self._columns.names), self._columns)
            for name, tensor in self._adapter.ToBatchTensors(rows, produce_eager_tensors=False).items():
                is_ragged = isinstance(self.specs[name], tf.RaggedTensorSpec)
                tensors[name] = Rows(tensor.values, np.diff(tensor.row_splits)) if is_ragged else Rows(tensor)
        return self._tensors.block(tensors, min(batch_size, table.num_rows))  # the last batch may be smaller

    def _batches(self, tables: Iterator[pa.Table], batch_size: int) -> Iterator[dict[str, TensorType]]:
        """Yields single batches, for tensors that use several columns or have more than one ragged partition.

        `_block` has 9 times the throughput for seven dense columns, and 15 times for 18 sparse ones.
        """
        for table in tables:
            for start in range(0, table.num_rows, batch_size):
                batch = as_lists(table.slice(start, batch_size), self.arrow_schema)
                yield self._adapter.ToBatchTensors(batch, produce_eager_tensors=True)


def arrow_schema(schema: schema_pb2.Schema) -> pa.Schema:
    """Returns the Arrow columns of a schema's features, as in tfx_bsl's Parquet reader.

    Raises:
      ValueError: If a feature's type is not INT, FLOAT or BYTES.
    """
    for feature in schema.feature:
        if feature.type not in _ARROW_TYPES:
            kind = schema_pb2.FeatureType.Name(feature.type)
            raise ValueError(
                f"feature {feature.name!r} has the type {kind}; the supported types are INT, FLOAT and BYTES."
            )
    return pa.schema([(feature.name, _ARROW_TYPES[feature.type]) for feature in schema.feature])


def _adapter(
    columns: pa.Schema, representations: dict[str, schema_pb2.TensorRepresentation]
) -> tensor_adapter.TensorAdapter:
    return tensor_adapter.TensorAdapter(tensor_adapter.TensorAdapterConfig(columns, representations))


def _can_be_cut(representation: schema_pb2.TensorRepresentation) -> bool:
    """Returns whether a tensor is made of one column, so that a block of batches can be split by rows."""
    if representation.WhichOneof("kind") == "ragged_tensor":
        return not representation.ragged_tensor.partition
    return representation.WhichOneof("kind") in ("dense_tensor", "varlen_sparse_tensor")


def _size(representation: schema_pb2.TensorRepresentation) -> tuple[str, int] | None:
    """Returns the column and number of values per row of a dense tensor without default value; None for others."""
    dense = representation.dense_tensor
    if representation.WhichOneof("kind") != "dense_tensor" or dense.HasField("default_value"):
        return None
    return dense.column_name, int(np.prod([dimension.size for dimension in dense.shape.dim], dtype=np.int64))


def _columns_of(representation: schema_pb2.TensorRepresentation) -> list[str]:
    paths = tensor_representation_util.GetSourceColumnsFromTensorRepresentation(representation)
    return [path.initial_step() for path in paths]


def _rows(column: pa.Array) -> Rows:
    """Converts a column of scalars or lists to `Rows`."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lengths = np.asarray(column.value_lengths().fill_null(0))
        return Rows(np.asarray(column.flatten()), lengths.astype(np.int64))
    if not column.null_count:
        return Rows(np.asarray(column))
    return Rows(np.asarray(column.drop_null()), np.asarray(column.is_valid()).astype(np.int64))
