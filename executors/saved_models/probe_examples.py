"""Examples to run a freshly loaded model on: the first evaluation records, or a synthetic one from a schema."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_metadata.proto.v0 import schema_pb2

from ..examples_format import PARQUET, TF_EXAMPLE
from ..inputs.parquet.arrow_file import ArrowFile
from ..runtime.files.schema import read_schema
from .sample_input import SAMPLED_EXAMPLES

if TYPE_CHECKING:
    from .sample_input import Value

_GZIP_MAGIC = b"\x1f\x8b"


@dataclasses.dataclass(frozen=True)
class Example:
    """One example, as serialized record and as features, for both kinds of signatures.

    Attributes:
      source: Description of its origin, for messages.
      serialized: The record's bytes; empty without a record.
      features: {name: values}; empty if the record is not a tf.Example.
      is_certain: Whether an error of the model on this example fails the check.
      is_real: Whether the values are those of an example, and not arbitrary.
      others: The next examples of the same source, for a batch.
    """

    source: str
    serialized: bytes
    features: dict[str, list[Value]]
    is_certain: bool = True
    is_real: bool = True
    others: tuple[Example, ...] = ()

    @property
    def dtypes(self) -> dict[str, str]:
        """{feature: "int64", "float32" or "string"} of it and of `others`, without features that have no value."""
        examples = (*self.others, self)
        return {
            name: _dtype_of(values[0]) for example in examples for name, values in example.features.items() if values
        }


def first_examples(patterns: Sequence[str], payload_format: str) -> list[Example]:
    """Returns the first readable records of the files that match, each with the rest as its `others`."""
    examples = list(itertools.islice(_examples(patterns, payload_format), SAMPLED_EXAMPLES))
    return [
        dataclasses.replace(example, others=(*examples[index + 1 :], *examples[:index]))
        for index, example in enumerate(examples)
    ]


def _examples(patterns: Sequence[str], payload_format: str) -> Iterator[Example]:
    number = itertools.count(1)
    for path in sorted(path for pattern in patterns for path in tf.io.gfile.glob(pattern)):
        if tf.io.gfile.isdir(path):
            continue
        if payload_format == PARQUET:
            for example in _parquet_rows(path):
                yield Example(_source(next(number), path), example.SerializeToString(), _features(example))
            continue
        for record in _records(path):
            features = _features_in(record) if payload_format == TF_EXAMPLE else {}
            yield Example(_source(next(number), path), record, features)


def _source(number: int, path: str) -> str:
    return f"{'the first eval example' if number == 1 else f'eval example {number}'} ({path})"


def from_schema(schema_path: str | None, transform_graph_path: str | None) -> Example | None:
    """Generates an example from a schema, with each domain's minimum (else 1) or first string; None without a schema.

    Features without a shape get one value.

    Args:
      schema_path: The examples' schema file, or None.
      transform_graph_path: A Transform graph, whose schema of the raw examples takes precedence; or None.
    """
    paths = [os.path.join(transform_graph_path, "metadata", "schema.pbtxt")] if transform_graph_path else []
    paths += [schema_path] if schema_path else []
    for path in paths:
        if tf.io.gfile.exists(path):
            schema = read_schema(path)
            domains = {domain.name: domain for domain in schema.string_domain}
            features = {feature.name: _synthetic_feature(feature, domains) for feature in schema.feature}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            source = f"a synthetic example from {path} (no real one is available: the values are arbitrary)"
            return Example(source, example.SerializeToString(), _features(example), is_certain=False, is_real=False)
    return None


def _dtype_of(value: Value) -> str:
    if isinstance(value, (bytes, str)):
        return "string"
    return "float32" if isinstance(value, float) else "int64"


def _records(path: str) -> Iterator[bytes]:
    with tf.io.gfile.GFile(path, "rb") as file:
        compression = "GZIP" if file.read(2) == _GZIP_MAGIC else ""
    try:
        for record in tf.data.TFRecordDataset(path, compression).take(SAMPLED_EXAMPLES):
            yield bytes(record.numpy())
    except tf.errors.DataLossError:
        pass  # not a TFRecord file: the module has its own reader


def _parquet_rows(path: str) -> Iterator[tf.train.Example]:
    from ..inputs.parquet.files import opened_parquet

    with ArrowFile(path, "rb") as file:
        batch = next(opened_parquet(path, file).iter_batches(SAMPLED_EXAMPLES), None)
    for row in batch.to_pylist() if batch is not None else ():
        items = {name: value if isinstance(value, list) else [value] for name, value in row.items()}
        features = {name: _feature([item for item in values if item is not None]) for name, values in items.items()}
        yield tf.train.Example(features=tf.train.Features(feature=features))


def _synthetic_feature(feature: schema_pb2.Feature, domains: dict[str, schema_pb2.StringDomain]) -> tf.train.Feature:
    count = 1
    for dimension in feature.shape.dim:
        count *= dimension.size
    if feature.type == schema_pb2.BYTES:
        domain = domains.get(feature.domain) or feature.string_domain
        return _feature([(list(domain.value) or ["a"])[0].encode()] * count)
    if feature.type == schema_pb2.FLOAT:
        return _feature([float(feature.float_domain.min or 1.0)] * count)
    return _feature([int(feature.int_domain.min or 1)] * count)


def _feature(values: Sequence[Value]) -> tf.train.Feature:
    if values and isinstance(values[0], (str, bytes)):
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value) for value in values]))


def _features_in(record: bytes) -> dict[str, list[Value]]:
    try:
        return _features(tf.train.Example.FromString(record))
    except DecodeError:  # the signature may parse something else
        return {}


def _features(example: tf.train.Example) -> dict[str, list[Value]]:
    return {
        name: list(getattr(feature, feature.WhichOneof("kind")).value)
        for name, feature in example.features.feature.items()
        if feature.WhichOneof("kind")
    }
