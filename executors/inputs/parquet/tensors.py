"""Rows of Parquet as batches of tensors, as tfx_bsl makes them; many batches at a time where they can be.

Usage:

    tensors = BatchTensors(schema)
    dataset = tensors.dataset(lambda: batched_rows(paths, options, tensors.arrow_schema), batch_size, label_key=None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.tfxio import tensor_adapter, tensor_representation_util

from ..cache.sparse_blocks import Rows
from ..cache.tensor_blocks import Block, TensorBlocks, as_it_is, in_order
from .rows import as_lists

if TYPE_CHECKING:
    from tfx_bsl.types.common_types import TensorType

Batch = TypeVar("Batch")

_ARROW_TYPES = {
    schema_pb2.INT: pa.large_list(pa.int64()),
    schema_pb2.FLOAT: pa.large_list(pa.float32()),
    schema_pb2.BYTES: pa.large_list(pa.large_binary()),
}


class BatchTensors:
    """What a schema makes of rows, as tfx_bsl's tensor adapter has it.

    Attributes:
      arrow_schema: The columns as lists, one a feature.
      specs: {tensor: its type spec}.
      sizes: {column: how many values each row must have}, of dense tensors.
    """

    def __init__(self, schema: schema_pb2.Schema) -> None:
        """Takes a schema.

        Raises:
          ValueError: When a feature's type is none of a tf.Example.
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
        self,
        make_tables: Callable[[], Iterator[pa.Table]],
        batch_size: int,
        label_key: str | None,
        find_misfit: Callable[[], str] = str,
    ) -> tf.data.Dataset:
        """Returns the batches of the tables of `batched_rows`.

        Args:
          make_tables: Called at each run through the dataset.
          batch_size: Rows in a batch.
          label_key: The tensor that becomes the label; None for features alone.
          find_misfit: Called when a batch cannot become tensors; returns which row is to blame, or "".
        """
        if self._is_cut:
            return self._tensors.dataset(lambda: _told(self._blocks(make_tables(), batch_size), find_misfit), label_key)
        batches = tf.data.Dataset.from_generator(
            lambda: _told(self._batches(make_tables(), batch_size), find_misfit), output_signature=self.specs
        )
        return batches.map(as_it_is(lambda tensors: in_order(tensors, self.specs, label_key)))

    def _blocks(self, tables: Iterator[pa.Table], batch_size: int) -> Iterator[Block]:
        for table in tables:
            size = min(batch_size, table.num_rows)  # the last batch of all may be smaller
            try:
                yield self._block(table, size)
            except ValueError:
                # Something is wrong with one of the batches; those before it are good.
                for start in range(0, table.num_rows, size):
                    yield self._block(table.slice(start, size), size)

    def _block(self, table: pa.Table, size: int) -> Block:
        tensors = {name: _rows(table.column(column).combine_chunks()) for name, column in self._sparse.items()}
        if len(self._columns):
            rows = as_lists(table.select(self._columns.names), self._columns)
            for name, tensor in self._adapter.ToBatchTensors(rows, produce_eager_tensors=False).items():
                is_ragged = isinstance(self.specs[name], tf.RaggedTensorSpec)
                tensors[name] = Rows(tensor.values, np.diff(tensor.row_splits)) if is_ragged else Rows(tensor)
        return self._tensors.block(tensors, size)

    def _batches(self, tables: Iterator[pa.Table], batch_size: int) -> Iterator[dict[str, TensorType]]:
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


def _adapter(
    columns: pa.Schema, representations: dict[str, schema_pb2.TensorRepresentation]
) -> tensor_adapter.TensorAdapter:
    return tensor_adapter.TensorAdapter(tensor_adapter.TensorAdapterConfig(columns, representations))


def _can_be_cut(representation: schema_pb2.TensorRepresentation) -> bool:
    """Returns whether a tensor is made of one column, and its batches can be cut out of many by their rows."""
    if representation.WhichOneof("kind") == "ragged_tensor":
        return not representation.ragged_tensor.partition
    return representation.WhichOneof("kind") in ("dense_tensor", "varlen_sparse_tensor")


def _told(batches: Iterator[Batch], find_misfit: Callable[[], str]) -> Iterator[Batch]:
    """Yields batches; their error says which row it is about, which tfx_bsl and NumPy do not know."""
    try:
        yield from batches
    except ValueError as error:
        if (misfit := find_misfit()) and misfit != str(error):
            raise ValueError(misfit) from error
        raise


def _size(representation: schema_pb2.TensorRepresentation) -> tuple[str, int] | None:
    """Returns the column of a dense tensor that has no value for rows without any, and how many values it takes."""
    dense = representation.dense_tensor
    if representation.WhichOneof("kind") != "dense_tensor" or dense.HasField("default_value"):
        return None
    return dense.column_name, int(np.prod([dimension.size for dimension in dense.shape.dim], dtype=np.int64))


def _columns_of(representation: schema_pb2.TensorRepresentation) -> list[str]:
    paths = tensor_representation_util.GetSourceColumnsFromTensorRepresentation(representation)
    return [path.initial_step() for path in paths]


def _rows(column: pa.Array) -> Rows:
    """Returns a column of values or lists."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lengths = np.asarray(column.value_lengths().fill_null(0))
        return Rows(np.asarray(column.flatten()), lengths.astype(np.int64))
    if not column.null_count:
        return Rows(np.asarray(column))
    return Rows(np.asarray(column.drop_null()), np.asarray(column.is_valid()).astype(np.int64))
