"""TFRecord files of tf.Examples, from plain Python and NumPy values. TensorFlow is imported at the first call."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

Row = Mapping[str, Any]
_FIELDS = {"f": "float_list", "i": "int64_list", "u": "int64_list", "b": "int64_list"}


def feature(values: Any) -> tf.train.Feature:
    """A value, or a list or array of them. None is a feature without a type, an empty array a list without values."""
    import tensorflow as tf

    made = tf.train.Feature()
    if values is not None:
        listed = np.ravel(values).tolist() if isinstance(values, (np.ndarray, np.generic)) else values
        listed = listed if isinstance(listed, (list, tuple)) else [listed]
        field = _FIELDS.get(np.asarray(values).dtype.kind, "bytes_list")
        encoded = [value.encode() if isinstance(value, str) else value for value in listed]
        getattr(made, field).SetInParent()
        getattr(made, field).value.extend(encoded)
    return made


def example(row: Row | None = None, **more: Any) -> bytes:
    """A serialized tf.Example of feature values by name; a feature whose value is an empty list is left out."""
    import tensorflow as tf

    values = {**(row or {}), **more}
    made = {name: feature(value) for name, value in values.items() if not (isinstance(value, list) and not value)}
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def write_records(path: str | os.PathLike[str], records: Iterable[bytes], compression: str | None = None) -> str:
    """Writes a TFRecord file, gzipped if its name ends with .gz, and its folder; returns its path."""
    import tensorflow as tf

    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    default = "GZIP" if path.suffix == ".gz" else ""
    with tf.io.TFRecordWriter(str(path), default if compression is None else compression) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def write_examples(path: str | os.PathLike[str], rows: Iterable[Row], compression: str | None = None) -> str:
    """Writes a TFRecord file of tf.Examples; returns its path."""
    return write_records(path, map(example, rows), compression)


def rows_of(columns: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Returns the rows of a table of columns."""
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
