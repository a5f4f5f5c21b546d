"""Will this taxi rider leave a big tip? A Keras classifier behind TensorFlow Transform.

The data are Chicago taxi trips, one row each, with the fare, the way it was paid, when and where the
trip went, and the tip. One file serves two pipeline steps:

* Transform calls `preprocessing_fn`: raw columns become scaled numbers and small integer ids, and the
  label `big_tip` is derived. The statistics that this takes (means, quantiles, vocabularies) come from
  a full pass over the training data and end up in the transform graph.
* Trainer calls `run_fn`: a functional Keras model is trained on the transformed examples and exported
  together with that graph, so that whoever calls the model sends raw, untransformed trips.

The transform graph is a layer of Keras 2. The trainer therefore has to run this module with
`TF_USE_LEGACY_KERAS=1`, under which `tf.keras` is Keras 2 as well; the two can't be mixed in one model.

`custom_config` may set `learning_rate`, `batch_size` and `epochs`. Without `train_steps` an epoch is a
pass over the training data; with them, the steps are cut into at most so many equal epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tensorflow_transform as tft
from absl import logging
from tfx_bsl.public.tfxio import TensorFlowDatasetOptions

from generic_trainer import callbacks, strategy

if TYPE_CHECKING:
    from generic_trainer import FnArgs

LABEL = "big_tip"
BIG_TIP_SHARE = 0.2  # of the fare

SCALED = ("fare", "trip_miles", "trip_seconds")
COORDINATES = ("pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude")
BUCKETIZED = dict.fromkeys((*SCALED, *COORDINATES), 10)  # so many quantiles
VOCABULARIES = {"payment_type": 10, "company": 60}  # at most so many terms, and one id for all others
CATEGORIES = {"trip_start_hour": 24, "trip_start_day": 8, "trip_start_month": 13}  # ids from 0 to below this

EMBEDDING_WIDTH = 4
HIDDEN_UNITS = (32, 16)
DROPOUT = 0.2
LEARNING_RATE = 1e-3
BATCH_SIZE = 64
EPOCHS = 5

Tensors = dict[str, tf.Tensor]


def dense(column: Any) -> tf.Tensor:
    """Gives a column as a tensor of shape [batch, 1], with 0 or '' where a trip has no value."""
    if not isinstance(column, tf.SparseTensor):
        return column
    default = "" if column.dtype == tf.string else 0
    one_value_each = tf.SparseTensor(column.indices, column.values, [column.dense_shape[0], 1])
    return tf.sparse.to_dense(one_value_each, default)


def preprocessing_fn(inputs: dict[str, Any]) -> Tensors:
    """Turns raw trips into what the model learns from.

    Args:
        inputs: Each raw column, sparse, or dense of shape [batch, 1].

    Returns:
        float32 `<column>_scaled`, int64 `<column>_bucket` and `<column>_id`, and the int64 label
        `big_tip` (0 or 1), all of shape [batch, 1].
    """
    outputs = {}
    for name in SCALED:
        # Distances, times and fares have long tails, which the logarithm draws in.
        logarithm = tf.math.log1p(tf.cast(dense(inputs[name]), tf.float32))
        outputs[f"{name}_scaled"] = tft.scale_to_z_score(logarithm)
    for name, buckets in BUCKETIZED.items():
        outputs[f"{name}_bucket"] = tft.bucketize(dense(inputs[name]), buckets)
    for name, size in VOCABULARIES.items():
        outputs[f"{name}_id"] = tft.compute_and_apply_vocabulary(
            dense(inputs[name]), top_k=size, num_oov_buckets=1, vocab_filename=name
        )
    for name, size in CATEGORIES.items():
        # An id beyond the embedding's last row would be an error when the model is served.
        outputs[f"{name}_id"] = tf.clip_by_value(dense(inputs[name]), 0, size - 1)
    # The tip decides the label and nothing else: it isn't known yet when the model is asked.
    is_big = dense(inputs["tips"]) > BIG_TIP_SHARE * dense(inputs["fare"])
    outputs[LABEL] = tf.cast(is_big, tf.int64)
    return outputs


def build_model(learning_rate: float) -> tf.keras.Model:
    """Builds and compiles the classifier: an embedding per id column, then a small dense network."""
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
    """Begins from the weights of an earlier export, unless that had another architecture.

    The ids may stand for other terms and quantiles by now; training corrects what has moved.
    """
    weights = tf.keras.models.load_model(base_model, compile=False).get_weights()
    if [w.shape for w in weights] == [w.shape for w in model.get_weights()]:
        model.set_weights(weights)
    else:
        logging.warning("%s has other weight shapes than this model: training starts afresh.", base_model)


def make_signatures(
    model: tf.keras.Model, tft_output: tft.TFTransformOutput
) -> dict[str, Callable[[tf.Tensor], Tensors]]:
    """Makes the exported entry points, both fed with serialized raw tf.Examples.

    Args:
        model: The trained model. It gets the transform graph as an attribute, which is what takes the
            vocabularies along into the export.
        tft_output: The output of Transform.

    Returns:
        `serving_default`, which answers with `probability` of shape [batch, 1], and
        `transform_features`, which answers with all transformed columns and the label, as TFMA
        wants them for `preprocessing_function_names`.
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


def run_fn(fn_args: FnArgs) -> None:
    """Trains the model, logs to TensorBoard and exports to `fn_args.serving_model_dir`."""
    distribution = strategy(fn_args)  # of several workers or GPUs, where there are any; TensorFlow wants it first
    config = fn_args.custom_config or {}
    batch_size = config.get("batch_size", BATCH_SIZE)
    if fn_args.seed is not None:
        tf.keras.utils.set_random_seed(fn_args.seed)
    tft_output = tft.TFTransformOutput(fn_args.transform_graph_path)

    def read(patterns: list[str], **options: Any) -> tf.data.Dataset:
        return fn_args.data_accessor.tf_dataset_factory(
            patterns,
            TensorFlowDatasetOptions(batch_size, label_key=LABEL, **options),
            tft_output.transformed_metadata.schema,
        )

    steps, epochs = fn_args.train_steps, config.get("epochs", EPOCHS)
    if steps:
        # Each epoch ends with validation and a point on TensorBoard's curves; steps must come out even.
        epochs = next(count for count in range(epochs, 0, -1) if steps % count == 0)
    train = read(fn_args.train_files, num_epochs=None if steps else 1, shuffle_seed=fn_args.seed)
    # One pass in a fixed order, so that every validation sees the same examples.
    validation = read(fn_args.eval_files, num_epochs=1, shuffle=False).take(fn_args.eval_steps or -1)

    with distribution.scope():
        model = build_model(config.get("learning_rate", LEARNING_RATE))
    if fn_args.base_model:
        warm_start(model, fn_args.base_model)
    model.fit(
        train,
        epochs=epochs,
        steps_per_epoch=steps // epochs if steps else None,
        validation_data=validation,
        # A run that was killed goes on in the middle of its epoch; logs for TensorBoard; a line now and then.
        callbacks=callbacks(fn_args, endless_data=bool(steps)),
        verbose=2,
    )
    model.save(fn_args.serving_model_dir, save_format="tf", signatures=make_signatures(model, tft_output))
