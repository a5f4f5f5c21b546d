"""The layer `elasticdl.python.elasticdl.layers.embedding.Embedding`.

ElasticDL kept its vectors on parameter servers; here they are a weight of the model. A layer with `input_dim` has a
row for every id. One without takes any int64 as an id and gives each a row when it first comes in training, as the
parameter servers did; in evaluation and when serving, an id that never came has a vector of zeros, and counts for
nothing where vectors are combined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from . import id_index
from .sparse_embedding import COMBINERS
from .tensor_values import AnyTensor, variable_of

if TYPE_CHECKING:
    import keras

# Vectors that a layer without input_dim has room for: 32 MiB of vectors of 64 numbers, and twice that in an optimizer.
MAX_IDS = 1 << 17


@tf.keras.utils.register_keras_serializable("elasticdl")
class Embedding(tf.keras.layers.Layer):  # type: ignore[misc]
    """Returns the vectors of ids [rows, n]: [rows, n, output_dim], or with a combiner [rows, output_dim]."""

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
        """Takes the sizes.

        Args:
          output_dim: The length of a vector.
          input_dim: Ids are at least 0 and less than this. None or 0 for ids of any value, at most `MAX_IDS` of them.
          embeddings_initializer: A Keras initializer, or its name.
          mask_zero: Whether id 0 stands for no id. Not for sparse ids.
          input_length: The number of ids in a row, where it is always the same.
          combiner: "sum", "mean" or "sqrtn" (the sum by the square root of the number of ids); None for a vector for
            each id. Sparse and ragged ids need one. (ElasticDL's code ignored it for dense ids, against its guide.)
          **kwargs: Those of every Keras layer.

        Raises:
          ValueError: When the combiner is none of them.
        """
        kwargs.pop("embedding_service_endpoint", None)  # versions of 2019 took the address of their Redis
        if input_length and "input_shape" not in kwargs:
            kwargs["input_shape"] = (input_length,)
        super().__init__(**kwargs)
        if combiner not in (None, *COMBINERS):
            raise ValueError(f"Embedding {self.name!r}: combiner is {combiner!r}; give one of {COMBINERS} or None.")
        self.output_dim = output_dim
        self.input_dim = input_dim
        self.embeddings_initializer = tf.keras.initializers.get(embeddings_initializer)
        self.mask_zero = mask_zero
        self.supports_masking = mask_zero
        self.input_length = input_length
        self.combiner = combiner

    def build(self, input_shape: tf.TensorShape | tuple[int | None, ...]) -> None:
        """Makes the vectors, and the index of ids where there is no `input_dim`."""
        rows = self.input_dim or MAX_IDS
        shape = (rows, self.output_dim)
        self.embeddings = self.add_weight(name="embeddings", shape=shape, initializer=self.embeddings_initializer)
        if not self.input_dim:
            self.known_ids = self._index("known_ids", rows, id_index.UNUSED)
            self.known_rows = self._index("known_rows", rows, -1)
            self._turns = id_index.turns(variable_of(self.known_ids))
        self.built = True

    def _index(self, name: str, rows: int, unused: int) -> tf.Variable | keras.Variable:
        def initializer(shape: tuple[int, ...], dtype: object = None, **unused_options: object) -> tf.Tensor:
            return tf.fill(shape, tf.constant(unused, tf.int64))

        return self.add_weight(name=name, shape=(rows,), dtype="int64", initializer=initializer, trainable=False)

    def call(self, inputs: AnyTensor, training: bool | None = None) -> tf.Tensor:
        """Looks up the vectors.

        Args:
          inputs: The ids: dense, sparse or ragged, whole numbers of any type.
          training: Whether ids that are new get a row, where there is no `input_dim`. Keras says it to the layers of a
            model that is called with it, not to those of one whose `call` is called.

        Raises:
          ValueError: When ids are sparse and there is no combiner, or they are sparse and 0 is to be masked.
        """
        if isinstance(inputs, tf.RaggedTensor):
            inputs = inputs.to_sparse()
        sparse = isinstance(inputs, tf.SparseTensor)
        if sparse and (self.combiner is None or self.mask_zero):
            wanted = f"a combiner, one of {COMBINERS}" if self.combiner is None else "mask_zero=False"
            raise ValueError(f"Embedding {self.name!r}: the ids are sparse or ragged, which needs {wanted}.")
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
            return id_index.rows_of(ids, known_ids, known_rows)
        return self._turns(lambda: id_index.learn(ids, known_ids, known_rows, self._full()))

    def _full(self) -> str:
        return (
            f"Embedding {self.name!r} has no input_dim and more than {MAX_IDS} different ids came. Write "
            f"Embedding(output_dim={self.output_dim}, input_dim=N, …), with N above the largest id; hash ids that are "
            "larger (elasticdl_preprocessing.layers.Hashing)."
        )

    def _vectors(self, rows: tf.Tensor) -> tf.Tensor:
        if self.input_dim:
            return tf.nn.embedding_lookup(variable_of(self.embeddings), rows)
        vectors = tf.nn.embedding_lookup(variable_of(self.embeddings), tf.maximum(rows, 0))
        return tf.where(tf.expand_dims(rows >= 0, -1), vectors, tf.zeros_like(vectors))

    def _as_sparse(self, ids: tf.Tensor) -> tf.SparseTensor:
        places = tf.where(tf.not_equal(ids, 0) if self.mask_zero else tf.ones_like(ids, tf.bool))
        return tf.SparseTensor(places, tf.gather_nd(ids, places), tf.shape(ids, out_type=tf.int64))

    def compute_mask(self, inputs: AnyTensor, mask: object = None) -> tf.Tensor | None:
        """Returns where an id is not 0, if that is to be masked and the ids are not combined."""
        if not self.mask_zero or self.combiner is not None:
            return None
        operations = getattr(tf.keras, "ops", tf)  # Keras 3 asks for the mask of what only its own functions take
        return operations.not_equal(inputs, 0)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments."""
        own = {
            name: getattr(self, name) for name in ("output_dim", "input_dim", "mask_zero", "input_length", "combiner")
        }
        initializer = tf.keras.initializers.serialize(self.embeddings_initializer)
        return {**super().get_config(), **own, "embeddings_initializer": initializer}
