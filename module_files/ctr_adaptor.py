"""Click-through rate prediction with a custom Estimator that wraps a canned Estimator and adds a metric.

A canned Estimator, of TensorFlow or of a library such as DeepCTR, has its own metrics, hooks and outputs. The adaptor
is an Estimator whose model function builds the canned Estimator, calls its `model_fn`, and returns a modified
EstimatorSpec. Trainers that require a custom Estimator, such as DLRover's, accept a canned one in this form.

The adaptor here wraps a wide and deep classifier and adds normalized entropy, a common metric of click prediction. To
train DeepFM with it, replace one expression: `DeepFMEstimator(linear_columns, dnn_columns, task="binary")`.

An example is one impression of an ad: the strings `user` and `ad`, the float `position` (1 is the top of the page), and
the int64 label `clicked` (0 or 1). `custom_config` may set `learning_rate`, `embedding_width` and `batch_size`.
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
IDS = {"user": 1000, "ad": 100}  # number of hash buckets
PAIRS = 10_000
DEFAULTS = {"learning_rate": 0.2, "embedding_width": 8, "batch_size": 64}
EPOCHS = 3


def make_schema() -> schema_pb2.Schema:
    """Returns the schema of the model's input: exactly one value per column."""
    one_value = "presence { min_fraction: 1 } shape { dim { size: 1 } }"
    types = {**dict.fromkeys(IDS, "BYTES"), "position": "FLOAT", LABEL: "INT"}
    columns = [f'feature {{ name: "{name}" type: {kind} {one_value} }}' for name, kind in types.items()]
    return text_format.Parse("\n".join(columns), schema_pb2.Schema())


def make_columns(embedding_width: int) -> tuple[list[Any], list[Any]]:
    """Makes the feature columns of the wide part, with crosses of user and ad, and of the deep part."""
    ids = [tf.feature_column.categorical_column_with_hash_bucket(name, size) for name, size in IDS.items()]
    position = tf.feature_column.numeric_column("position")
    deep = [tf.feature_column.embedding_column(column, embedding_width) for column in ids]
    return [*ids, tf.feature_column.crossed_column(list(IDS), PAIRS), position], [*deep, position]


class ClickAdaptor(tf.estimator.Estimator):
    """A wide and deep classifier with normalized entropy as an additional evaluation metric."""

    def __init__(self, config: tf.estimator.RunConfig, params: dict[str, Any]) -> None:
        """Constructs the adaptor.

        Args:
            config: The RunConfig, with model folder and seed.
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
        """Builds the canned Estimator's graph for a mode, and in EVAL mode adds the metric."""
        wide, deep = make_columns(params["embedding_width"])
        canned = tf.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=wide,
            linear_optimizer=lambda: tf.keras.optimizers.legacy.Ftrl(params["learning_rate"]),
            dnn_feature_columns=deep,
            dnn_optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(params["learning_rate"]),
            dnn_hidden_units=[16],
            config=config,
        )
        spec = canned.model_fn(features, labels, mode, config)
        if mode != tf.estimator.ModeKeys.EVAL:
            return spec
        metric = normalized_entropy(labels, spec.predictions["logistic"])
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, "normalized_entropy": metric})


def normalized_entropy(labels: tf.Tensor, probabilities: tf.Tensor) -> tuple[tf.Tensor, tf.Operation]:
    """Makes the metric of He et al., "Practical Lessons from Predicting Clicks on Ads at Facebook" (2014).

    It is the log loss divided by the log loss of a constant prediction of the mean click rate. A value below 1 is
    better than that baseline, independently of the click rate.

    Args:
        labels: 0 or 1, [batch, 1].
        probabilities: The predictions, [batch, 1].

    Returns:
        The metric's value and its update operation.
    """
    loss, update_loss = v1.metrics.mean(v1.losses.log_loss(labels, probabilities, reduction="none"))
    rate, update_rate = v1.metrics.mean(labels)
    entropy = -rate * tf.math.log(rate) - (1 - rate) * tf.math.log(1 - rate)
    return loss / entropy, tf.group(update_loss, update_rate)


def trainer_fn(fn_args: FnArgs, schema: schema_pb2.Schema | None) -> dict[str, Any]:
    """Returns the Estimator, its TrainSpec and its EvalSpec with an exporter.

    Args:
        fn_args: Paths, steps and the seed. `fn_args.serving_model_dir` is the Estimator's model folder; the trainer
            publishes what it exports there.
        schema: The schema inferred by the pipeline, if there is one; unused, as the model defines its own.
    """
    del schema
    params = {**DEFAULTS, **(fn_args.custom_config or {})}

    def make_dataset(patterns: list[str], **options: Any) -> tf.data.Dataset:
        return fn_args.data_accessor.tf_dataset_factory(
            patterns, TensorFlowDatasetOptions(params["batch_size"], label_key=LABEL, **options), make_schema()
        )

    wide, deep = make_columns(params["embedding_width"])
    serving_spec = tf.feature_column.make_parse_example_spec([*wide, *deep])
    receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(serving_spec)
    run_config = tf.estimator.RunConfig(model_dir=fn_args.serving_model_dir, tf_random_seed=fn_args.seed)
    # With `train_steps` the examples repeat indefinitely; otherwise training ends with the data.
    epochs = None if fn_args.train_steps else EPOCHS
    return {
        "estimator": ClickAdaptor(run_config, params),
        "train_spec": tf.estimator.TrainSpec(
            lambda: make_dataset(fn_args.train_files, num_epochs=epochs, shuffle_seed=fn_args.seed),
            max_steps=fn_args.train_steps,
        ),
        "eval_spec": tf.estimator.EvalSpec(
            lambda: make_dataset(fn_args.eval_files, num_epochs=1, shuffle=False),
            steps=fn_args.eval_steps,
            exporters=tf.estimator.FinalExporter("ctr", receiver_fn),
        ),
    }
