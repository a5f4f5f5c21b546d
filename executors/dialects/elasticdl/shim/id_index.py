"""A mutable index from ids to embedding rows that grows during training, stored in plain variables.

ElasticDL's parameter servers stored a vector for each id they had seen, without limits on its value. Here an id gets
the next free row at its first use in training. Since the index consists of variables, it is saved, restored and
exported like all weights; formats such as `.h5` would lose a lookup table.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import tensorflow as tf

UNUSED = tf.int64.max


def find_rows(ids: tf.Tensor, known_ids: tf.Variable, known_rows: tf.Variable) -> tf.Tensor:
    """Returns the row of each id, or -1 for an unknown id.

    Args:
      ids: int64, any shape.
      known_ids: int64 [capacity], sorted in ascending order, padded with `UNUSED` at the end.
      known_rows: int64 [capacity], the rows of `known_ids`, padded with -1 at the end.
    """
    known_ids, known_rows = tf.convert_to_tensor(known_ids), tf.convert_to_tensor(known_rows)
    flat = tf.reshape(ids, [-1])
    positions = tf.minimum(tf.searchsorted(known_ids, flat), tf.size(known_ids) - 1)
    rows = tf.where(tf.gather(known_ids, positions) == flat, tf.gather(known_rows, positions), -1)
    return tf.reshape(rows, tf.shape(ids))


def critical_section(known_ids: tf.Variable) -> Callable[[Callable[[], tf.Tensor]], tf.Tensor]:
    """Returns a function that calls a given function, in a critical section if workers share the index.

    Args:
      known_ids: The variable, as in `find_rows`. It is shared by workers if it is on a parameter server.
    """
    if "/job:ps" not in known_ids.device:
        return lambda function: function()
    with tf.device(known_ids.device):
        section = tf.CriticalSection(shared_name=f"turns_{uuid.uuid4().hex}")
    return lambda function: section.execute(function)


def add_ids(ids: tf.Tensor, known_ids: tf.Variable, known_rows: tf.Variable, full_message: str) -> tf.Tensor:
    """Assigns the next free rows to unknown ids; returns the row of each id.

    Args:
      ids: int64, any shape. The maximum int64 is never added, as it is `UNUSED`.
      known_ids: The variable, as in `find_rows`.
      known_rows: The variable, as in `find_rows`.
      full_message: The message of the InvalidArgumentError that is raised when the capacity is exceeded.
    """
    unknown = tf.logical_and(find_rows(ids, known_ids, known_rows) < 0, ids != UNUSED)
    new = tf.unique(tf.boolean_mask(ids, unknown)).y

    def add() -> tf.Tensor:
        count = tf.searchsorted(tf.convert_to_tensor(known_ids), [UNUSED])[0]
        capacity = tf.shape(known_ids)[0]
        with tf.control_dependencies([tf.debugging.Assert(count + tf.size(new) <= capacity, [full_message])]):
            ids = tf.concat([tf.convert_to_tensor(known_ids)[:count], new], 0)
        new_rows = tf.cast(count + tf.range(tf.size(new)), tf.int64)
        rows = tf.concat([tf.convert_to_tensor(known_rows)[:count], new_rows], 0)
        order = tf.argsort(ids)
        rest = [[0, capacity - tf.size(ids)]]
        known_ids.assign(tf.pad(tf.gather(ids, order), rest, constant_values=UNUSED))
        known_rows.assign(tf.pad(tf.gather(rows, order), rest, constant_values=-1))
        return tf.constant(True)

    with tf.control_dependencies([tf.cond(tf.size(new) > 0, add, lambda: tf.constant(False))]):
        return find_rows(ids, known_ids, known_rows)
