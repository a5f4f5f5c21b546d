"""Digit classification with a custom training loop, without Keras or Estimator, that resumes from checkpoints.

`run_fn` may train in any way that ends with a SavedModel in `fn_args.serving_model_dir`. This loop has the
parts that most custom loops need:

* one compiled step (`tf.function`) that computes gradients with a `GradientTape` and applies them;
* scalars for TensorBoard below `fn_args.model_run_dir`, in `train` and `validation`, which TensorBoard shows
  as two curves in one chart;
* a checkpoint of *all* state (weights, momentum, step) in `fn_args.checkpoint_dir`, written asynchronously
  during the next steps. An interrupted run resumes from the last complete checkpoint with the next batch; a
  preempted run saves a checkpoint before it ends;
* a call of `report_progress` in each step.

An example has a feature `image` (64 floats from 0 to 16, the 8 x 8 pixels row by row) and an int64
`label`. `custom_config` may set `learning_rate` and, for runs without `train_steps`, `epochs`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public.tfxio import TensorFlowDatasetOptions

from generic_trainer import AsyncCheckpoints, FnArgs, report_progress

SCHEMA = """
feature { name: "image" type: FLOAT presence { min_fraction: 1 } shape { dim { size: 64 } } }
feature { name: "label" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }
"""
PIXELS = 64
WHITE = 16.0
DIGITS = 10
HIDDEN_UNITS = 128

LEARNING_RATE = 0.05
MOMENTUM = 0.9
BATCH_SIZE = 32
EPOCHS = 20
STEPS_PER_CHECKPOINT = 100  # also the interval of validation

Weights = dict[str, tf.Variable]
TrainStep = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def make_state() -> tf.train.Checkpoint:
    """Makes the training state: `weights` of a network with one hidden layer, their `velocity`, and the `step`."""

    def matrix(rows: int, columns: int) -> tf.Variable:
        return tf.Variable(tf.random.normal([rows, columns], stddev=(2 / rows) ** 0.5))  # He et al., 2015

    weights = {
        "hidden": matrix(PIXELS, HIDDEN_UNITS),
        "hidden_bias": tf.Variable(tf.zeros([HIDDEN_UNITS])),
        "output": matrix(HIDDEN_UNITS, DIGITS),
        "output_bias": tf.Variable(tf.zeros([DIGITS])),
    }
    velocity = {name: tf.Variable(tf.zeros_like(weight)) for name, weight in weights.items()}
    return tf.train.Checkpoint(weights=weights, velocity=velocity, step=tf.Variable(0, dtype=tf.int64))


def compute_logits(weights: Weights, images: tf.Tensor) -> tf.Tensor:
    """Computes logits of shape [batch, 10] from images of shape [batch, 64]."""
    hidden = tf.nn.relu(images / WHITE @ weights["hidden"] + weights["hidden_bias"])
    return hidden @ weights["output"] + weights["output_bias"]


def mean_loss(weights: Weights, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Computes the mean cross entropy of a batch."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[:, 0], compute_logits(weights, images))
    return tf.reduce_mean(losses)


def make_train_step(state: tf.train.Checkpoint, learning_rate: float) -> TrainStep:
    """Compiles a step of gradient descent with momentum, which takes a batch and returns its loss."""
    weights, velocity = state.weights, state.velocity

    def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = mean_loss(weights, images, labels)
        for name, gradient in tape.gradient(loss, dict(weights)).items():
            velocity[name].assign(MOMENTUM * velocity[name] - learning_rate * gradient)
            weights[name].assign_add(velocity[name])
        state.step.assign_add(1)
        return loss

    # Avoids a retrace for a smaller last batch.
    compiled: TrainStep = tf.function(train_step, reduce_retracing=True)
    return compiled


def validate(weights: Weights, dataset: tf.data.Dataset) -> dict[str, float]:
    """Computes `loss` and `accuracy` over all examples of a dataset."""
    count, loss, correct = 0, 0.0, 0
    for features, labels in dataset:
        predictions = tf.argmax(compute_logits(weights, features["image"]), axis=1)
        count += len(labels)
        loss += len(labels) * float(mean_loss(weights, features["image"], labels))
        correct += int(tf.math.count_nonzero(predictions == labels[:, 0]))
    return {"loss": loss / count, "accuracy": correct / count}


def train(
    state: tf.train.Checkpoint,
    checkpoints: AsyncCheckpoints,
    train_step: TrainStep,
    train_data: tf.data.Dataset,
    validation_data: tf.data.Dataset,
    log_dir: str,
) -> None:
    """Trains on the remaining batches of `train_data`, with validation and a checkpoint every 100 steps.

    Args:
        state: The state, restored from the last checkpoint if there is one.
        checkpoints: Writes the checkpoints.
        train_step: The step from `make_train_step`.
        train_data: All batches from the first one; batches before the state's step are skipped.
        validation_data: The validation batches, read completely each time.
        log_dir: Folder for TensorBoard's folders `train` and `validation`.
    """
    train_log = tf.summary.create_file_writer(os.path.join(log_dir, "train"))
    validation_log = tf.summary.create_file_writer(os.path.join(log_dir, "validation"))

    def validate_and_save() -> None:
        metrics = validate(state.weights, validation_data)
        logging.info("Step %d: validation %s", state.step.numpy(), metrics)
        with validation_log.as_default(step=state.step):
            for name, value in metrics.items():
                tf.summary.scalar(name, value)
        train_log.flush()
        validation_log.flush()
        checkpoints.save(int(state.step))

    for features, labels in train_data.skip(state.step.numpy()):
        loss = train_step(features["image"], labels)
        with train_log.as_default(step=state.step):
            tf.summary.scalar("loss", loss)
        report_progress(state.step.numpy(), examples=len(labels), metrics={"loss": loss})
        if state.step.numpy() % STEPS_PER_CHECKPOINT == 0:
            validate_and_save()
        checkpoints.end_if_asked(state.step.numpy())
    if state.step.numpy() % STEPS_PER_CHECKPOINT:
        validate_and_save()


def export(weights: Weights, serving_model_dir: str) -> None:
    """Saves the model with `serving_default`: serialized tf.Examples in, `probabilities` [batch, 10] out."""
    spec = {"image": tf.io.FixedLenFeature([PIXELS], tf.float32)}

    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        images = tf.io.parse_example(examples, spec)["image"]
        return {"probabilities": tf.nn.softmax(compute_logits(weights, images))}

    module = tf.Module()
    module.weights = weights  # a SavedModel contains the variables reachable from its root object
    signature = [tf.TensorSpec([None], tf.string, name="examples")]
    tf.saved_model.save(module, serving_model_dir, tf.function(serve, input_signature=signature))


def run_fn(fn_args: FnArgs) -> None:
    """Trains, resuming from the last checkpoint if there is one, and exports the model."""
    fn_args = FnArgs.of(fn_args)  # TFX's own Trainer passes neither a seed nor a checkpoint folder
    config = fn_args.custom_config or {}
    # Resuming by skipping batches requires a fixed order of the examples.
    seed = fn_args.seed or 0
    tf.random.set_seed(seed)
    schema = text_format.Parse(SCHEMA, schema_pb2.Schema())

    def make_dataset(patterns: list[str], **options: Any) -> tf.data.Dataset:
        return fn_args.data_accessor.tf_dataset_factory(
            patterns, TensorFlowDatasetOptions(BATCH_SIZE, label_key="label", **options), schema
        )

    # With `train_steps` the examples repeat indefinitely; otherwise they are read `epochs` times.
    epochs = None if fn_args.train_steps else config.get("epochs", EPOCHS)
    train_data = make_dataset(fn_args.train_files, num_epochs=epochs, shuffle_seed=seed)
    train_data = train_data.take(fn_args.train_steps or -1)
    validation_data = make_dataset(fn_args.eval_files, num_epochs=1, shuffle=False).take(fn_args.eval_steps or -1)

    state = make_state()
    train_step = make_train_step(state, config.get("learning_rate", LEARNING_RATE))
    with AsyncCheckpoints(state, fn_args.checkpoint_dir, max_to_keep=2) as checkpoints:
        if latest := checkpoints.restore():
            logging.info("Resuming from %s at step %d.", latest, state.step.numpy())
        train(state, checkpoints, train_step, train_data, validation_data, fn_args.model_run_dir)
    export(state.weights, fn_args.serving_model_dir)
