"""Passes over a dataset with a single iterator, for many short epochs and evaluations.

Creating an iterator optimizes the dataset's graph and instantiates each function in it again. For 150 rows of a CSV
file this takes 20 to 40 ms, a pass with an existing iterator 5 to 10 ms. Keras creates one iterator per epoch, and two
per evaluation. Longer passes have an iterator each, because a shared one takes up to 0.1 ms more per batch.

Usage:

    passes = Passes(dataset)
    iterator = passes.begin()
    while (batch := next_optional(iterator)).has_value():
        batch.get_value()
    iterator = passes.begin(length=3)
"""

from __future__ import annotations

import tensorflow as tf

from .shim.tensor_values import Tensors

_SHORT = 100  # elements


class Passes:
    """Passes over a dataset; each reads it again.

    Args:
      dataset: The dataset.
    """

    def __init__(self, dataset: tf.data.Dataset) -> None:
        self._dataset = dataset
        self._repeated: tf.data.Iterator | None = None

    def begin(self, length: int | None = None) -> tf.data.Iterator:
        """Returns an iterator for `next_optional` over a pass. The pass before must have ended, or `restart` is called.

        Args:
          length: The number of elements of an earlier pass; None if it is unknown.
        """
        if length is None or length > _SHORT:
            return iter(self._dataset)
        if self._repeated is None:
            self._repeated = iter(_repeated(self._dataset))
        return self._repeated

    def restart(self) -> None:
        """Lets the next call of `begin` return a new pass although the current one has not ended."""
        self._repeated = None


def next_optional(iterator: tf.data.Iterator) -> tf.experimental.Optional:
    """Returns the next element of an iterator from `Passes.begin`, without a value at the end of the pass."""
    is_repeated = isinstance(iterator.element_spec, tf.OptionalSpec)
    return iterator.get_next() if is_repeated else iterator.get_next_as_optional()


def _repeated(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns endless passes as Optionals, with one without a value at the end of each pass."""
    spec = dataset.element_spec
    is_tuple = isinstance(spec, tuple)  # which `map` passes as several arguments

    def as_optional(*element: Tensors) -> tf.experimental.Optional:
        return tf.experimental.Optional.from_value(element if is_tuple else element[0])

    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # it would begin the next pass
    end = tf.data.Dataset.from_tensors(tf.experimental.Optional.empty(spec))
    elements = dataset.map(tf.autograph.experimental.do_not_convert(as_optional))
    return elements.concatenate(end).repeat().with_options(options)


def endless_stand_in(batch_size: int) -> tf.data.Dataset:
    """Returns a dataset for a `fit` that reads its batches elsewhere; its length is unknown to Keras.

    Args:
      batch_size: First dimension of its elements, from which observers of `fit` take the number of examples in a step.
    """
    unknown = tf.data.experimental.assert_cardinality(tf.data.UNKNOWN_CARDINALITY)
    return tf.data.Dataset.from_tensors(tf.zeros([batch_size], tf.bool)).repeat().apply(unknown)
