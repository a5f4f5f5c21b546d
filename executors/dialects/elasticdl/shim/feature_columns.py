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
from .lookup_function import warn_of_lookup

_EmbeddingColumn = embedding_column_class()
_CategoricalColumn, _FirstCategoricalColumn = categorical_column_bases()

if TYPE_CHECKING:
    import numpy as np

    class TransformationCache(Protocol):
        """A cache of the tensors of a batch's feature columns."""

        def get(self, key: object, state_manager: object) -> tf.SparseTensor:
            """Returns a column's tensor."""

    class SparseIds(Protocol):
        """The ids of a categorical column with their weights."""

        @property
        def id_tensor(self) -> tf.SparseTensor:
            """The ids."""

        @property
        def weight_tensor(self) -> tf.SparseTensor | None:
            """The weights of the ids; None if all are 1."""

    class CategoricalColumn(Protocol):
        """The interface of categorical columns, of TensorFlow or of this module."""

        @property
        def name(self) -> str:
            """The column's name."""

        @property
        def num_buckets(self) -> int:
            """The number of ids."""

        @property
        def parse_example_spec(self) -> Mapping[str, tf.io.VarLenFeature | tf.io.FixedLenFeature]:
            """The parsing specs of the column's input features."""

        def get_sparse_tensors(self, transformation_cache: TransformationCache, state_manager: object) -> SparseIds:
            """Returns the ids of a batch."""


class EmbeddingColumn(_EmbeddingColumn):  # type: ignore[misc, valid-type]
    """TensorFlow's embedding column with ElasticDL's methods."""

    def set_lookup_embedding_func(self, func: Callable[[str, list[int]], np.ndarray]) -> None:
        """Ignores the function, with a warning, as `layers.Embedding` does."""
        warn_of_lookup(f"Embedding column {self.name!r}", func)


def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., tf.Tensor] | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> Any:
    """Returns TensorFlow's embedding column, since embeddings are not stored on ElasticDL's parameter servers."""
    made = tf.feature_column.embedding_column(
        categorical_column, dimension, combiner, initializer, max_norm=max_norm, trainable=trainable
    )
    return EmbeddingColumn(*made)


def concatenated_categorical_column(categorical_columns: list[CategoricalColumn]) -> ConcatenatedCategoricalColumn:
    """Returns a column that concatenates the ids of several columns, so that they can share an embedding.

    The ids of each column are offset by the number of ids of the columns before it: with 32 and 8 ids, id 2 of the
    second column becomes 34.

    Args:
      categorical_columns: A list of at least one categorical column.

    Raises:
      ValueError: When it is not a list, is empty, or has an element that is not a categorical column.
    """
    if not isinstance(categorical_columns, list) or not categorical_columns:
        raise ValueError(f"categorical_columns must be a list of at least one column, not {categorical_columns!r}.")
    for column in categorical_columns:
        if not isinstance(column, _CategoricalColumn):
            raise ValueError(
                f"categorical_columns contains {column!r}; use tf.feature_column.categorical_column_with_…"
            )
    return ConcatenatedCategoricalColumn(tuple(categorical_columns))


class _Columns(NamedTuple):
    """The concatenated columns; a base class because feature columns are compared and copied as tuples."""

    categorical_columns: tuple[CategoricalColumn, ...]


class ConcatenatedCategoricalColumn(
    _CategoricalColumn,  # type: ignore[misc, valid-type]
    _FirstCategoricalColumn,  # type: ignore[misc, valid-type]
    _Columns,
):
    """A categorical column of the ids of several columns; see `concatenated_categorical_column`."""

    @property
    def _is_v2_column(self) -> bool:
        return are_present_columns(self.categorical_columns)

    @property
    def name(self) -> str:
        """The names of the columns, sorted and joined by "_C_"."""
        return "_C_".join(sorted(column.name for column in self.categorical_columns))

    @property
    def num_buckets(self) -> int:
        """The total number of ids."""
        return sum(column.num_buckets for column in self.categorical_columns)

    _num_buckets = num_buckets

    @property
    def accumulated_offsets(self) -> list[int]:
        """The offset of each column's ids."""
        sizes = [column.num_buckets for column in self.categorical_columns]
        return list(itertools.accumulate([0, *sizes[:-1]]))

    @property
    def parents(self) -> list[CategoricalColumn]:
        """The concatenated columns."""
        return list(self.categorical_columns)

    @property
    def parse_example_spec(self) -> dict[str, tf.io.VarLenFeature | tf.io.FixedLenFeature]:
        """The parsing specs of the columns' input features."""
        return {name: spec for column in self.categorical_columns for name, spec in column.parse_example_spec.items()}

    _parse_example_spec = parse_example_spec

    def transform_feature(self, transformation_cache: TransformationCache, state_manager: object) -> tf.SparseTensor:
        """Returns the ids as a SparseTensor [batch, n]."""
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
        """Creates the column from its configuration."""
        made: Iterable[CategoricalColumn] = (
            deserialize_feature_column(one, custom_objects, columns_by_name) for one in config["categorical_columns"]
        )
        return cls(tuple(made))
