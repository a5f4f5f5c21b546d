"""The feature columns of ElasticDL and of `elasticdl_preprocessing`, for `tf.keras.layers.DenseFeatures` (Keras 2)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

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


def embedding_column(
    categorical_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., Any] | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> Any:
    """Returns TensorFlow's own embedding column: there is no parameter server to keep its vectors on."""
    return tf.feature_column.embedding_column(
        categorical_column, dimension, combiner, initializer, max_norm=max_norm, trainable=trainable
    )


def concatenated_categorical_column(categorical_columns: list[Any]) -> Any:
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

    categorical_columns: tuple[Any, ...]


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
    def parents(self) -> list[Any]:
        """The columns."""
        return list(self.categorical_columns)

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The features of the columns."""
        return {name: spec for column in self.categorical_columns for name, spec in column.parse_example_spec.items()}

    _parse_example_spec = parse_example_spec

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Returns the ids [rows, n], sparse."""
        ids = [
            column.get_sparse_tensors(transformation_cache, state_manager).id_tensor
            for column in self.categorical_columns
        ]
        pairs = zip(ids, self.accumulated_offsets, strict=True)
        moved = [one.with_values(tf.cast(one.values, tf.int64) + offset) for one, offset in pairs]
        return tf.sparse.concat(-1, moved)

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Returns the ids, without weights."""
        return _CategoricalColumn.IdWeightPair(transformation_cache.get(self, state_manager), None)

    def get_config(self) -> dict[str, Any]:
        """Returns the columns' configurations."""
        return {"categorical_columns": tuple(map(serialize_feature_column, self.categorical_columns))}

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None, columns_by_name: Any = None) -> Any:
        """Makes the column from its configuration."""
        made: Iterable[Any] = (
            deserialize_feature_column(one, custom_objects, columns_by_name) for one in config["categorical_columns"]
        )
        return cls(tuple(made))
