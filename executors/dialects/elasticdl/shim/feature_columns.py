"""The feature columns of ElasticDL and of `elasticdl_preprocessing`, for `tf.keras.layers.DenseFeatures` (Keras 2)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import tensorflow as tf

from ....compat.tensorflow import (
    are_present_columns,
    categorical_column_bases,
    deserialize_feature_column,
    embedding_column_class,
    serialize_feature_column,
)

EmbeddingColumn = embedding_column_class()
_CategoricalColumn, _FirstCategoricalColumn = categorical_column_bases()

if TYPE_CHECKING:

    class TransformationCache(Protocol):
        """The tensors of a batch's feature columns, each made once."""

        def get(self, key: object, state_manager: object) -> tf.SparseTensor:
            """Returns a column's tensor."""

    class SparseIds(Protocol):
        """A categorical column's ids, and their weights."""

        @property
        def id_tensor(self) -> tf.SparseTensor:
            """The ids."""

        @property
        def weight_tensor(self) -> tf.SparseTensor | None:
            """Their weights; None for 1 each."""

    class CategoricalColumn(Protocol):
        """A column of ids, of TensorFlow or of this module."""

        @property
        def name(self) -> str:
            """The column's name."""

        @property
        def num_buckets(self) -> int:
            """The number of ids."""

        @property
        def parse_example_spec(self) -> Mapping[str, tf.io.VarLenFeature | tf.io.FixedLenFeature]:
            """The features that it is made of."""

        def get_sparse_tensors(self, transformation_cache: TransformationCache, state_manager: object) -> SparseIds:
            """Returns the ids of a batch."""


def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., tf.Tensor] | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> Any:
    """Returns TensorFlow's own embedding column: there is no parameter server to keep its vectors on."""
    return tf.feature_column.embedding_column(
        categorical_column, dimension, combiner, initializer, max_norm=max_norm, trainable=trainable
    )


def concatenated_categorical_column(categorical_columns: list[CategoricalColumn]) -> ConcatenatedCategoricalColumn:
    """Returns a column of the ids of several ones side by side, so that one embedding serves them all.

    The ids of each are moved behind those of the columns before it: with 32 and 8 ids, id 2 of the second is 34.

    Args:
      categorical_columns: The columns.

    Raises:
      ValueError: When it is no list, an empty one, or has another kind of column in it.
    """
    if not isinstance(categorical_columns, list) or not categorical_columns:
        raise ValueError(f"categorical_columns is a list of at least one column; this is {categorical_columns!r}.")
    for column in categorical_columns:
        if not isinstance(column, _CategoricalColumn):
            raise ValueError(f"categorical_columns holds {column!r}; give tf.feature_column.categorical_column_with_…")
    return ConcatenatedCategoricalColumn(tuple(categorical_columns))


class _Columns(NamedTuple):
    """The columns that are concatenated; a feature column is compared and copied as a tuple."""

    categorical_columns: tuple[CategoricalColumn, ...]


class ConcatenatedCategoricalColumn(
    _CategoricalColumn,  # type: ignore[misc, valid-type]
    _FirstCategoricalColumn,  # type: ignore[misc, valid-type]
    _Columns,
):
    """What `concatenated_categorical_column` returns."""

    @property
    def _is_v2_column(self) -> bool:
        return are_present_columns(self.categorical_columns)

    @property
    def name(self) -> str:
        """The columns' names, sorted."""
        return "_C_".join(sorted(column.name for column in self.categorical_columns))

    @property
    def num_buckets(self) -> int:
        """The number of ids."""
        return sum(column.num_buckets for column in self.categorical_columns)

    _num_buckets = num_buckets

    @property
    def accumulated_offsets(self) -> list[int]:
        """How far each column's ids are moved."""
        sizes = [column.num_buckets for column in self.categorical_columns]
        return list(itertools.accumulate([0, *sizes[:-1]]))

    @property
    def parents(self) -> list[CategoricalColumn]:
        """The columns."""
        return list(self.categorical_columns)

    @property
    def parse_example_spec(self) -> dict[str, tf.io.VarLenFeature | tf.io.FixedLenFeature]:
        """The features of the columns."""
        return {name: spec for column in self.categorical_columns for name, spec in column.parse_example_spec.items()}

    _parse_example_spec = parse_example_spec

    def transform_feature(self, transformation_cache: TransformationCache, state_manager: object) -> tf.SparseTensor:
        """Returns the ids [rows, n], sparse."""
        ids = [
            column.get_sparse_tensors(transformation_cache, state_manager).id_tensor
            for column in self.categorical_columns
        ]
        pairs = zip(ids, self.accumulated_offsets, strict=True)
        moved = [one.with_values(tf.cast(one.values, tf.int64) + offset) for one, offset in pairs]
        return tf.sparse.concat(-1, moved)

    def get_sparse_tensors(self, transformation_cache: TransformationCache, state_manager: object) -> SparseIds:
        """Returns the ids, without weights."""
        pair: SparseIds = _CategoricalColumn.IdWeightPair(transformation_cache.get(self, state_manager), None)
        return pair

    def get_config(self) -> dict[str, object]:
        """Returns the columns' configurations."""
        return {"categorical_columns": tuple(map(serialize_feature_column, self.categorical_columns))}

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Sequence[Mapping[str, object]]],
        custom_objects: Mapping[str, type] | None = None,
        columns_by_name: dict[str, CategoricalColumn] | None = None,
    ) -> ConcatenatedCategoricalColumn:
        """Makes the column from its configuration."""
        made: Iterable[CategoricalColumn] = (
            deserialize_feature_column(one, custom_objects, columns_by_name) for one in config["categorical_columns"]
        )
        return cls(tuple(made))
