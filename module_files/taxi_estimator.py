"""Tip prediction for taxi trips with a wide and deep Estimator and TensorFlow Transform.

The data are those of `taxi_keras.py`. Modules for TFX up to 0.29 define `trainer_fn(fn_args, schema)`. It does
not train, but returns

* `estimator`, here a canned one: a linear model over crosses of categories (wide), which memorizes combinations,
  and a network over embeddings and scaled numbers (deep), which generalizes;
* `train_spec` and `eval_spec`: data and number of steps of both splits, and the exporter of the serving model,
  which takes raw trips because it contains the transform graph;
* `eval_input_receiver_fn`: parses raw trips for the Evaluator and derives the label `big_tip`, which is not a
  raw column but defined in `preprocessing_fn`.

The same file runs on TensorFlow 2.15, the last release with Estimators, and on later releases.

`fn_args.base_model` is an earlier export to start from (`generic-trainer run --warm-start`). `custom_config` may set
`batch_size` and, for runs without `train_steps`, `epochs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tensorflow_model_analysis as tfma
import tensorflow_transform as tft
from tfx_bsl.public.tfxio import TensorFlowDatasetOptions

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

    from generic_trainer import FnArgs

RAW_LABEL = "tips"
LABEL = "big_tip"
BIG_TIP_SHARE = 0.2  # of the fare

SCALED = ("fare", "trip_miles", "trip_seconds")
COORDINATES = ("pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude")
BUCKETS = 10  # quantiles of each number and coordinate
VOCABULARIES = {"payment_type": 10, "company": 60}  # maximum of terms; one more ID is for all others
CATEGORIES = {"trip_start_hour": 24, "trip_start_day": 8, "trip_start_month": 13}  # number of IDs, from 0
CROSSES = (
    ("payment_type_id", "fare_bucket"),
    ("payment_type_id", "company_id"),
    ("trip_start_hour_id", "trip_start_day_id"),
    ("pickup_latitude_bucket", "pickup_longitude_bucket"),
)

CROSS_BUCKETS = 1000
EMBEDDING_WIDTH = 4
HIDDEN_UNITS = (64, 32)
WIDE_LEARNING_RATE = 0.05
DEEP_LEARNING_RATE = 0.05
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
    for name in (*SCALED, *COORDINATES):
        outputs[f"{name}_bucket"] = tft.bucketize(to_dense(inputs[name]), BUCKETS)
    for name, size in VOCABULARIES.items():
        outputs[f"{name}_id"] = tft.compute_and_apply_vocabulary(
            to_dense(inputs[name]), top_k=size, num_oov_buckets=1, vocab_filename=name
        )
    for name, size in CATEGORIES.items():
        outputs[f"{name}_id"] = tf.clip_by_value(to_dense(inputs[name]), 0, size - 1)
    is_big = to_dense(inputs[RAW_LABEL]) > BIG_TIP_SHARE * to_dense(inputs["fare"])
    outputs[LABEL] = tf.cast(is_big, tf.int64)
    return outputs


def build_estimator(config: tf.estimator.RunConfig, base_model: str | None) -> tf.estimator.Estimator:
    """Builds the classifier, optionally with the weights of a base model as initial weights.

    Args:
        config: The RunConfig, with model folder and seed.
        base_model: Folder of an earlier export of this module, or None.
    """
    sizes = {f"{name}_bucket": BUCKETS for name in (*SCALED, *COORDINATES)}
    sizes |= {f"{name}_id": size + 1 for name, size in VOCABULARIES.items()}
    sizes |= {f"{name}_id": size for name, size in CATEGORIES.items()}
    ids = {
        name: tf.feature_column.categorical_column_with_identity(name, size, default_value=0)
        for name, size in sizes.items()
    }
    crosses = [tf.feature_column.crossed_column([ids[name] for name in names], CROSS_BUCKETS) for names in CROSSES]
    embeddings = [tf.feature_column.embedding_column(column, EMBEDDING_WIDTH) for column in ids.values()]
    numbers = [tf.feature_column.numeric_column(f"{name}_scaled") for name in SCALED]
    return tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=[*ids.values(), *crosses],
        dnn_feature_columns=[*numbers, *embeddings],
        linear_optimizer=lambda: tf.keras.optimizers.legacy.Ftrl(WIDE_LEARNING_RATE),
        dnn_optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(DEEP_LEARNING_RATE),
        dnn_hidden_units=HIDDEN_UNITS,
        config=config,
        warm_start_from=base_model,
    )


def make_serving_input_receiver_fn(
    tft_output: tft.TFTransformOutput,
) -> Callable[[], tf.estimator.export.ServingInputReceiver]:
    """Makes the serving model's input function: serialized raw trips without the tip, which is not known yet."""
    raw_spec = {name: spec for name, spec in tft_output.raw_feature_spec().items() if name != RAW_LABEL}

    def serving_input_receiver_fn() -> tf.estimator.export.ServingInputReceiver:
        receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(raw_spec)()
        features = tft_output.transform_raw_features(receiver.features)
        return tf.estimator.export.ServingInputReceiver(features, receiver.receiver_tensors)

    return serving_input_receiver_fn


