"""Tip prediction for taxi trips with a Keras classifier and TensorFlow Transform.

The data are Chicago taxi trips, one row each, with fare, payment type, time and place of the trip, and tip.
The module is used by two pipeline steps:

* Transform calls `preprocessing_fn`, which converts raw columns to scaled numbers and integer IDs and derives
  the label `big_tip`. The statistics for this (means, quantiles, vocabularies) are computed in a full pass
  over the training data and stored in the transform graph.
* Trainer calls `run_fn`, which trains a functional Keras model on the transformed examples and exports it
  together with the transform graph, so that the exported model takes raw trips.

The transform graph is a Keras 2 layer, which cannot be part of a Keras 3 model. The trainer therefore runs
this module with `TF_USE_LEGACY_KERAS=1`, which makes `tf.keras` Keras 2.

`custom_config` may set `learning_rate`, `batch_size` and `epochs`. Without `train_steps` an epoch is a pass
over the training data; with `train_steps` the steps are divided into at most `epochs` equal epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
from absl import logging
from tfx_bsl.public.tfxio import TensorFlowDatasetOptions

from generic_trainer import FnArgs, callbacks, strategy

LABEL = "big_tip"
BIG_TIP_SHARE = 0.2  # of the fare

SCALED = ("fare", "trip_miles", "trip_seconds")
COORDINATES = ("pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude")
BUCKETIZED = dict.fromkeys((*SCALED, *COORDINATES), 10)  # number of quantiles
VOCABULARIES = {"payment_type": 10, "company": 60}  # maximum of terms; one more ID is for all others
CATEGORIES = {"trip_start_hour": 24, "trip_start_day": 8, "trip_start_month": 13}  # number of IDs, from 0

EMBEDDING_WIDTH = 4
HIDDEN_UNITS = (32, 16)
DROPOUT = 0.2
LEARNING_RATE = 1e-3
BATCH_SIZE = 64
EPOCHS = 5

Tensors = dict[str, tf.Tensor]


def to_dense(column: Any) -> tf.Tensor:
    """Converts a column to a dense tensor of shape [batch, 1], with 0 or '' for missing values."""
    if not isinstance(column, tf.SparseTensor):
        return column
    default = "" if column.dtype == tf.string else 0
    one_value_each = tf.SparseTensor(column.indices, column.values, [column.dense_shape[0], 1])
    return tf.sparse.to_dense(one_value_each, default)


def preprocessing_fn(inputs: dict[str, Any]) -> Tensors:
    """Converts raw trips to the model's features and the label.

    Args:
        inputs: The raw columns by name, each sparse, or dense of shape [batch, 1].

    Returns:
        float32 `<column>_scaled`, int64 `<column>_bucket` and `<column>_id`, and the int64 label
        `big_tip` (0 or 1), all of shape [batch, 1].
    """
    outputs = {}
    for name in SCALED:
        # Distances, times and fares have long tails, which the logarithm reduces.
        logarithm = tf.math.log1p(tf.cast(to_dense(inputs[name]), tf.float32))
        outputs[f"{name}_scaled"] = tft.scale_to_z_score(logarithm)
    for name, buckets in BUCKETIZED.items():
        outputs[f"{name}_bucket"] = tft.bucketize(to_dense(inputs[name]), buckets)
    for name, size in VOCABULARIES.items():
        outputs[f"{name}_id"] = tft.compute_and_apply_vocabulary(
            to_dense(inputs[name]), top_k=size, num_oov_buckets=1, vocab_filename=name
        )
    for name, size in CATEGORIES.items():
        # An ID beyond the embedding's last row would be an error in serving.
        outputs[f"{name}_id"] = tf.clip_by_value(to_dense(inputs[name]), 0, size - 1)
    # The tip is used for the label only: it is not known at serving time.
    is_big = to_dense(inputs["tips"]) > BIG_TIP_SHARE * to_dense(inputs["fare"])
    outputs[LABEL] = tf.cast(is_big, tf.int64)
    return outputs


def build_model(learning_rate: float) -> tf.keras.Model:
    """Builds and compiles the classifier: an embedding per ID column, followed by a small dense network."""
    numbers = {f"{name}_scaled": tf.keras.Input((1,), name=f"{name}_scaled") for name in SCALED}
    sizes = {f"{name}_bucket": buckets for name, buckets in BUCKETIZED.items()}
    sizes |= {f"{name}_id": size + 1 for name, size in VOCABULARIES.items()}
    sizes |= {f"{name}_id": size for name, size in CATEGORIES.items()}
    ids = {name: tf.keras.Input((1,), name=name, dtype=tf.int64) for name in sizes}

    embedded = [
        tf.keras.layers.Flatten()(tf.keras.layers.Embedding(sizes[name], EMBEDDING_WIDTH)(column))
        for name, column in ids.items()
    ]
    hidden = tf.keras.layers.Concatenate()([*numbers.values(), *embedded])
    for units in HIDDEN_UNITS:
        hidden = tf.keras.layers.Dense(units, activation="relu")(hidden)
        hidden = tf.keras.layers.Dropout(DROPOUT)(hidden)
    probability = tf.keras.layers.Dense(1, activation="sigmoid", name="probability")(hidden)

    model = tf.keras.Model(numbers | ids, probability)
    model.compile(
        optimizer=tf.keras.optimizers.Adam(learning_rate),
        loss=tf.keras.losses.BinaryCrossentropy(),
        metrics=[tf.keras.metrics.AUC(name="auc"), tf.keras.metrics.BinaryAccuracy(name="accuracy")],
    )
    return model


def warm_start(model: tf.keras.Model, base_model: str) -> None:
    """Sets the weights from an earlier export, or logs a warning if that has another architecture.

    IDs may since have been assigned to other terms and quantiles, which training corrects.
    """
    weights = tf.keras.models.load_model(base_model, compile=False).get_weights()
    if [w.shape for w in weights] == [w.shape for w in model.get_weights()]:
        model.set_weights(weights)
    else:
        logging.warning("%s has other weight shapes than this model: training starts with random weights.", base_model)


def make_signatures(
    model: tf.keras.Model, tft_output: tft.TFTransformOutput
) -> dict[str, Callable[[tf.Tensor], Tensors]]:
    """Makes the signatures of the exported model, which both take serialized raw tf.Examples.

    Args:
        model: The trained model. The transform graph is set as an attribute, so that its vocabularies are
            exported with the model.
        tft_output: The output of Transform.

    Returns:
        `serving_default`, which returns `probability` of shape [batch, 1], and `transform_features`, which
        returns all transformed columns and the label, for TFMA's `preprocessing_function_names`.
    """
    model.transform = tft_output.transform_features_layer()
    raw_spec = tft_output.raw_feature_spec()
    serving_spec = {name: spec for name, spec in raw_spec.items() if name != "tips"}

    def serve(examples: tf.Tensor) -> Tensors:
        features = model.transform(tf.io.parse_example(examples, serving_spec))
        return {"probability": model(features)}

    def transform_features(examples: tf.Tensor) -> Tensors:
        features: Tensors = model.transform(tf.io.parse_example(examples, raw_spec))
        return features

    signature = [tf.TensorSpec([None], tf.string, name="examples")]
    return {
        "serving_default": tf.function(serve, input_signature=signature),
        "transform_features": tf.function(transform_features, input_signature=signature),
    }


def count_epochs(steps: int, max_epochs: int) -> int:
    """Returns the largest number of epochs, at most `max_epochs`, into which the steps can be divided evenly."""
    return max(epochs for epochs in range(1, max_epochs + 1) if steps % epochs == 0)


def run_fn(fn_args: FnArgs) -> None:
    """Trains the model, logs to TensorBoard and exports to `fn_args.serving_model_dir`."""
    fn_args = FnArgs.of(fn_args)  # TFX's own Trainer passes no seed
    distribution = strategy(fn_args)  # must be created before other TensorFlow operations
    config = fn_args.custom_config or {}
    batch_size = config.get("batch_size", BATCH_SIZE)
    if fn_args.seed is not None:
        tf.keras.utils.set_random_seed(fn_args.seed)
    tft_output = tft.TFTransformOutput(fn_args.transform_graph_path)

    def make_dataset(patterns: list[str], **options: Any) -> tf.data.Dataset:
        return fn_args.data_accessor.tf_dataset_factory(
            patterns,
            TensorFlowDatasetOptions(batch_size, label_key=LABEL, **options),
            tft_output.transformed_metadata.schema,
        )

    steps, epochs = fn_args.train_steps, config.get("epochs", EPOCHS)
    if steps:
        epochs = count_epochs(steps, epochs)
    train = make_dataset(fn_args.train_files, num_epochs=None if steps else 1, shuffle_seed=fn_args.seed)
    # One pass in a fixed order, so that every validation uses the same examples.
    validation = make_dataset(fn_args.eval_files, num_epochs=1, shuffle=False).take(fn_args.eval_steps or -1)

    with distribution.scope():
        model = build_model(config.get("learning_rate", LEARNING_RATE))
    if fn_args.base_model:
        warm_start(model, fn_args.base_model)
    model.fit(
        train,
        epochs=epochs,
        steps_per_epoch=steps // epochs if steps else None,
        validation_data=validation,
        # Checkpoints to resume an interrupted training, and TensorBoard logs.
        callbacks=callbacks(fn_args, endless_data=bool(steps)),
        verbose=2,
    )
    model.save(fn_args.serving_model_dir, save_format="tf", signatures=make_signatures(model, tft_output))
