"""Input and serving functions for an Estimator that brings none: the examples, read by their schema."""

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
    """Returns an input function over the examples: (features by name, label) in batches.

    Args:
      fn_args: Its data_accessor reads; its transform graph, else its schema, says what there is.
      patterns: The files.
      label: The label's feature name.
      params: `batch_size` is used, 32 by default.
      training: Whether to shuffle (by fn_args.seed) and to repeat; otherwise it is one pass in order.

    Raises:
      InputError: When there is neither a schema nor a transform graph.
    """
    if fn_args.transform_graph_path:
        import tensorflow_transform as tft

        schema = tft.TFTransformOutput(fn_args.transform_graph_path).transformed_metadata.schema
    elif fn_args.schema_path:
        schema = read_schema(fn_args.schema_path)
    else:
        raise InputError("The module has no input_fn, and there is no schema to read the examples by. Give a schema.")

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
    """Returns a serving_input_receiver_fn that parses serialized raw tf.Examples, and transforms them if there is how.

    Args:
      fn_args: Its transform graph, else its schema, says what an example holds.
      label: A feature to leave out.
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
