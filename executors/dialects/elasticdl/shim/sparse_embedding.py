"""The layer `elasticdl_preprocessing.layers.SparseEmbedding`, which combines the embeddings of each example's ids."""

from __future__ import annotations

import tensorflow as tf

from .tensor_values import AnyTensor, variable_of

COMBINERS = ("sum", "mean", "sqrtn")


@tf.keras.utils.register_keras_serializable("elasticdl_preprocessing")
class SparseEmbedding(tf.keras.layers.Layer):  # type: ignore[misc]
    """Maps ids [batch, n] to combined vectors [batch, output_dim]; zeros for examples without ids."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: tf.keras.initializers.Initializer | str = "uniform",
        combiner: str = "mean",
        **kwargs: object,
    ) -> None:
        """Sets the dimensions and options.

        Args:
          input_dim: Ids are less than this; negative ids are ignored.
          output_dim: The length of the vectors.
          embeddings_initializer: A Keras initializer, or its name.
          combiner: "sum", "mean" or "sqrtn" (the sum divided by the square root of the number of ids).
          **kwargs: Arguments of `tf.keras.layers.Layer`.

        Raises:
          ValueError: When the combiner is invalid.
        """
        super().__init__(**kwargs)
        if combiner not in COMBINERS:
            raise ValueError(f"SparseEmbedding {self.name!r}: combiner is {combiner!r}; it must be one of {COMBINERS}.")
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.embeddings_initializer = tf.keras.initializers.get(embeddings_initializer)
        self.combiner = combiner

    def build(self, input_shape: tf.TensorShape | tuple[int | None, ...]) -> None:
        """Creates the embedding weights."""
        shape = (self.input_dim, self.output_dim)
        self.embeddings = self.add_weight(name="embeddings", shape=shape, initializer=self.embeddings_initializer)
        self.built = True

    def call(self, inputs: AnyTensor) -> tf.Tensor:
        """Returns the combined vectors of ids [batch, n]: sparse, ragged, or dense with 0 as padding."""
        if isinstance(inputs, tf.RaggedTensor):
            inputs = inputs.to_sparse()
        elif not isinstance(inputs, tf.SparseTensor):
            inputs = tf.sparse.from_dense(inputs)
        ids = tf.cast(inputs, tf.int64)
        return tf.nn.safe_embedding_lookup_sparse(variable_of(self.embeddings), ids, combiner=self.combiner)

    def get_config(self) -> dict[str, object]:
        """Returns the layer's configuration."""
        initializer = tf.keras.initializers.serialize(self.embeddings_initializer)
        own = {"input_dim": self.input_dim, "output_dim": self.output_dim, "combiner": self.combiner}
        return {**super().get_config(), **own, "embeddings_initializer": initializer}
