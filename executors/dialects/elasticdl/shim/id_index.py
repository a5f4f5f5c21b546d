"""An index from ids to rows that grows while a model trains, made of plain variables.

ElasticDL's parameter servers keep a vector for every id that ever came, whatever its value. Here an id gets the next
free row of a table when it first comes in training. Being variables, ids and rows are saved, restored and exported
like all weights, without a lookup table that formats such as `.h5` would lose.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import tensorflow as tf

UNUSED = tf.int64.max


def rows_of(ids: tf.Tensor, known_ids: tf.Variable, known_rows: tf.Variable) -> tf.Tensor:
    """Returns the row of each id, and -1 for one that is not known.

    Args:
      ids: int64, of any shape.
      known_ids: int64 [capacity], ascending, with `UNUSED` at the end.
      known_rows: int64 [capacity], their rows, with -1 at the end.
    """
    known_ids, known_rows = tf.convert_to_tensor(known_ids), tf.convert_to_tensor(known_rows)
    flat = tf.reshape(ids, [-1])
    places = tf.minimum(tf.searchsorted(known_ids, flat), tf.size(known_ids) - 1)
    rows = tf.where(tf.gather(known_ids, places) == flat, tf.gather(known_rows, places), -1)
    return tf.reshape(rows, tf.shape(ids))


def turns(known_ids: tf.Variable) -> Callable[[Callable[[], tf.Tensor]], tf.Tensor]:
    """Returns what calls a function that changes an index; where several workers do, one after the other.

    Args:
      known_ids: The variable, as in `rows_of`. Workers share it where it is on a parameter server.
    """
    if "/job:ps" not in known_ids.device:
        return lambda function: function()
    with tf.device(known_ids.device):
        section = tf.CriticalSection(shared_name=f"turns_{uuid.uuid4().hex}")
    return lambda function: section.execute(function)


def learn(ids: tf.Tensor, known_ids: tf.Variable, known_rows: tf.Variable, full: str) -> tf.Tensor:
    """Gives ids that are not known the next rows; returns the row of each id.

    Args:
      ids: int64, of any shape. The largest int64 is never learned.
      known_ids: The variable, as in `rows_of`.
      known_rows: The variable, as in `rows_of`.
      full: What an InvalidArgumentError says when there are more ids than rows.
    """
    unknown = tf.logical_and(rows_of(ids, known_ids, known_rows) < 0, ids != UNUSED)
    new = tf.unique(tf.boolean_mask(ids, unknown)).y

    def add() -> tf.Tensor:
        count = tf.searchsorted(tf.convert_to_tensor(known_ids), [UNUSED])[0]
        capacity = tf.shape(known_ids)[0]
        with tf.control_dependencies([tf.debugging.Assert(count + tf.size(new) <= capacity, [full])]):
            ids = tf.concat([tf.convert_to_tensor(known_ids)[:count], new], 0)
        new_rows = tf.cast(count + tf.range(tf.size(new)), tf.int64)
        rows = tf.concat([tf.convert_to_tensor(known_rows)[:count], new_rows], 0)
        order = tf.argsort(ids)
        rest = [[0, capacity - tf.size(ids)]]
        known_ids.assign(tf.pad(tf.gather(ids, order), rest, constant_values=UNUSED))
        known_rows.assign(tf.pad(tf.gather(rows, order), rest, constant_values=-1))
        return tf.constant(True)

    with tf.control_dependencies([tf.cond(tf.size(new) > 0, add, lambda: tf.constant(False))]):
        return rows_of(ids, known_ids, known_rows)