def make_eval_input_receiver_fn(tft_output: tft.TFTransformOutput) -> Callable[[], Any]:
    """Makes the evaluation model's input function: serialized raw trips with the tip, which determines the label."""

    def eval_input_receiver_fn() -> Any:
        examples = tf.compat.v1.placeholder(tf.string, [None], name="input_example_tensor")
        raw_features = tf.io.parse_example(examples, tft_output.raw_feature_spec())
        features = tft_output.transform_raw_features(raw_features)
        return tfma.export.EvalInputReceiver(
            features=raw_features | features,  # raw features for slicing, transformed ones for the model
            receiver_tensors={"examples": examples},
            labels=features[LABEL],
        )

    return eval_input_receiver_fn


def trainer_fn(fn_args: FnArgs, schema: schema_pb2.Schema) -> dict[str, Any]:
    """Returns the Estimator, its TrainSpec and EvalSpec with an exporter, and the Evaluator's input function.

    Args:
        fn_args: Paths, steps and the seed. `fn_args.serving_model_dir` is the Estimator's model folder; the trainer
            publishes what it exports there.
        schema: The raw examples' schema; unused, as the transform graph contains it.

    Returns:
        A dict with `estimator`, `train_spec`, `eval_spec` and `eval_input_receiver_fn`.
    """
    del schema
    config = fn_args.custom_config or {}
    tft_output = tft.TFTransformOutput(fn_args.transform_graph_path)

    def make_dataset(patterns: list[str], **options: Any) -> tf.data.Dataset:
        return fn_args.data_accessor.tf_dataset_factory(
            patterns,
            TensorFlowDatasetOptions(config.get("batch_size", BATCH_SIZE), label_key=LABEL, **options),
            tft_output.transformed_metadata.schema,
        )

    # With `train_steps` the examples repeat indefinitely; otherwise training ends with the data.
    epochs = None if fn_args.train_steps else config.get("epochs", EPOCHS)
    run_config = tf.estimator.RunConfig(
        model_dir=fn_args.serving_model_dir, tf_random_seed=fn_args.seed, save_checkpoints_steps=1000
    )
    return {
        "estimator": build_estimator(run_config, fn_args.base_model),
        "train_spec": tf.estimator.TrainSpec(
            lambda: make_dataset(fn_args.train_files, num_epochs=epochs, shuffle_seed=fn_args.seed),
            max_steps=fn_args.train_steps,
        ),
        "eval_spec": tf.estimator.EvalSpec(
            lambda: make_dataset(fn_args.eval_files, num_epochs=1, shuffle=False),
            steps=fn_args.eval_steps,
            exporters=tf.estimator.FinalExporter("taxi", make_serving_input_receiver_fn(tft_output)),
        ),
        "eval_input_receiver_fn": make_eval_input_receiver_fn(tft_output),
    }
