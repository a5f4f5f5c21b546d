"""Iris classification with a minimal training module: Keras 3, without Transform.

A training module is a Python file with a function `run_fn(fn_args)`, which has to

1. read `fn_args.train_files` and `fn_args.eval_files` through `fn_args.data_accessor`, which handles the
   format of the examples;
2. train, and write TensorBoard logs to `fn_args.model_run_dir`;
3. export a SavedModel to `fn_args.serving_model_dir`, with a signature that takes serialized tf.Examples,
   the data format of all pipeline steps.

An example has four float features, in cm, and the int64 label `variety` (0, 1 or 2). `custom_config`
may set `learning_rate`, `batch_size` and, for runs without `train_steps`, `epochs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
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
UNITS = 16
BATCH_SIZE = 16
EPOCHS = 30


def make_schema() -> schema_pb2.Schema:
    """Returns the schema of the model's input: exactly one value per column.

    A schema inferred by SchemaGen (`fn_args.schema_path`) may not define the features' shapes, and the columns
    would then be parsed as sparse tensors. A model with fixed inputs defines its own schema.
    """
    one_value = "presence { min_fraction: 1 } shape { dim { size: 1 } }"
    columns = [f'feature {{ name: "{name}" type: FLOAT {one_value} }}' for name in FEATURES]
    columns.append(f'feature {{ name: "{LABEL}" type: INT {one_value} }}')
    return text_format.Parse("\n".join(columns), schema_pb2.Schema())


def make_dataset(fn_args: FnArgs, patterns: list[str], **options: Any) -> tf.data.Dataset:
    """Reads batches of examples: (features by name, label)."""
    batch_size = (fn_args.custom_config or {}).get("batch_size", BATCH_SIZE)
    return fn_args.data_accessor.tf_dataset_factory(
        patterns, TensorFlowDatasetOptions(batch_size, label_key=LABEL, **options), make_schema()
    )


def build_model(learning_rate: float, units: int = UNITS) -> keras.Model:
    """Builds and compiles the classifier, with probabilities of shape [batch, 3] as output."""
    inputs = {name: keras.Input((1,), name=name) for name in FEATURES}
    hidden = keras.layers.Concatenate()(list(inputs.values()))
    hidden = keras.layers.Dense(units, activation="relu")(hidden)
    hidden = keras.layers.Dense(units, activation="relu")(hidden)
    probabilities = keras.layers.Dense(VARIETIES, activation="softmax")(hidden)

    model = keras.Model(inputs, probabilities)
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )
    return model


def export(model: keras.Model, serving_model_dir: str) -> None:
    """Saves the model with `serving_default`: serialized tf.Examples in, `probabilities` [batch, 3] out."""
    spec = {name: tf.io.FixedLenFeature([1], tf.float32) for name in FEATURES}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probabilities": model(tf.io.parse_example(examples, spec))}

    tf.saved_model.save(model, serving_model_dir, signatures=serve)


def fit_arguments(fn_args: FnArgs) -> dict[str, Any]:
    """Returns the arguments of `fit`: training data, number of epochs and steps, and validation data."""
    # With `train_steps` the examples repeat indefinitely; otherwise an epoch is one pass over them.
    steps, seed = fn_args.train_steps, getattr(fn_args, "seed", None)  # TFX's own Trainer passes no seed
    train = make_dataset(fn_args, fn_args.train_files, num_epochs=None if steps else 1, shuffle_seed=seed)
    validation = make_dataset(fn_args, fn_args.eval_files, num_epochs=1, shuffle=False).take(fn_args.eval_steps or -1)
    epochs = 1 if steps else (fn_args.custom_config or {}).get("epochs", EPOCHS)
    return {"x": train, "epochs": epochs, "steps_per_epoch": steps, "validation_data": validation}


def run_fn(fn_args: FnArgs) -> None:
    """Trains the model, validates after every epoch, and exports it."""
    if (seed := getattr(fn_args, "seed", None)) is not None:
        keras.utils.set_random_seed(seed)
    model = build_model((fn_args.custom_config or {}).get("learning_rate", LEARNING_RATE))
    model.fit(**fit_arguments(fn_args), callbacks=[keras.callbacks.TensorBoard(fn_args.model_run_dir)], verbose=2)
    export(model, fn_args.serving_model_dir)
