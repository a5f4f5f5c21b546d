"""Serializes examples that a check has generated or converted, and writes them as ExampleGen does."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence


def serialized(features: Mapping[str, Sequence[bytes | float]]) -> bytes:
    """Returns a serialized tf.Example; the values of a feature are all bytes, all floats or all integers."""
    from tensorflow import train

    example = train.Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        if values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        elif values:
            feature.int64_list.value.extend(values)
    record: bytes = example.SerializeToString()
    return record


def write_gzipped(records: Iterable[bytes], path: str) -> None:
    """Writes a gzipped TFRecord file, and creates its folder."""
    import tensorflow as tf

    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tf.io.TFRecordWriter(path, "GZIP") as writer:
        for record in records:
            writer.write(record)
