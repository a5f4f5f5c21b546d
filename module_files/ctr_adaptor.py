"""Will this ad be clicked? A ready-made Estimator inside one's own, to change what it does.

A ready-made Estimator, TensorFlow's or a library's such as DeepCTR's, comes with its own metrics, hooks and outputs.
Its model function can still be called. So an adaptor is an Estimator whose model function builds the ready-made one,
takes the EstimatorSpec that this makes for a mode, and hands on a changed one. Trainers that want a custom Estimator
(DLRover's does) take a ready-made one in this form.

The adaptor here is around a wide and deep classifier, and adds the metric by which click predictions are compared. To
train DeepFM with it, exchange one expression: `DeepFMEstimator(linear_columns, dnn_columns, task="binary")`.

An example is an ad that was shown to someone: the words `user` and `ad`, the float `position`, which counts from 1 at
the top of the page, and the int64 label `clicked` (0 or 1). `custom_config` may set `learning_rate`, `embedding_width`
and `batch_size`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public.tfxio import TensorFlowDatasetOptions

if TYPE_CHECKING:
    from generic_trainer import FnArgs

v1 = tf.compat.v1

LABEL = "clicked"
IDS = {"user": 1000, "ad": 100}  # so many buckets, into which all words are hashed
PAIRS = 10_000
DEFAULTS = {"learning_rate": 0.2, "embedding_width": 8, "batch_size": 64}
EPOCHS = 3


def make_schema() -> schema_pb2.Schema:
    """Says what the model reads: exactly one value of each column."""
    one_value = "presence { min_fraction: 1 } shape { dim { size: 1 } }"
    types = {**dict.fromkeys(IDS, "BYTES"), "position": "FLOAT", LABEL: "INT"}
    columns = [f'feature {{ name: "{name}" type: {kind} {one_value} }}' for name, kind in types.items()]
    return text_format.Parse("\n".join(columns), schema_pb2.Schema())


def make_columns(embedding_width: int) -> tuple[list[Any], list[Any]]:
    """Makes the feature columns of the wide part, which learns pairs of user and ad by heart, and of the deep one."""
    ids = [tf.feature_column.categorical_column_with_hash_bucket(name, size) for name, size in IDS.items()]
    position = tf.feature_column.numeric_column("position")
    deep = [tf.feature_column.embedding_column(column, embedding_width) for column in ids]
    return [*ids, tf.feature_column.crossed_column(list(IDS), PAIRS), position], [*deep, position]


class ClickAdaptor(tf.estimator.Estimator):
    """A wide and deep classifier that is also evaluated by its normalized entropy."""

    def __init__(self, config: tf.estimator.RunConfig, params: dict[str, Any]) -> None:
        """Constructs the adaptor.

        Args:
            config: Where it works, and its seed.
            params: `learning_rate` and `embedding_width`.
        """
        super().__init__(self.adapted_model_fn, config=config, params=params)

    def adapted_model_fn(
        self,
        features: dict[str, tf.Tensor],
        labels: tf.Tensor | None,
        mode: str,
        params: dict[str, Any],
        config: tf.estimator.RunConfig,
    ) -> tf.estimator.EstimatorSpec:
        """Builds the ready-made Estimator's graph for a mode, and the new metric when it is to be evaluated."""
        wide, deep = make_columns(params["embedding_width"])
        ready_made = tf.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=wide,
            linear_optimizer=lambda: tf.keras.optimizers.legacy.Ftrl(params["learning_rate"]),
            dnn_feature_columns=deep,
            dnn_optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(params["learning_rate"]),
            dnn_hidden_units=[16],
            config=config,
        )
        spec = ready_made.model_fn(features, labels, mode, config)
        if mode != tf.estimator.ModeKeys.EVAL:
            return spec
        metric = normalized_entropy(labels, spec.predictions["logistic"])
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, "normalized_entropy": metric})


def normalized_entropy(labels: tf.Tensor, probabilities: tf.Tensor) -> tuple[tf.Tensor, tf.Operation]:
    """Makes the metric of He et al., "Practical Lessons from Predicting Clicks on Ads at Facebook" (2014).

    It is the log loss over that of whoever answers with the mean click rate every time. Below 1 the model has learnt
    something, whatever that rate is.

    Args:
        labels: 0 or 1, [batch, 1].
        probabilities: The predictions, [batch, 1].

    Returns:
        The metric's value and the operation that updates it by a batch.
    """
    loss, update_loss = v1.metrics.mean(v1.losses.log_loss(labels, probabilities, reduction="none"))
    rate, update_rate = v1.metrics.mean(labels)
    entropy = -rate * tf.math.log(rate) - (1 - rate) * tf.math.log(1 - rate)
    return loss / entropy, tf.group(update_loss, update_rate)


def trainer_fn(fn_args: FnArgs, schema: schema_pb2.Schema | None) -> dict[str, Any]:
    """Says what to train, on what, and how to export it.

    Args:
        fn_args: Paths, steps and the seed. The Estimator works in `fn_args.serving_model_dir`; what it exports
            below that folder is published.
        schema: The schema that the pipeline inferred, if there is one; the model states its own.
    """
    del schema
    params = {**DEFAULTS, **(fn_args.custom_config or {})}

    def read(patterns: list[str], **options: Any) -> tf.data.Dataset:
        return fn_args.data_accessor.tf_dataset_factory(
            patterns, TensorFlowDatasetOptions(params["batch_size"], label_key=LABEL, **options), make_schema()
        )

    wide, deep = make_columns(params["embedding_width"])
    serving_spec = tf.feature_column.make_parse_example_spec([*wide, *deep])
    receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(serving_spec)
    run_config = tf.estimator.RunConfig(model_dir=fn_args.serving_model_dir, tf_random_seed=fn_args.seed)
    # With a number of steps the examples repeat without end; otherwise training ends with the data.
    epochs = None if fn_args.train_steps else EPOCHS
    return {
        "estimator": ClickAdaptor(run_config, params),
        "train_spec": tf.estimator.TrainSpec(
            lambda: read(fn_args.train_files, num_epochs=epochs, shuffle_seed=fn_args.seed),
            max_steps=fn_args.train_steps,
        ),
        "eval_spec": tf.estimator.EvalSpec(
            lambda: read(fn_args.eval_files, num_epochs=1, shuffle=False),
            steps=fn_args.eval_steps,
            exporters=tf.estimator.FinalExporter("ctr", receiver_fn),
        ),
    }
