"""Examples to run a freshly loaded model on: the first evaluation record, or a synthetic one from a schema."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2

from ..inputs.data_accessor import PARQUET, TF_EXAMPLE
from ..inputs.parquet.arrow_file import ArrowFile
from ..runtime.files.schema import read_schema

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
    """

    source: str
    serialized: bytes
    features: dict[str, list[Value]]
    is_certain: bool = True
    is_real: bool = True

    @property
    def dtypes(self) -> dict[str, str]:
        """{feature: "int64", "float32" or "string"}, without features that have no value."""
        return {name: _dtype_of(values[0]) for name, values in self.features.items() if values}


def first_example(patterns: Sequence[str], payload_format: str) -> Example | None:
    """Returns the first readable record of the files that match, or None."""
    for path in sorted(path for pattern in patterns for path in tf.io.gfile.glob(pattern)):
        if tf.io.gfile.isdir(path):
            continue
        source = f"the first eval example ({path})"
        if payload_format == PARQUET:
            example = _first_parquet_row(path)
            if example is not None:
                return Example(source, example.SerializeToString(), _features(example))
            continue
        record = _first_record(path)
        if record is not None:
            features = {}
            if payload_format == TF_EXAMPLE:
                features = _features(tf.train.Example.FromString(record))
            return Example(source, record, features)
    return None


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


def _first_record(path: str) -> bytes | None:
    with tf.io.gfile.GFile(path, "rb") as file:
        compression = "GZIP" if file.read(2) == _GZIP_MAGIC else ""
    try:
        for record in tf.data.TFRecordDataset(path, compression).take(1):
            return bytes(record.numpy())
    except tf.errors.DataLossError:
        pass  # not a TFRecord file: the module has its own reader
    return None


def _first_parquet_row(path: str) -> tf.train.Example | None:
    from ..inputs.parquet.files import opened_parquet

    with ArrowFile(path, "rb") as file:
        batch = next(opened_parquet(path, file).iter_batches(1), None)
    if batch is None:
        return None
    features = {}
    for name, values in batch.to_pydict().items():
        value = values[0] if isinstance(values[0], list) else values
        features[name] = _feature([item for item in value if item is not None])
    return tf.train.Example(features=tf.train.Features(feature=features))


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


def _features(example: tf.train.Example) -> dict[str, list[Value]]:
    return {
        name: list(getattr(feature, feature.WhichOneof("kind")).value)
        for name, feature in example.features.feature.items()
        if feature.WhichOneof("kind")
    }
