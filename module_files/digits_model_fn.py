"""Digit classification with a custom Estimator: a convolutional network as `model_fn`.

A module with a custom Estimator only has to define two functions. `input_fn` returns the examples, `model_fn` builds
the graph for each of the modes TRAIN, EVAL and PREDICT. The trainer builds the `tf.estimator.Estimator`, its TrainSpec
and its EvalSpec from them, and passes each function the arguments in its signature: `fn_args`, `mode`, `params`,
`config`, or entries of `params`. The other definitions are optional:

* `params`: hyper-parameters; `custom_config` takes precedence;
* `run_config`: the interval of checkpoints; each is followed by an evaluation (`throttle_secs`);
* `exporters`: here the best checkpoint is exported instead of the last one;
* `hooks`: hooks for training.

Layers, losses and metrics of TensorFlow 1 are available in `tf.compat.v1` of every TensorFlow 2. The examples are
those of `digits_custom_loop.py`, with `label` as one of the features.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public.tfxio import TensorFlowDatasetOptions

if TYPE_CHECKING:
    from generic_trainer import FnArgs

v1 = tf.compat.v1
Modes = tf.estimator.ModeKeys

SCHEMA = """
feature { name: "image" type: FLOAT presence { min_fraction: 1 } shape { dim { size: 64 } } }
feature { name: "label" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }
"""
PIXELS = 64
WHITE = 16.0
DIGITS = 10
STEPS_PER_LOG = 100

params = {"learning_rate": 0.002, "dropout": 0.4, "batch_size": 32}
run_config = tf.estimator.RunConfig(save_checkpoints_steps=200, keep_checkpoint_max=3)
throttle_secs = 0
hooks = [v1.train.LoggingTensorHook({"accuracy": "batch_accuracy"}, every_n_iter=STEPS_PER_LOG)]

Tensors = dict[str, tf.Tensor]


def input_fn(fn_args: FnArgs, mode: str, batch_size: int) -> tf.data.Dataset:
    """Reads images [batch, 64] and labels [batch, 1]; for training shuffled with the seed and repeated indefinitely."""
    training = mode == Modes.TRAIN
    options = TensorFlowDatasetOptions(
        batch_size,
        num_epochs=None if training else 1,
        shuffle=training,
        shuffle_seed=fn_args.seed,
        label_key="label",
    )
    files = fn_args.train_files if training else fn_args.eval_files
    return fn_args.data_accessor.tf_dataset_factory(files, options, text_format.Parse(SCHEMA, schema_pb2.Schema()))


def compute_logits(images: tf.Tensor, dropout: float, training: bool) -> tf.Tensor:
    """Computes logits of shape [batch, 10] from images of shape [batch, 64]."""
    hidden = tf.reshape(images / WHITE, [-1, 8, 8, 1])
    for filters in (16, 32):
        hidden = v1.layers.conv2d(hidden, filters, kernel_size=3, padding="same", activation=tf.nn.relu)
        hidden = v1.layers.max_pooling2d(hidden, pool_size=2, strides=2)
    hidden = v1.layers.dense(v1.layers.flatten(hidden), 64, activation=tf.nn.relu)
    return v1.layers.dense(v1.layers.dropout(hidden, dropout, training=training), DIGITS)


def model_fn(
    features: Tensors, labels: tf.Tensor, mode: str, params: dict[str, Any], config: tf.estimator.RunConfig
) -> tf.estimator.EstimatorSpec:
    """Builds the graph for one mode.

    Args:
        features: `image` [batch, 64].
        labels: [batch, 1]; None in PREDICT mode.
        mode: A key of `tf.estimator.ModeKeys`.
        params: `learning_rate` and `dropout`.
        config: The RunConfig, with the model folder.
    """
    logits = compute_logits(features["image"], params["dropout"], mode == Modes.TRAIN)
    predictions = {"classes": tf.argmax(logits, axis=1), "probabilities": tf.nn.softmax(logits)}
    if mode == Modes.PREDICT:
        outputs = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)

    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == Modes.EVAL:
        metrics = {"accuracy": v1.metrics.accuracy(labels, predictions["classes"][:, tf.newaxis])}
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops=metrics, evaluation_hooks=[confidence_hook(predictions, config)]
        )

    is_correct = tf.cast(tf.equal(labels[:, 0], predictions["classes"]), tf.float32)
    tf.reduce_mean(is_correct, name="batch_accuracy")  # logged by the hook above, by this name
    optimizer = v1.train.AdamOptimizer(params["learning_rate"])
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def confidence_hook(predictions: Tensors, config: tf.estimator.RunConfig) -> tf.compat.v1.train.SummarySaverHook:
    """Makes a hook that logs a histogram of the highest probabilities; evaluations log only metrics by default."""
    summary = v1.summary.histogram("confidence", tf.reduce_max(predictions["probabilities"], axis=1))
    folder = os.path.join(config.model_dir, "eval")  # beside the metrics
    return v1.train.SummarySaverHook(save_steps=1, output_dir=folder, summary_op=summary)


def serving_input_receiver_fn() -> tf.estimator.export.ServingInputReceiver:
    """Returns the exported model's input: serialized tf.Examples."""
    spec = {"image": tf.io.FixedLenFeature([PIXELS], tf.float32)}
    receiver: tf.estimator.export.ServingInputReceiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        spec
    )()
    return receiver


def exporters() -> tf.estimator.BestExporter:
    """Returns an exporter for each evaluation with a higher accuracy than all earlier ones."""

    def is_better(best_eval_result: dict[str, float], current_eval_result: dict[str, float]) -> bool:
        return current_eval_result["accuracy"] > best_eval_result["accuracy"]

    return tf.estimator.BestExporter("best", serving_input_receiver_fn, compare_fn=is_better, exports_to_keep=2)
