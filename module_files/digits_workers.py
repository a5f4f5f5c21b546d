r"""Digit classification with a custom training loop for one machine, several GPUs or several workers, in Keras 3.

Keras 3 on TensorFlow does not support `fit` with several workers; a custom training loop can train its models
there. This loop gets its `tf.distribute.Strategy` from `generic_trainer.strategy`, and is otherwise written as
for one machine:

* a batch is a *global* batch: the strategy gives each worker a part of it, so that the same batches give the
  same model with any number of workers;
* gradients are summed over all workers and divided by the number of examples in the global batch;
* the checkpoint contains the step. A run that resumes from it, with any number of workers, skips the batches
  that were already trained on;
* `report_progress` reports each step. For several workers the progress is shown in one line, and the summary
  contains the steps that were repeated after a failure;
* all workers call `save` and the export, because reading some kinds of variables is a collective operation.
  Files written by workers other than the chief are discarded.

    generic-trainer train digits_workers.py --train-files … --train-steps 300 --output out \
        --engine ray --workers 2

An example has a feature `image` (64 floats from 0 to 16, the 8 x 8 pixels row by row) and an int64
`label`. `custom_config` may set `learning_rate`.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from absl import logging
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public.tfxio import TensorFlowDatasetOptions

from generic_trainer import AsyncCheckpoints, FnArgs, report_progress, strategy

SCHEMA = """
feature { name: "image" type: FLOAT presence { min_fraction: 1 } shape { dim { size: 64 } } }
feature { name: "label" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }
"""
PIXELS = 64
WHITE = 16.0
DIGITS = 10
HIDDEN_UNITS = 128

LEARNING_RATE = 0.1
BATCH_SIZE = 32  # global batch size
STEPS = 500
STEPS_PER_CHECKPOINT = 50


def build_model() -> keras.Model:
    """Builds a network with logits of shape [batch, 10]."""
    return keras.Sequential(
        [
            keras.Input([PIXELS], name="image"),
            keras.layers.Rescaling(1 / WHITE),
            keras.layers.Dense(HIDDEN_UNITS, activation="relu"),
            keras.layers.Dense(DIGITS),
        ]
    )


def make_train_step(model: keras.Model, optimizer: keras.Optimizer, distribution: tf.distribute.Strategy) -> Any:
    """Compiles a step, which takes a distributed global batch and returns its mean loss."""

    def replica_step(features: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        examples = context.all_reduce("SUM", tf.cast(tf.shape(labels)[0], tf.float32))
        with tf.GradientTape() as tape:
            logits = model(features["image"], training=True)
            loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels[:, 0], logits)) / examples
        # Keras sums the gradients over all workers when it applies them.
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    @tf.function
    def train_step(batch: Any) -> tf.Tensor:
        return distribution.reduce("SUM", distribution.run(replica_step, args=batch), axis=None)

    return train_step


def validate(model: keras.Model, dataset: tf.data.Dataset) -> float:
    """Computes the accuracy over all examples of a dataset, independently on each worker."""
    correct = count = 0
    for features, labels in dataset:
        predictions = tf.argmax(model(features["image"]), axis=1)
        correct += int(tf.math.count_nonzero(predictions == labels[:, 0]))
        count += len(labels)
    return correct / count


def export(model: keras.Model, serving_model_dir: str) -> None:
    """Saves the model with `serving_default`: serialized tf.Examples in, `probabilities` [batch, 10] out."""
    spec = {"image": tf.io.FixedLenFeature([PIXELS], tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probabilities": tf.nn.softmax(model(tf.io.parse_example(examples, spec)["image"]))}

    tf.saved_model.save(model, serving_model_dir, signatures=serve)


def run_fn(fn_args: FnArgs) -> dict[str, float]:
    """Trains, resuming from the last checkpoint if there is one, and exports the model."""
    fn_args = FnArgs.of(fn_args)  # TFX's own Trainer passes neither a seed nor a checkpoint folder
    distribution = strategy(fn_args)
    seed = fn_args.seed or 0
    keras.utils.set_random_seed(seed)  # the same initial weights on all workers
    schema = text_format.Parse(SCHEMA, schema_pb2.Schema())

    def make_dataset(patterns: list[str], **options: Any) -> tf.data.Dataset:
        return fn_args.data_accessor.tf_dataset_factory(
            patterns, TensorFlowDatasetOptions(BATCH_SIZE, label_key="label", **options), schema
        )

    with distribution.scope():
        model = build_model()
        optimizer = keras.optimizers.SGD((fn_args.custom_config or {}).get("learning_rate", LEARNING_RATE))
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64)
    state = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    train_step = make_train_step(model, optimizer, distribution)
    steps = fn_args.train_steps or STEPS

    with AsyncCheckpoints(state, fn_args.checkpoint_dir, max_to_keep=2) as checkpoints:
        if latest := checkpoints.restore():
            logging.info("Resuming from %s.", latest)
        first_step, loss = int(step.numpy()), tf.constant(float("nan"))
        report_progress(first_step)
        batches = make_dataset(fn_args.train_files, shuffle_seed=seed).take(steps).skip(first_step)
        for number, batch in enumerate(distribution.experimental_distribute_dataset(batches), first_step + 1):
            loss = train_step(batch)
            step.assign(number)
            report_progress(number, examples=BATCH_SIZE / fn_args.num_workers)
            if number % STEPS_PER_CHECKPOINT == 0 or number == steps:
                logging.info("Step %d: loss %.4f", number, loss)
                checkpoints.save(number)

    accuracy = validate(model, make_dataset(fn_args.eval_files, num_epochs=1, shuffle=False))
    logging.info("Accuracy of the evaluation: %.4f", accuracy)
    export(model, fn_args.serving_model_dir)
    return {"loss": float(loss), "eval_accuracy": accuracy}
