"""SavedModels of plain functions. TensorFlow is imported at the first call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def save_model(
    answer: Callable[[dict[str, Any]], Any],
    folder: str | os.PathLike[str],
    features: Sequence[str] | Mapping[str, Any] = ("x",),
    tracked: Any = None,
) -> str:
    """Saves a model with a signature that parses tf.Examples; returns its folder.

    Args:
      answer: Computes the outputs from the parsed features by name.
      folder: The model's folder.
      features: Names of features of one float each, or a spec of `tf.io.parse_example`.
      tracked: What the answer uses and the model must contain: variables, a Keras model.
    """
    import tensorflow as tf

    is_spec = isinstance(features, Mapping)
    spec = features if is_spec else dict.fromkeys(features, tf.io.FixedLenFeature([1], tf.float32))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples: Any) -> Any:
        return answer(tf.io.parse_example(examples, spec))

    return _save(serve, folder, tracked)


def save_function(answer: Callable[..., Any], folder: str | os.PathLike[str], *inputs: Any, tracked: Any = None) -> str:
    """Saves a model with a signature that takes tensors, by a `tf.TensorSpec` each; returns its folder."""
    import tensorflow as tf

    return _save(tf.function(answer, input_signature=inputs), folder, tracked)


def _save(serve: Any, folder: str | os.PathLike[str], tracked: Any) -> str:
    import tensorflow as tf

    module = tf.Module()
    module.serve, module.tracked = serve, tracked
    tf.saved_model.save(module, str(folder), signatures={"serving_default": serve})
    return str(folder)
