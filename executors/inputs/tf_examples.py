"""Converts features to serialized tf.Examples and back.

Usage:

    record = serialized({"age": [31], "city": ["Oslo"]})
    list(features_in(record))    # [("age", "INT", [31]), ("city", "BYTES", [b"Oslo"])]
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_KINDS = {"bytes_list": "BYTES", "float_list": "FLOAT", "int64_list": "INT"}


def serialized(features: Mapping[str, Sequence[bytes | str | float]]) -> bytes:
    """Returns a serialized tf.Example; the values of a feature are all strings, all floats or all integers."""
    from tensorflow import train

    example = train.Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        if values and isinstance(values[0], (bytes, str)):
            feature.bytes_list.value.extend(value.encode() if isinstance(value, str) else value for value in values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        elif values:
            feature.int64_list.value.extend(map(int, values))
    record: bytes = example.SerializeToString()
    return record


def features_in(record: bytes) -> Iterator[tuple[str, str, list[Any]]]:
    """Yields name, type and values of each feature of a serialized tf.Example, unless it has no list of values.

    The type is "BYTES", "FLOAT" or "INT", as in a schema.

    Raises:
      google.protobuf.message.DecodeError: If the record is not a tf.Example.
    """
    from tensorflow import train

    for name, feature in train.Example.FromString(record).features.feature.items():
        if kind := feature.WhichOneof("kind"):
            yield name, _KINDS[kind], list(getattr(feature, kind).value)


def write_gzipped(records: Iterable[bytes], path: str) -> None:
    """Writes a gzipped TFRecord file, and creates its folder."""
    import tensorflow as tf

    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tf.io.TFRecordWriter(path, "GZIP") as writer:
        for record in records:
            writer.write(record)
