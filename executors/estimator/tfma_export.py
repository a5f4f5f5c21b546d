"""`tfma.export` for TFMA releases that removed it (0.47 and later).

Modules for TFX up to 0.29 define an evaluation model with `tfma.export.EvalInputReceiver` and write it with
`tfma.export.export_eval_savedmodel`. TFMA releases after 0.46 cannot read such a model. This module provides these
names, and writes a SavedModel that the newer releases can read.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from absl import logging

if TYPE_CHECKING:
    import tensorflow as tf


class EvalInputReceiver(NamedTuple):
    """Return value of an `eval_input_receiver_fn`; see TFMA 0.46.

    Attributes:
      features: Tensors by name.
      labels: The label tensor, or tensors by name.
      receiver_tensors: The placeholders for serialized examples.
      input_refs: For each row, the index of its example.
    """

    features: tf.Tensor | Mapping[str, tf.Tensor]
    labels: tf.Tensor | Mapping[str, tf.Tensor] | None
    receiver_tensors: Mapping[str, tf.Tensor]
    input_refs: tf.Tensor | None = None


def build_parsing_eval_input_receiver_fn(
    feature_spec: Mapping[str, tf.io.FixedLenFeature | tf.io.VarLenFeature], label_key: str | None
) -> Callable[[], EvalInputReceiver]:
    """Returns an eval_input_receiver_fn that parses serialized tf.Examples.

    Args:
      feature_spec: A `FixedLenFeature` or `VarLenFeature` by name, including the label's.
      label_key: Name of the label; None for a model without one. The label also stays in the features, as in TFMA.
    """

    def eval_input_receiver_fn() -> EvalInputReceiver:
        import tensorflow as tf

        examples = tf.compat.v1.placeholder(tf.string, [None], "input_example_tensor")
        features = tf.io.parse_example(examples, dict(feature_spec))
        label = None if label_key is None else features[label_key]
        return EvalInputReceiver(features, label, {"examples": examples})

    return eval_input_receiver_fn


def export_eval_savedmodel(**arguments: Any) -> object:
    """Writes the evaluation model with TFMA's own function if it exists, otherwise with `eval_export`.

    If `eval_export` fails, logs a warning and returns None: serving does not need the model, and the Evaluator only
    needs it if the label is not in the raw examples.
    """
    # A module that uses TFMA's receiver has already imported TFMA.
    own = getattr(sys.modules.get("tensorflow_model_analysis"), "export", None)
    if own not in (None, sys.modules[__name__]):
        return own.export_eval_savedmodel(**arguments)
    from . import eval_export

    try:
        return eval_export.export_eval_savedmodel(**arguments)
    except Exception as error:
        logging.warning("The evaluation model was not written: %s: %s", type(error).__name__, error)
        return None


def restore_tfma_export() -> None:
    """Makes `tfma.export` available in this process; no-op if TFMA has it."""
    tfma: Any = importlib.import_module("tensorflow_model_analysis")
    if not hasattr(tfma, "export"):
        tfma.export = sys.modules["tensorflow_model_analysis.export"] = sys.modules[__name__]
