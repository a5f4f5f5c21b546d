"""The layer `elasticdl.python.elasticdl.layers.embedding.Embedding`.

ElasticDL stored the embedding vectors on parameter servers; here they are a weight of the model. A layer with
`input_dim` has a row for every id. A layer without `input_dim` accepts any int64 as an id and assigns a row to it at
its first use in training, as the parameter servers did. In evaluation and serving, the embedding of an unknown id is a
zero vector, and combiners ignore unknown ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import tensorflow as tf

from . import id_index
from .lookup_function import warn_of_lookup
from .sparse_embedding import COMBINERS
from .tensor_values import AnyTensor, variable_of

if TYPE_CHECKING:
    import keras
    import numpy as np

# Capacity of a layer without input_dim. With output_dim=64, the weights take 32 MiB, and optimizer slots twice that.
MAX_IDS = 1 << 17


@tf.keras.utils.register_keras_serializable("elasticdl")
class Embedding(tf.keras.layers.Layer):  # type: ignore[misc]
    """Maps ids [batch, n] to vectors [batch, n, output_dim], or with a combiner to [batch, output_dim]."""

    def __init__(
        self,
        output_dim: int,
        input_dim: int | None = None,
        embeddings_initializer: tf.keras.initializers.Initializer | str = "uniform",
        mask_zero: bool = False,
        input_length: int | None = None,
        combiner: str | None = None,
        **kwargs: object,
    ) -> None:
        """Sets the dimensions and options.

        Args:
          output_dim: The length of the vectors.
          input_dim: Ids are in [0, input_dim). None or 0 for ids of any value, at most `MAX_IDS` distinct ones.
          embeddings_initializer: A Keras initializer, or its name.
          mask_zero: Whether id 0 is a padding value. Not supported for sparse ids.
          input_length: The number of ids per example, if it is constant.
          combiner: "sum", "mean" or "sqrtn" (the sum divided by the square root of the number of ids); None for a
            vector for each id. Required for sparse and ragged ids. (ElasticDL's code ignored it for dense ids, contrary
            to its guide.)
          **kwargs: Arguments of `tf.keras.layers.Layer`.

        Raises:
          ValueError: When the combiner is invalid.
        """
        kwargs.pop("embedding_service_endpoint", None)  # Redis address in releases of 2019
        if input_length and "input_shape" not in kwargs:
            kwargs["input_shape"] = (input_length,)
        super().__init__(**kwargs)
        if combiner not in (None, *COMBINERS):
            raise ValueError(
                f"Embedding {self.name!r}: combiner is {combiner!r}; it must be one of {COMBINERS} or None."
            )
        self.output_dim = output_dim
        self.input_dim = input_dim
        self.embeddings_initializer = tf.keras.initializers.get(embeddings_initializer)
        self.mask_zero = mask_zero
        self.supports_masking = mask_zero
        self.input_length = input_length
        self.combiner = combiner

    def build(self, input_shape: tf.TensorShape | tuple[int | None, ...]) -> None:
        """Creates the embedding weights and, without `input_dim`, the index of ids."""
        rows = self.input_dim or MAX_IDS
        shape = (rows, self.output_dim)
        self.embeddings = self.add_weight(name="embeddings", shape=shape, initializer=self.embeddings_initializer)
        if not self.input_dim:
            self.known_ids = self._index("known_ids", rows, id_index.UNUSED)
            self.known_rows = self._index("known_rows", rows, -1)
            self._critical_section = id_index.critical_section(variable_of(self.known_ids))
        self.built = True

    def _index(self, name: str, rows: int, unused: int) -> tf.Variable | keras.Variable:
        def initializer(shape: tuple[int, ...], dtype: object = None, **unused_options: object) -> tf.Tensor:
            return tf.fill(shape, tf.constant(unused, tf.int64))

        return self.add_weight(name=name, shape=(rows,), dtype="int64", initializer=initializer, trainable=False)

    def set_lookup_embedding_func(self, func: Callable[[str, list[int]], np.ndarray]) -> None:
        """Ignores the function, with a warning: the vectors are not on parameter servers.

        ElasticDL's workers set it themselves, too.

        Args:
          func: A function (name of the layer, ids) that returns the vectors.
        """
        warn_of_lookup(f"Embedding {self.name!r}", func)

    def call(self, inputs: AnyTensor, training: bool | None = None) -> tf.Tensor:
        """Looks up the vectors.

        Args:
          inputs: The ids: a dense, sparse or ragged tensor of any integer type.
          training: Whether to assign rows to new ids, in a layer without `input_dim`. Keras propagates the argument to
            layers if the model itself is called, but not if the model's `call` method is called directly.

        Raises:
          ValueError: When ids are sparse or ragged, and there is no combiner or `mask_zero` is set.
        """
        if isinstance(inputs, tf.RaggedTensor):
            inputs = inputs.to_sparse()
        sparse = isinstance(inputs, tf.SparseTensor)
        if sparse and (self.combiner is None or self.mask_zero):
            wanted = f"a combiner, one of {COMBINERS}" if self.combiner is None else "mask_zero=False"
            raise ValueError(f"Embedding {self.name!r}: the ids are sparse or ragged, which requires {wanted}.")
        ids = tf.cast(inputs, tf.int64)
        if self.combiner is None:
            return self._vectors(self._rows(ids, training))
        if not sparse:
            ids = self._as_sparse(ids)
        rows = ids.with_values(self._rows(ids.values, training))
        return tf.nn.safe_embedding_lookup_sparse(variable_of(self.embeddings), rows, combiner=self.combiner)

    def _rows(self, ids: tf.Tensor, training: bool | None) -> tf.Tensor:
        if self.input_dim:
            return ids
        known_ids, known_rows = variable_of(self.known_ids), variable_of(self.known_rows)
        if not training:
            return id_index.find_rows(ids, known_ids, known_rows)
        return self._critical_section(lambda: id_index.add_ids(ids, known_ids, known_rows, self._full_message()))

    def _full_message(self) -> str:
        return (
            f"Embedding {self.name!r} has no input_dim and received more than {MAX_IDS} different ids. Write "
            f"Embedding(output_dim={self.output_dim}, input_dim=N, …), with N above the largest id; hash ids that are "
            "larger (elasticdl_preprocessing.layers.Hashing)."
        )

    def _vectors(self, rows: tf.Tensor) -> tf.Tensor:
        if self.input_dim:
            return tf.nn.embedding_lookup(variable_of(self.embeddings), rows)
        vectors = tf.nn.embedding_lookup(variable_of(self.embeddings), tf.maximum(rows, 0))
        return tf.where(tf.expand_dims(rows >= 0, -1), vectors, tf.zeros_like(vectors))

    def _as_sparse(self, ids: tf.Tensor) -> tf.SparseTensor:
        positions = tf.where(tf.not_equal(ids, 0) if self.mask_zero else tf.ones_like(ids, tf.bool))
        return tf.SparseTensor(positions, tf.gather_nd(ids, positions), tf.shape(ids, out_type=tf.int64))

    def compute_mask(self, inputs: AnyTensor, mask: object = None) -> tf.Tensor | None:
        """Returns the mask of ids that are not 0; None without `mask_zero` or with a combiner."""
        if not self.mask_zero or self.combiner is not None:
            return None
        operations = getattr(tf.keras, "ops", tf)  # Keras 3 passes KerasTensors, which tf functions do not accept
        return operations.not_equal(inputs, 0)

    def get_config(self) -> dict[str, object]:
        """Returns the layer's configuration."""
        own = {
            name: getattr(self, name) for name in ("output_dim", "input_dim", "mask_zero", "input_length", "combiner")
        }
        initializer = tf.keras.initializers.serialize(self.embeddings_initializer)
        return {**super().get_config(), **own, "embeddings_initializer": initializer}
