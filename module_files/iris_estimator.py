"""Which iris is it? A Keras model as an Estimator: the module that TFX's Generic Trainer was proposed with.

Before TFX trained Keras models, a module that had one turned it into an Estimator
(`tf.keras.estimator.model_to_estimator`) and returned that from `trainer_fn`. Such a module needs no change here. The
Keras model has to be of Keras 2, which is what `tf.keras` is for a module with Estimators.

The examples and `custom_config` are those of `iris_keras.py`. There is no Transform, and the label is a feature of the
raw examples: the Evaluator needs no `eval_input_receiver_fn` to find it.
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
    """Says what the model reads: exactly one value of each column."""
    one_value = "presence { min_fraction: 1 } shape { dim { size: 1 } }"
    columns = [f'feature {{ name: "{name}" type: FLOAT {one_value} }}' for name in FEATURES]
    columns.append(f'feature {{ name: "{LABEL}" type: INT {one_value} }}')
    return text_format.Parse("\n".join(columns), schema_pb2.Schema())


def build_model(learning_rate: float) -> tf.keras.Model:
    """Builds and compiles the classifier; its output `probabilities` has the shape [batch, 3]."""
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
    """Says what the exported model is fed with: serialized tf.Examples."""
    spec = {name: tf.io.FixedLenFeature([1], tf.float32) for name in FEATURES}
    receiver: tf.estimator.export.ServingInputReceiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        spec
    )()
    return receiver


def trainer_fn(fn_args: FnArgs, schema: schema_pb2.Schema | None) -> dict[str, Any]:
    """Builds the Keras model, makes an Estimator of it, and says how to train that.

    Args:
        fn_args: Paths, steps and the seed. The Estimator works in `fn_args.serving_model_dir`; what it exports
            below that folder is published.
        schema: The schema that the pipeline inferred, if there is one; the model states its own.
    """
    del schema
    config = fn_args.custom_config or {}
    batch_size = config.get("batch_size", BATCH_SIZE)
    if fn_args.seed is not None:
        tf.keras.utils.set_random_seed(fn_args.seed)  # the weights are drawn here, before there is an Estimator

    def read(patterns: list[str], **options: Any) -> tf.data.Dataset:
        return fn_args.data_accessor.tf_dataset_factory(
            patterns, TensorFlowDatasetOptions(batch_size, label_key=LABEL, **options), make_schema()
        )

    estimator = tf.keras.estimator.model_to_estimator(
        keras_model=build_model(config.get("learning_rate", LEARNING_RATE)),
        config=tf.estimator.RunConfig(model_dir=fn_args.serving_model_dir, tf_random_seed=fn_args.seed),
    )
    # With a number of steps the examples repeat without end; otherwise training ends with the data.
    epochs = None if fn_args.train_steps else config.get("epochs", EPOCHS)
    return {
        "estimator": estimator,
        "train_spec": tf.estimator.TrainSpec(
            lambda: read(fn_args.train_files, num_epochs=epochs, shuffle_seed=fn_args.seed),
            max_steps=fn_args.train_steps,
        ),
        "eval_spec": tf.estimator.EvalSpec(
            lambda: read(fn_args.eval_files, num_epochs=1, shuffle=False),
            steps=fn_args.eval_steps,
            exporters=tf.estimator.FinalExporter("iris", serving_input_receiver_fn),
        ),
    }
