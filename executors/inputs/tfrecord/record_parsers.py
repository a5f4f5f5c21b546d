"""Parses batches of serialized tf.Examples, tf.SequenceExamples and DataView records into batches of tensors.

The names and types of the tensors are those that tfx_bsl's TFXIO classes derive from the schema. TFXIO imports Apache
Beam, so the few lines that do this are reimplemented here with those parts of tfx_bsl that do not.

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

_PREFIX = "_tfx_bsl_"  # of parser keys of SparseFeature and RaggedFeature, as in tfx_bsl


class RecordParser(Protocol):
    """Parses batches of serialized records into batches of tensors."""

    @property
    def tensor_names(self) -> Iterable[str]:
        """Names of the tensors in a batch."""

    def __call__(self, records: tf.data.Dataset, threads: int, deterministic: bool = True) -> tf.data.Dataset:
        """Returns a dataset of dicts of tensors.

        Args:
          records: Dataset of string vectors, batches of serialized records.
          threads: Number of batches to parse in parallel; -1 (tf.data.AUTOTUNE) for one per core.
          deterministic: Whether to keep the order of the batches.
        """


class ExampleParser:
    """Parses tf.Examples.

    Args:
      schema: Schema whose features or tensor representations define the tensors.

    Raises:
      ValueError: If there is no schema, or `tf.io.parse_example` does not support one of its tensors.
    """

    def __init__(self, schema: schema_pb2.Schema | None) -> None:
        if schema is None:
            raise ValueError("reading tf.Examples as tensors requires a schema, but none was given.")
        self._features, self._names = _parser_config(schema)
        _validate(self._features, schema)
        self.tensor_names = list(self._names.values())

    def parse(self, serialized: tf.Tensor) -> dict[str, TensorType]:
        """Parses a string vector of tf.Examples into {parser key: tensor}; `__call__` renames the keys."""
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
    """Parses tf.SequenceExamples into one dict of context and sequence tensors.

    Args:
      schema: Schema whose features or tensor representations define the tensors.
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
    """Decodes records with a DataView.

    Args:
      data_view: Directory of the DataView.
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
    """Loads a tfx_bsl `LoadedDecoder` from the directory of a DataView."""
    from tfx_bsl.coders import tf_graph_record_decoder

    return tf_graph_record_decoder.load_decoder(data_view)


def _parser_config(schema: schema_pb2.Schema) -> tuple[dict[str, FeatureSpecType], dict[str, str]]:
    """Returns the features for `tf.io.parse_example`, and {parser key: tensor name}.

    Same result as `_TFExampleRecordBase._GetTfExampleParserConfig` in tfx_bsl.tfxio.tf_example_record.
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
            key = f"{_PREFIX}{name}_{column}"  # differs from all names of features and tensors
        if key in names:
            raise ValueError(
                f"the schema represents the feature {key!r} as two tensors, {names[key]!r} and {name!r}, of the types "
                f"{tensors[names[key]]} and {representation}; tf.Examples are parsed into one tensor per feature."
            )
        names[key], features[key] = name, feature
    return features, names


def _validate(features: dict[str, FeatureSpecType], schema: schema_pb2.Schema) -> None:
    """Traces the parser, so that unsupported features raise a ValueError early."""

    def parse(serialized: tf.Tensor) -> None:
        tf.io.parse_example(serialized, features)

    try:
        tf.function(parse, autograph=False).get_concrete_function(tf.TensorSpec([None], tf.string))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"tf.Examples cannot be parsed as the schema's tensors: {error}. The schema: {schema}"
        ) from error
