"""Iris classification with a Keras model converted to an Estimator, as in the proposal of TFX's Generic Trainer.

Before TFX supported Keras models, modules converted them to an Estimator (`tf.keras.estimator.model_to_estimator`) and
returned it from `trainer_fn`. Such modules run unchanged. The model must be a Keras 2 model; in a module with
Estimators `tf.keras` is Keras 2.

The examples and `custom_config` are those of `iris_keras.py`. There is no Transform, and the label is a feature of the
raw examples, so the Evaluator does not need an `eval_input_receiver_fn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public.tfxio import TensorFlowDatasetOptions

if TYPE_CHECKING:
    from generic_trainer import FnArgs

FEATURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
LABEL = "variety"
VARIETIES = 3

LEARNING_RATE = 0.01
BATCH_SIZE = 16
EPOCHS = 30


def make_schema() -> schema_pb2.Schema:
    """Returns the schema of the model's input: exactly one value per column."""
    one_value = "presence { min_fraction: 1 } shape { dim { size: 1 } }"
    columns = [f'feature {{ name: "{name}" type: FLOAT {one_value} }}' for name in FEATURES]
    columns.append(f'feature {{ name: "{LABEL}" type: INT {one_value} }}')
    return text_format.Parse("\n".join(columns), schema_pb2.Schema())


def build_model(learning_rate: float) -> tf.keras.Model:
    """Builds and compiles the classifier, with output `probabilities` of shape [batch, 3]."""
    inputs = {name: tf.keras.Input((1,), name=name) for name in FEATURES}
    hidden = tf.keras.layers.Concatenate()(list(inputs.values()))
    hidden = tf.keras.layers.Dense(16, activation="relu")(hidden)
    hidden = tf.keras.layers.Dense(16, activation="relu")(hidden)
    probabilities = tf.keras.layers.Dense(VARIETIES, activation="softmax", name="probabilities")(hidden)

    model = tf.keras.Model(inputs, probabilities)
    model.compile(
        optimizer=tf.keras.optimizers.legacy.Adam(learning_rate),
        loss="sparse_categorical_crossentropy",
        metrics=[tf.keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )
    return model


def serving_input_receiver_fn() -> tf.estimator.export.ServingInputReceiver:
    """Returns the exported model's input: serialized tf.Examples."""
    spec = {name: tf.io.FixedLenFeature([1], tf.float32) for name in FEATURES}
    receiver: tf.estimator.export.ServingInputReceiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        spec
    )()
    return receiver


def trainer_fn(fn_args: FnArgs, schema: schema_pb2.Schema | None) -> dict[str, Any]:
    """Converts the Keras model to an Estimator; returns it with its TrainSpec and its EvalSpec.

    Args:
        fn_args: Paths, steps and the seed. `fn_args.serving_model_dir` is the Estimator's model folder; the trainer
            publishes what it exports there.
        schema: The schema inferred by the pipeline, if there is one; unused, as the model defines its own.
    """
    del schema
    config = fn_args.custom_config or {}
    batch_size = config.get("batch_size", BATCH_SIZE)
    if fn_args.seed is not None:
        tf.keras.utils.set_random_seed(fn_args.seed)  # the model's weights are initialized here, not by the Estimator

    def make_dataset(patterns: list[str], **options: Any) -> tf.data.Dataset:
        return fn_args.data_accessor.tf_dataset_factory(
            patterns, TensorFlowDatasetOptions(batch_size, label_key=LABEL, **options), make_schema()
        )

    estimator = tf.keras.estimator.model_to_estimator(
        keras_model=build_model(config.get("learning_rate", LEARNING_RATE)),
        config=tf.estimator.RunConfig(model_dir=fn_args.serving_model_dir, tf_random_seed=fn_args.seed),
    )
    # With `train_steps` the examples repeat indefinitely; otherwise training ends with the data.
    epochs = None if fn_args.train_steps else config.get("epochs", EPOCHS)
    return {
        "estimator": estimator,
        "train_spec": tf.estimator.TrainSpec(
            lambda: make_dataset(fn_args.train_files, num_epochs=epochs, shuffle_seed=fn_args.seed),
            max_steps=fn_args.train_steps,
        ),
        "eval_spec": tf.estimator.EvalSpec(
            lambda: make_dataset(fn_args.eval_files, num_epochs=1, shuffle=False),
            steps=fn_args.eval_steps,
            exporters=tf.estimator.FinalExporter("iris", serving_input_receiver_fn),
        ),
    }
