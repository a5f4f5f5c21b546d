"""Batches of serialized records as batches of tensors: tf.Examples, tf.SequenceExamples, and what a DataView decodes.

What tensors there are, and of which kind, is what tfx_bsl's TFXIO classes make of the schema. They bring Apache Beam
along, so the few lines of theirs that do it are told again here, on top of the parts of tfx_bsl that don't.

Usage:

    parse = ExampleParser(schema)
    parse.tensor_names                                    # {"fare", "tips", …}
    for batch in parse(serialized_batches, threads=-1):   # {"fare": SparseTensor, …}
        ...
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import tensorflow as tf

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.coders import tf_graph_record_decoder
    from tfx_bsl.types.common_types import FeatureSpecType, TensorType

_PREFIX = "_tfx_bsl_"  # of the parser's keys for tensors that are made of several features


class RecordParser(Protocol):
    """Turns batches of records into batches of tensors."""

    @property
    def tensor_names(self) -> Iterable[str]:
        """The tensors of a batch."""

    def __call__(self, records: tf.data.Dataset, threads: int, deterministic: bool = True) -> tf.data.Dataset:
        """Returns a dataset of dicts of tensors.

        Args:
          records: Batches of serialized records.
          threads: How many batches to parse at the same time; -1 for one a core.
          deterministic: Whether they have to come out in the order in which they came in.
        """


class ExampleParser:
    """Parses tf.Examples.

    Args:
      schema: Its features, or its tensor representations, say which tensors there are.

    Raises:
      ValueError: When there is no schema, or it says what `tf.io.parse_example` cannot do.
    """

    def __init__(self, schema: schema_pb2.Schema | None) -> None:
        if schema is None:
            raise ValueError("tf.Examples need a schema to become tensors, and none was given.")
        self._features, self._names = _parser_config(schema)
        _validate(self._features, schema)
        self.tensor_names = list(self._names.values())

    def parse(self, serialized: tf.Tensor) -> dict[str, TensorType]:
        """Returns the features of a vector of tf.Examples, by the parser's keys."""
        parsed: dict[str, TensorType] = tf.io.parse_example(serialized, self._features)
        return parsed

    def __call__(self, records: tf.data.Dataset, threads: int, deterministic: bool = True) -> tf.data.Dataset:
        """Returns a dataset of dicts of tensors; see `RecordParser`."""
        parse = tf.data.experimental.parse_example_dataset(self._features, threads, deterministic)
        parsed = records.apply(parse)
        if all(feature == tensor for feature, tensor in self._names.items()):
            return parsed
        return parsed.map(lambda batch: {self._names[feature]: tensor for feature, tensor in batch.items()})


class SequenceExampleParser:
    """Parses tf.SequenceExamples into one dict of their context's and their steps' tensors.

    Args:
      schema: Its features, or its tensor representations, say which tensors there are.
    """

    def __init__(self, schema: schema_pb2.Schema) -> None:
        from tfx_bsl.tfxio import tensor_representation_util as representations

        self._features = representations.CreateTfSequenceExampleParserConfig(schema)
        self.tensor_names = list(representations.InferTensorRepresentationsFromMixedSchema(schema))

    def __call__(self, records: tf.data.Dataset, threads: int, deterministic: bool = True) -> tf.data.Dataset:
        """Returns a dataset of dicts of tensors; see `RecordParser`."""

        def parse(serialized: tf.Tensor) -> dict[str, TensorType]:
            context, sequence, _ = tf.io.parse_sequence_example(serialized, *self._features)
            return {**context, **sequence}

        return records.map(parse, threads, deterministic)


class DataViewParser:
    """Decodes records by a DataView.

    Args:
      data_view: The DataView's folder.
    """

    def __init__(self, data_view: str) -> None:
        from tfx_bsl.tfxio import tensor_to_arrow

        self._decoder = load_decoder(data_view)
        converter = tensor_to_arrow.TensorsToRecordBatchConverter(self._decoder.output_type_specs())
        self.tensor_names = list(converter.tensor_representations())

    def __call__(self, records: tf.data.Dataset, threads: int, deterministic: bool = True) -> tf.data.Dataset:
        """Returns a dataset of dicts of tensors; see `RecordParser`."""

        def decode(serialized: tf.Tensor) -> dict[str, TensorType]:
            decoded = self._decoder.decode_record(serialized)
            return {name: tensor for name, tensor in decoded.items() if name in self.tensor_names}

        return records.map(decode, threads, deterministic)


def load_decoder(data_view: str) -> tf_graph_record_decoder.LoadedDecoder:
    """Returns the decoder that a DataView's folder holds, a tfx_bsl `LoadedDecoder`."""
    from tfx_bsl.coders import tf_graph_record_decoder

    return tf_graph_record_decoder.load_decoder(data_view)


def _parser_config(schema: schema_pb2.Schema) -> tuple[dict[str, FeatureSpecType], dict[str, str]]:
    """Returns the features for `tf.io.parse_example`, and the tensor's name for each of their keys.

    As `_TFExampleRecordBase._GetTfExampleParserConfig` of tfx_bsl.tfxio.tf_example_record has it.
    """
    from tfx_bsl.tfxio import tensor_representation_util as representations

    types = {feature.name: feature.type for feature in schema.feature}
    tensors = representations.InferTensorRepresentationsFromMixedSchema(schema)
    features: dict[str, FeatureSpecType] = {}
    names: dict[str, str] = {}
    for name, representation in tensors.items():
        columns = representations.GetSourceColumnsFromTensorRepresentation(representation)
        column, source = name, columns[0]
        if len(columns) == 1:
            column = source.initial_step()
        else:
            source = representations.GetSourceValueColumnFromTensorRepresentation(representation)
        feature = representations.CreateTfExampleParserConfig(representation, types[source.initial_step()])
        key = column
        if isinstance(feature, (tf.io.SparseFeature, tf.io.RaggedFeature)):
            key = f"{_PREFIX}{name}_{column}"  # no other tensor and no feature is called so
        if key in names:
            raise ValueError(
                f"the schema wants the feature {key!r} as two tensors, {names[key]!r} and {name!r}, of the kinds "
                f"{tensors[names[key]]} and {representation}; tf.Examples are parsed into one tensor a feature."
            )
        names[key], features[key] = name, feature
    return features, names


def _validate(features: dict[str, FeatureSpecType], schema: schema_pb2.Schema) -> None:
    """Traces the parser, which finds out what it cannot do."""

    def parse(serialized: tf.Tensor) -> None:
        tf.io.parse_example(serialized, features)

    try:
        tf.function(parse, autograph=False).get_concrete_function(tf.TensorSpec([None], tf.string))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"tf.Examples cannot be parsed as the schema's tensors: {error}. The schema: {schema}"
        ) from error
