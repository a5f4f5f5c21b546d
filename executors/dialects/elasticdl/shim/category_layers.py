"""Layers of `elasticdl_preprocessing` for categorical ids: hashing, vocabulary lookup, concatenation with offsets.

Hashing(num_bins=3)([["A"], ["B"]])                                   # [[1], [0]]
IndexLookup(vocabulary=["A", "B", "C"])([["B"], ["?"]])               # [[1], [3]]
ConcatenateWithOffset(offsets=[0, 10], axis=1)([[[1]], [[2]]])        # [[1, 12]]
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence

import tensorflow as tf

from .tensor_values import AnyTensor, map_values

_PACKAGE = "elasticdl_preprocessing"


@tf.keras.utils.register_keras_serializable(_PACKAGE)
class Hashing(tf.keras.layers.Layer):  # type: ignore[misc]
    """Hashes strings, or the decimal digits of integers, to bins from 0 to `num_bins` - 1, as int64."""

    def __init__(self, num_bins: int, **kwargs: object) -> None:
        """Sets the number of bins.

        Raises:
          ValueError: When `num_bins` is not positive.
        """
        if num_bins is None or num_bins <= 0:
            raise ValueError(f"Hashing: num_bins is {num_bins}; it must be at least 1.")
        super().__init__(**kwargs)
        self.num_bins = num_bins

    def call(self, inputs: AnyTensor) -> AnyTensor:
        """Hashes the values."""
        return map_values(self._hashed, inputs)

    def _hashed(self, values: tf.Tensor) -> tf.Tensor:
        texts = tf.as_string(values) if values.dtype.is_integer else values
        return tf.strings.to_hash_bucket_fast(texts, self.num_bins)

    def get_config(self) -> dict[str, object]:
        """Returns the layer's configuration."""
        return {**super().get_config(), "num_bins": self.num_bins}


@tf.keras.utils.register_keras_serializable(_PACKAGE)
class IndexLookup(tf.keras.layers.Layer):  # type: ignore[misc]
    """Maps strings to their 0-based index in a vocabulary, as int64.

    An out-of-vocabulary string is mapped to len(vocabulary) + hash % num_oov_tokens, or to -1 if num_oov_tokens is 0.
    """

    def __init__(self, vocabulary: Sequence[str] | str, num_oov_tokens: int = 1, **kwargs: object) -> None:
        """Creates the lookup table.

        Args:
          vocabulary: The terms, or the path of a text file with one term per line.
          num_oov_tokens: The number of ids for out-of-vocabulary strings; with 0, these are mapped to -1.
          **kwargs: Arguments of `tf.keras.layers.Layer`.

        Raises:
          ValueError: When the vocabulary is empty or has duplicate terms.
        """
        super().__init__(**kwargs)
        self.vocabulary = _terms(vocabulary)
        self.num_oov_tokens = num_oov_tokens
        with tf.init_scope():  # a layer may be created while a model is traced
            self._table = _table(self.vocabulary, num_oov_tokens)

    def vocab_size(self) -> int:
        """Returns the number of ids, including those for out-of-vocabulary strings."""
        return len(self.vocabulary) + self.num_oov_tokens

    def call(self, inputs: AnyTensor) -> AnyTensor:
        """Looks up the values."""
        return map_values(self._table.lookup, inputs)

    def get_config(self) -> dict[str, object]:
        """Returns the layer's configuration, with the terms instead of a file path, so that the file is not needed."""
        own = {"vocabulary": list(self.vocabulary), "num_oov_tokens": self.num_oov_tokens}
        return {**super().get_config(), **own}


def _terms(vocabulary: Sequence[str] | str | None) -> list[str]:
    if not vocabulary:
        raise ValueError("IndexLookup: vocabulary is empty. Give a list of terms, or a file with one term per line.")
    if isinstance(vocabulary, str):
        with tf.io.gfile.GFile(vocabulary) as file:
            terms = [line.strip() for line in file]
    else:
        terms = list(vocabulary)
    twice = [term for term, count in collections.Counter(terms).items() if count > 1]
    if twice:
        place = vocabulary if isinstance(vocabulary, str) else "the vocabulary"
        raise ValueError(f"IndexLookup: {place} has duplicate terms: {twice[:5]}. Remove the duplicates.")
    return terms


def _table(terms: list[str], num_oov_tokens: int) -> tf.lookup.StaticVocabularyTable | tf.lookup.StaticHashTable:
    places = tf.lookup.KeyValueTensorInitializer(terms, range(len(terms)), tf.string, tf.int64)
    if num_oov_tokens > 0:
        return tf.lookup.StaticVocabularyTable(places, num_oov_tokens)
    return tf.lookup.StaticHashTable(places, default_value=-1)


@tf.keras.utils.register_keras_serializable(_PACKAGE)
class ConcatenateWithOffset(tf.keras.layers.Layer):  # type: ignore[misc]
    """Adds an offset to each tensor's ids, so that their ranges do not overlap, and concatenates the tensors."""

    def __init__(self, offsets: Sequence[int] | None, axis: int = -1, **kwargs: object) -> None:
        """Sets the offsets.

        Args:
          offsets: One offset per tensor; None for no offsets.
          axis: The axis to concatenate along.
          **kwargs: Arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(**kwargs)
        self.offsets = None if offsets is None else list(offsets)
        self.axis = axis

    def call(self, inputs: AnyTensor | Sequence[AnyTensor]) -> AnyTensor:
        """Concatenates the tensors: all dense, all sparse or all ragged. A single tensor is returned unchanged.

        Raises:
          ValueError: When the numbers of tensors and offsets differ.
        """
        if not isinstance(inputs, (list, tuple)):
            return inputs
        offsets = [0] * len(inputs) if self.offsets is None else self.offsets
        if len(offsets) != len(inputs):
            raise ValueError(
                f"ConcatenateWithOffset: received {len(inputs)} tensors for {len(offsets)} offsets ({offsets}); set "
                "one offset per tensor."
            )
        pairs = zip(inputs, offsets, strict=True)
        moved = [map_values(functools.partial(tf.add, y=offset), ids) for ids, offset in pairs]
        if isinstance(moved[0], tf.SparseTensor):
            return tf.sparse.concat(self.axis, moved)
        return tf.concat(moved, self.axis)

    def get_config(self) -> dict[str, object]:
        """Returns the layer's configuration."""
        return {**super().get_config(), "offsets": self.offsets, "axis": self.axis}
