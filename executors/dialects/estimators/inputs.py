"""Default input and serving functions for Estimator modules without their own; they parse examples by schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ...errors import InputError
from ...fn_args import FnArgs
from ...runtime.files.schema import read_schema

if TYPE_CHECKING:
    import tensorflow as tf

ServingInputReceiverFn: TypeAlias = "Callable[[], tf.estimator.export.ServingInputReceiver]"

_BATCH_SIZE = 32


def examples_input_fn(
    fn_args: FnArgs, patterns: Sequence[str], label: str | None, params: Mapping[str, object], training: bool
) -> Callable[[], tf.data.Dataset]:
    """Returns an input function that yields batches of (features by name, label).

    Args:
      fn_args: Provides the data_accessor for reading, and the transform graph or, without one, the schema.
      patterns: File patterns of the examples.
      label: The label's feature name.
      params: `batch_size` is read from here; default 32.
      training: Whether to shuffle (with `fn_args.seed`) and repeat; otherwise one pass in order.

    Raises:
      InputError: When there is neither a schema nor a transform graph.
    """
    if fn_args.transform_graph_path:
        import tensorflow_transform as tft

        schema = tft.TFTransformOutput(fn_args.transform_graph_path).transformed_metadata.schema
    elif fn_args.schema_path:
        schema = read_schema(fn_args.schema_path)
    else:
        raise InputError(
            "The module has no input_fn, and there is no schema to parse the examples with. Set the schema."
        )

    def input_fn() -> tf.data.Dataset:
        from tfx_bsl.public.tfxio import TensorFlowDatasetOptions

        options = TensorFlowDatasetOptions(
            params.get("batch_size", _BATCH_SIZE),
            num_epochs=None if training else 1,
            shuffle=training,
            shuffle_seed=fn_args.seed,
            label_key=label,
        )
        return fn_args.data_accessor.tf_dataset_factory(list(patterns), options, schema)

    return input_fn


def parsing_receiver_fn(fn_args: FnArgs, label: str | None) -> ServingInputReceiverFn:
    """Returns a serving_input_receiver_fn that parses serialized raw tf.Examples.

    With a transform graph, it also applies the transform to the parsed features.

    Args:
      fn_args: Provides the transform graph or, without one, the schema for the feature spec.
      label: The name of the feature to leave out, or None.
    """
    import tensorflow as tf

    if not fn_args.transform_graph_path:
        from tensorflow_transform.tf_metadata import schema_utils

        spec = schema_utils.schema_as_feature_spec(read_schema(str(fn_args.schema_path))).feature_spec
        spec.pop(label, None)
        receiver_fn: ServingInputReceiverFn = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
        return receiver_fn
    import tensorflow_transform as tft

    output = tft.TFTransformOutput(fn_args.transform_graph_path)
    raw_spec = output.raw_feature_spec()
    raw_spec.pop(label, None)

    def transforming_receiver_fn() -> tf.estimator.export.ServingInputReceiver:
        raw = tf.estimator.export.build_parsing_serving_input_receiver_fn(raw_spec)()
        features = output.transform_raw_features(raw.features)
        features.pop(label, None)
        return tf.estimator.export.ServingInputReceiver(features, raw.receiver_tensors)

    return transforming_receiver_fn
