"""Writes predictions batch by batch as JSON lines, CSV or TFRecords, by the file name's extension.

Numbers that JSON cannot represent become the strings "NaN", "Infinity" and "-Infinity", as in protobuf's JSON mapping,
so that every JSON parser accepts the lines. Bytes that are not UTF-8 become {"b64": "…"}, as in TensorFlow Serving's
REST API. A float32 is written with the fewest digits that identify it: 0.1, not 0.10000000149011612.

Usage:

    with opened("predictions.jsonl") as predictions:
        predictions.write({"probability": np.array([[0.25]])})
"""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import IO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from ...errors import InputError
from ...inputs.csv.columns import BYTES, FLOAT, INT, to_tf_examples
from ...runtime.files import file_io
from ...runtime.files.file_io import atomic_write
from ...runtime.logs import standard_streams
from .request import STDOUT


class Predictions(Protocol):
    """A writer of predictions."""

    def write(self, outputs: Mapping[str, np.ndarray]) -> None:
        """Writes {output: array}; the arrays' first dimension is the batch dimension."""


@contextlib.contextmanager
def opened(path: str) -> Iterator[Predictions]:
    """Opens a file for predictions, which appears only if the block succeeds (see `atomic_write`), or standard output.

    Args:
      path: A file name with one of the extensions in `request.OUTPUT_ENDINGS`, or `STDOUT` for JSON lines.
    """
    if path == STDOUT:
        with standard_streams.output() as stream:
            yield JsonLines(stream)
        return
    with atomic_write(path) as part:
        if path.endswith((".tfrecord", ".tfrecord.gz")):
            with tf.io.TFRecordWriter(part, "GZIP" if path.endswith(".gz") else None) as writer:
                yield TFRecords(writer)
            return
        with file_io.file_system(part).open(part, mode="wb") as file:
            yield Csv(file, path) if path.endswith(".csv") else JsonLines(file)


class JsonLines:
    """Writes one JSON object a line: {output: value or list of values}."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, outputs: Mapping[str, np.ndarray]) -> None:
        """See `Predictions`."""
        columns = [_json_values(name, array) for name, array in outputs.items()]
        rows = (dict(zip(outputs, row, strict=True)) for row in zip(*columns, strict=True))
        lines = "".join(f"{json.dumps(row, ensure_ascii=False, allow_nan=False)}\n" for row in rows)
        self._file.write(lines.encode())


class Csv:
    """Writes CSV with one column for each output, or for each of its values: `scores_0`, or `scores_0_1` for matrices.

    `write` raises InputError if the outputs' shapes differ between batches.
    """

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._file = file
        self._path = path
        self._header: list[str] = []

    def write(self, outputs: Mapping[str, np.ndarray]) -> None:
        """See `Predictions`."""
        header = [column for name, array in outputs.items() for column in _column_names(name, array.shape[1:])]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._header:
            self._header = header
            writer.writerow(header)
        if header != self._header:
            raise InputError(
                f"--output {self._path}: the model's outputs differ in length between batches, which CSV columns "
                f"cannot represent: first {', '.join(self._header)}, then {', '.join(header)}. Use .jsonl or .tfrecord."
            )
        tables = [_csv_values(name, array).reshape(len(array), -1) for name, array in outputs.items()]
        writer.writerows(np.concatenate(tables, axis=1).tolist())
        self._file.write(text.getvalue().encode())


class TFRecords:
    """Writes one tf.Example for each prediction: integers and booleans as int64, floats as float, strings as bytes."""

    def __init__(self, writer: tf.io.TFRecordWriter) -> None:
        self._writer = writer

    def write(self, outputs: Mapping[str, np.ndarray]) -> None:
        """See `Predictions`."""
        size = len(next(iter(outputs.values()), ()))
        for example in to_tf_examples({name: _lists(name, array) for name, array in outputs.items()}, size):
            self._writer.write(example)


def _column_names(name: str, shape: tuple[int, ...]) -> list[str]:
    if int(np.prod(shape)) == 1:
        return [name]
    return ["_".join(map(str, (name, *index))) for index in np.ndindex(*shape)]


def _json_values(name: str, array: np.ndarray) -> list[object]:
    values = _values(name, array)
    if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
        words = np.where(np.isnan(values), "NaN", np.where(values > 0, "Infinity", "-Infinity"))
        values = np.where(finite, values.astype(object), words.astype(object))
    rows: list[object] = values.tolist()
    return rows


def _csv_values(name: str, array: np.ndarray) -> np.ndarray:
    values: np.ndarray = _values(name, array).astype(object)
    for index in np.ndindex(*values.shape) if array.dtype == object else ():
        if isinstance(values[index], dict):
            values[index] = json.dumps(values[index])
    return values


def _values(name: str, array: np.ndarray) -> np.ndarray:
    """Returns the array with elements that JSON and CSV can represent."""
    if array.dtype == object:
        values: np.ndarray = np.empty(array.size, dtype=object)
        values[:] = [_text(value) for value in array.ravel()]
        shaped: np.ndarray = values.reshape(array.shape)
        return shaped
    if array.dtype.kind in "biu" or array.dtype == np.float64:
        return array
    if array.dtype == np.float32:
        return _shortest(array)
    if np.can_cast(array.dtype, np.float32):  # float16, bfloat16
        return _shortest(array.astype(np.float32))
    raise _unwritable(name, array)


def _shortest(array: np.ndarray) -> np.ndarray:
    """Returns, for each float32, the float64 with the fewest decimal digits that rounds to it."""
    words = pc.cast(pa.array(array.ravel()), pa.string())
    shortest: np.ndarray = np.asarray(pc.cast(words, pa.float64())).reshape(array.shape)
    return shortest


def _text(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def _lists(name: str, array: np.ndarray) -> pa.ListArray:
    kinds = {"O": BYTES, "b": INT, "i": INT, "u": INT}
    kind = kinds.get(array.dtype.kind, FLOAT)
    if kind == FLOAT and not np.can_cast(array.dtype, np.float64):
        raise _unwritable(name, array)
    flat = array.ravel() if kind == BYTES else array.ravel().astype(kind.to_pandas_dtype())
    width = int(np.prod(array.shape[1:]))
    return pa.ListArray.from_arrays(pa.array(np.arange(len(array) + 1) * width, pa.int32()), pa.array(flat, kind))


def _unwritable(name: str, array: np.ndarray) -> InputError:
    return InputError(f"The model's output {name!r} has type {array.dtype}, which prediction files do not support.")
