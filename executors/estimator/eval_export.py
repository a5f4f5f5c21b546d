"""Exports an Estimator's evaluation model in a format that current TFMA releases read.

An Estimator's serving model returns predictions but often not an example's label: TFX modules compute the label in
`eval_input_receiver_fn`, usually with the transform graph. TFMA up to 0.46 had a special format for a model with both.
Later releases accept any SavedModel, with predictions from one signature and labels from another. This module exports
the serving model again, with the evaluation's input receiver and a second signature:

    predict, serving_default, …     exports of the model_fn, from serialized examples
    transform_features              `label`, from serialized examples; several labels have their own names

TFMA reads it with `ModelSpec(model_type="tfma_eval", preprocessing_function_names=["transform_features"],
label_key="label", prediction_key=…)`; with this model type, TFX looks for the model in `Format-TFMA`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

if TYPE_CHECKING:
    from tensorflow.core.protobuf import meta_graph_pb2

    from .tfma_export import EvalInputReceiver

LABEL_SIGNATURE = "transform_features"
LABEL = "label"
_EVAL_TAG = "eval"  # the tag that TFMA loads for model type tfma_eval


def export_eval_savedmodel(
    estimator: tf.estimator.Estimator,
    export_dir_base: str,
    eval_input_receiver_fn: Callable[[], EvalInputReceiver],
    serving_input_receiver_fn: object = None,
    assets_extra: Mapping[str, str] | None = None,
    checkpoint_path: str | None = None,
) -> str:
    """Writes the evaluation model; the arguments are those of TFMA's function with this name.

    Args:
      estimator: The trained Estimator.
      export_dir_base: Parent folder; the model is written to `<export_dir_base>/<timestamp>`.
      eval_input_receiver_fn: Returns features, labels, and a placeholder `examples`.
      serving_input_receiver_fn: Ignored.
      assets_extra: {name below `assets.extra`: file to copy}.
      checkpoint_path: Checkpoint with the weights; by default the latest one. A SavedModel's `…/variables/variables` is
        also accepted.

    Returns:
      Folder of the exported model.
    """
    del serving_input_receiver_fn
    labels: dict[str, tf.Tensor] = {}
    examples: list[tf.Tensor] = []

    def receiver_fn() -> tf.estimator.export.ServingInputReceiver:
        receiver = eval_input_receiver_fn()
        labels.update(receiver.labels if isinstance(receiver.labels, Mapping) else {LABEL: receiver.labels})
        examples.append(receiver.receiver_tensors["examples"])
        return tf.estimator.export.ServingInputReceiver(receiver.features, {"examples": examples[0]})

    exported = estimator.export_saved_model(
        export_dir_base, receiver_fn, assets_extra=assets_extra, checkpoint_path=checkpoint_path
    )
    folder: str = tf.compat.as_str(exported)
    with examples[0].graph.as_default():
        signature = tf.compat.v1.saved_model.predict_signature_def({"examples": examples[0]}, labels)
    _add_signature(os.path.join(folder, tf.saved_model.SAVED_MODEL_FILENAME_PB), signature)
    return folder


def _add_signature(path: str, signature: meta_graph_pb2.SignatureDef) -> None:
    """Adds the label signature to a SavedModel's only graph, which already has the tensors, and replaces its tags."""
    with tf.io.gfile.GFile(path, "rb") as file:
        saved_model = saved_model_pb2.SavedModel.FromString(file.read())
    [graph] = saved_model.meta_graphs
    graph.signature_def[LABEL_SIGNATURE].CopyFrom(signature)
    graph.meta_info_def.tags[:] = [_EVAL_TAG]
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(saved_model.SerializeToString())
