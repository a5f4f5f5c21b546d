"""Evaluates examples of the validation data after training, whose labels only the model file's `feed` can compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from ...evaluation.evaluated_examples import Batch
from .export import name_outputs
from .job import call_model
from .shim.tensor_values import Tensors


def evaluated_batches(model: tf.keras.Model, data: tf.data.Dataset) -> Iterator[Batch]:
    """Yields labels, outputs and features of each batch, for `evaluated_examples.collect`.

    Args:
      model: The trained model.
      data: Batches of features and labels.
    """
    predict = tf.function(lambda features: name_outputs(call_model(model, features, False)), reduce_retracing=True)
    for features, labels in data:
        outputs = {name: value.numpy() for name, value in predict(features).items()}
        yield labels.numpy() if isinstance(labels, tf.Tensor) else None, outputs, _arrays(features)


def _arrays(features: Tensors) -> dict[str, np.ndarray]:
    """Returns the dense features by name."""
    if isinstance(features, Mapping):
        named = dict(features)
    elif isinstance(features, Sequence):
        named = {f"input_{number}": value for number, value in enumerate(features)}
    else:
        named = {"input": features}
    return {str(name): value.numpy() for name, value in named.items() if isinstance(value, tf.Tensor)}
