"""Divides each global batch among the replicas of a distribution strategy, so that none gets an empty part.

The last batch of an epoch may have too few records for all replicas. tf.distribute gives some of them no records then,
which layers such as convolutions and BatchNormalization cannot process. Here, such a batch is divided evenly, and a
replica without a record of its own gets the first one of the batch, with the weight 0. So that tf.distribute divides it
this way, the part of each replica is padded to the same number of rows.

Usage:

    model.fit(share(dataset, strategy.num_replicas_in_sync, 64))
    features, labels, own = take_part(data)     # in train_step
"""

from __future__ import annotations

import tensorflow as tf

from .shim.tensor_values import AnyTensor, Tensors


def share(dataset: tf.data.Dataset, replicas: int, rows: int) -> tf.data.Dataset:
    """Returns a dataset of (features, labels, marks) for `take_part`; the same dataset if there is only one replica.

    Args:
      dataset: Global batches of (features, labels), each of at most `replicas * rows` records.
      replicas: The number of replicas.
      rows: The number of rows per replica; rows that are padding have the mark False.
    """
    return dataset if replicas == 1 else dataset.map(lambda *batch: _divided(batch, replicas, rows))


def take_part(data: tuple[Tensors, Tensors, tf.Tensor]) -> tuple[Tensors, Tensors, tf.Tensor]:
    """Returns a replica's features and labels, of at least one record, and its number of own records, possibly 0."""
    features, labels, marks = data
    own = tf.reduce_sum(tf.cast(marks, tf.int64))
    features, labels = tf.nest.map_structure(lambda value: _first_rows(value, tf.maximum(own, 1)), (features, labels))
    return features, labels, own


def _divided(batch: tuple[Tensors, Tensors], replicas: int, rows: int) -> tuple[Tensors, Tensors, tf.Tensor]:
    records = _size(tf.nest.flatten(batch)[0])
    replica, row = tf.range(replicas, dtype=tf.int64)[:, tf.newaxis], tf.range(rows, dtype=tf.int64)[tf.newaxis]
    start = replica * records // replicas
    own = (replica + 1) * records // replicas - start
    sources = tf.where(own > 0, start, 0) + tf.minimum(row, tf.maximum(own, 1) - 1)
    features, labels = tf.nest.map_structure(lambda value: _gather(value, tf.reshape(sources, [-1])), batch)
    return features, labels, tf.reshape(row < own, [-1])


def _size(value: AnyTensor) -> tf.Tensor:
    if isinstance(value, tf.SparseTensor):
        return value.dense_shape[0]
    return value.nrows(tf.int64) if isinstance(value, tf.RaggedTensor) else tf.shape(value, tf.int64)[0]


def _gather(value: AnyTensor, sources: tf.Tensor) -> AnyTensor:
    if not isinstance(value, tf.SparseTensor):
        return tf.gather(value, sources)
    rows = value.indices[:, 0]
    parts = tf.ragged.range(tf.searchsorted(rows, sources, "left"), tf.searchsorted(rows, sources, "right"))
    indices = tf.concat([parts.value_rowids()[:, tf.newaxis], tf.gather(value.indices[:, 1:], parts.values)], 1)
    shape = tf.concat([tf.shape(sources, tf.int64), value.dense_shape[1:]], 0)
    return tf.SparseTensor(indices, tf.gather(value.values, parts.values), shape)


def _first_rows(value: AnyTensor, number: tf.Tensor) -> AnyTensor:
    if not isinstance(value, tf.SparseTensor):
        return value[:number]
    rest = value.dense_shape[1:]
    return tf.sparse.slice(value, tf.zeros_like(value.dense_shape), tf.concat([[number], rest], 0))
