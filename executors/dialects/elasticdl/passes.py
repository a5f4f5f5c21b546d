"""Passes over a dataset with a single iterator, for many short epochs and evaluations.

Creating an iterator optimizes the dataset's graph and instantiates each function in it again. For 150 rows of a CSV
file this takes 20 to 40 ms, a pass with an existing iterator 5 to 10 ms. Keras creates one iterator per epoch, and two
per evaluation.

Usage:

    passes = Passes(dataset)
    batch = passes.iterator.get_next()      # a tf.experimental.Optional, without a value at the end of each pass
"""

from __future__ import annotations

import tensorflow as tf

from .shim.tensor_values import Tensors


class Passes:
    """Endless passes over a dataset; each reads the dataset anew, as a new iterator would.

    Attributes:
      element_spec: Type spec of the dataset's elements.
    """

    def __init__(self, dataset: tf.data.Dataset) -> None:
        self.element_spec = dataset.element_spec
        is_tuple = isinstance(self.element_spec, tuple)  # which `map` passes as several arguments

        def as_optional(*element: Tensors) -> tf.experimental.Optional:
            return tf.experimental.Optional.from_value(element if is_tuple else element[0])

        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False  # it would begin the next pass
        end = tf.data.Dataset.from_tensors(tf.experimental.Optional.empty(self.element_spec))
        elements = dataset.map(tf.autograph.experimental.do_not_convert(as_optional))
        self._dataset = elements.concatenate(end).repeat().with_options(options)
        self._iterator: tf.data.Iterator | None = None

    @property
    def iterator(self) -> tf.data.Iterator:
        """The iterator over Optionals: a pass's elements, and one without a value at its end."""
        if self._iterator is None:
            self._iterator = iter(self._dataset)
        return self._iterator

    def restart(self) -> None:
        """Lets the next access to `iterator` begin a new pass, wherever the current one is."""
        self._iterator = None


def endless_stand_in() -> tf.data.Dataset:
    """Returns a dataset for a `fit` that reads its batches elsewhere; its length is unknown to Keras."""
    unknown = tf.data.experimental.assert_cardinality(tf.data.UNKNOWN_CARDINALITY)
    return tf.data.Dataset.from_tensors(0).repeat().apply(unknown)
