"""Writes predictions batch by batch as JSON lines, CSV, Parquet or TFRecords, by the file name's extension.

Numbers that JSON cannot represent become the strings "NaN", "Infinity" and "-Infinity", as in protobuf's JSON mapping,
so that every JSON parser accepts the lines. Bytes that are not UTF-8 become {"b64": "…"}, as in TensorFlow Serving's
REST API. A float32 is written with the fewest digits that identify it: 0.1, not 0.10000000149011612. Outputs are arrays
as by `tensor_values.plain_array`: complex numbers are pairs, and rows of a RaggedTensor lists, which CSV and Parquet
hold as JSON text.

Usage:

    with opened("predictions.jsonl") as predictions:
        predictions.write({"probability": np.array([[0.25]])}, {"trip_id": pa.array([7])})
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tensorflow as tf

from ...errors import InputError
from ...inputs.csv.columns import BYTES, FLOAT, INT, to_tf_examples
from ...inputs.csv.lines import csv_lines
from ...runtime.files import file_io
from ...runtime.files.output_file import STDOUT, output_file
from ...runtime.logs import standard_streams
from ..tensor_values import number_word
from .formulas import escaped


class Predictions(Protocol):
    """A writer of predictions."""

    def write(self, outputs: Mapping[str, np.ndarray], inputs: Mapping[str, pa.Array]) -> None:
        """Writes a batch.

        Args:
          outputs: {output: array}; the arrays' first dimension is the batch dimension.
          inputs: {column of the examples: array of values or of lists}; written first.
        """


@contextlib.contextmanager
def opened(path: str, *, escape_formulas: bool = False) -> Iterator[Predictions]:
    """Opens a file for predictions, which appears only if the block succeeds (see `output_file`), or standard output.

    Args:
      path: A file name with one of the extensions in `request.OUTPUT_ENDINGS`, or `STDOUT` for JSON lines.
      escape_formulas: Whether to quote texts of CSV that a spreadsheet would run as a formula; see `formulas`.
    """
    if path == STDOUT:
        with standard_streams.output() as stream:
            yield JsonLines(stream)
        return
    with output_file(path) as part:
        if path.endswith((".tfrecord", ".tfrecord.gz")):
            with tf.io.TFRecordWriter(part, "GZIP" if path.endswith(".gz") else None) as writer:
                yield TFRecords(writer)
            return
        with file_io.file_system(part).open(part, mode="wb") as file:
            if path.endswith(".parquet"):
                with contextlib.closing(Parquet(file, path)) as table:
                    yield table
                return
            yield Csv(file, path, escape_formulas) if path.endswith(".csv") else JsonLines(file)


class JsonLines:
    """Writes one JSON object a line: {output: value or list of values}."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, outputs: Mapping[str, np.ndarray], inputs: Mapping[str, pa.Array]) -> None:
        """See `Predictions`."""
        columns = {name: list(map(_json_value, array.to_pylist())) for name, array in inputs.items()}
        columns |= {name: _json_values(array) for name, array in outputs.items()}
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        lines = "".join(f"{json.dumps(row, ensure_ascii=False, allow_nan=False)}\n" for row in rows)
        self._file.write(lines.encode())


class Csv:
    """Writes CSV with one column for each output, or for each of its values: `scores_0`, or `scores_0_1` for matrices.

    Lists in inputs are JSON.
    `write` raises InputError if the outputs' shapes differ between batches.
    """

    def __init__(self, file: IO[bytes], path: str, escape_formulas: bool) -> None:
        self._file = file
        self._path = path
        self._escape_formulas = escape_formulas
        self._header: list[str] = []

    def write(self, outputs: Mapping[str, np.ndarray], inputs: Mapping[str, pa.Array]) -> None:
        """See `Predictions`."""
        header = [*inputs, *column_names(outputs)]
        if not self._header:
            self._header = header
            self._write_rows([header])
        if header != self._header:
            raise _unequal(self._path, self._header, header)
        tables = [_csv_values(array).reshape(len(array), -1) for name, array in outputs.items()]
        cells = [map(_cell, array.to_pylist()) for array in inputs.values()]
        self._write_rows(
            (*row, *more) for *row, more in zip(*cells, np.concatenate(tables, axis=1).tolist(), strict=True)
        )

    def _write_rows(self, rows: Iterable[Iterable[object]]) -> None:
        lines = csv_lines((map(escaped, row) for row in rows) if self._escape_formulas else rows)
        self._file.write("".join(lines).encode())


class Parquet:
    """Writes Parquet: an output with one value for each example is a column of values, any other a column of lists.

    Strings are UTF-8; other bytes are JSON text, {"b64": "…"}. `write` raises InputError if an output has one value in
    some batches only.
    """

    _ROWS = 1 << 16  # rows from which a row group is written
    _BYTES = 1 << 26  # size in memory from which it may have fewer rows
    _TABLES = 256  # batches from which they are combined, as each needs some kB of memory besides its data

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._file = file
        self._path = path
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0  # of the waiting tables

    def write(self, outputs: Mapping[str, np.ndarray], inputs: Mapping[str, pa.Array]) -> None:
        """See `Predictions`."""
        columns = {name: _with_text(array) for name, array in inputs.items()}
        table = pa.table(columns | {name: _arrow_values(array) for name, array in outputs.items()})
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, table.schema)
        if table.schema != self._writer.schema:
            raise _unequal(
                self._path,
                *([f"{item.name} ({item.type})" for item in schema] for schema in (self._writer.schema, table.schema)),
            )
        self._waiting.append(table)
        self._rows, self._bytes = self._rows + len(table), self._bytes + table.nbytes
        if self._rows >= self._ROWS or self._bytes >= self._BYTES:
            self._flush()
        elif len(self._waiting) >= self._TABLES:
            self._waiting = [self._combined()]

    def close(self) -> None:
        """Writes the last rows and the footer."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, pa.schema([]))
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting and self._writer:
            self._writer.write_table(self._combined(), self._rows)
            self._waiting.clear()
            self._rows = self._bytes = 0

    def _combined(self) -> pa.Table:
        return pa.concat_tables(self._waiting).combine_chunks()


class TFRecords:
    """Writes one tf.Example for each prediction: integers and booleans as int64, floats as float, strings as bytes."""

    def __init__(self, writer: tf.io.TFRecordWriter) -> None:
        self._writer = writer

    def write(self, outputs: Mapping[str, np.ndarray], inputs: Mapping[str, pa.Array]) -> None:
        """See `Predictions`."""
        size = len(next(iter(outputs.values()), ()))
        columns = {name: _features(array) for name, array in inputs.items()}
        columns |= {name: _lists(name, array) for name, array in outputs.items()}
        for example in to_tf_examples(columns, size):
            self._writer.write(example)


def column_names(outputs: Mapping[str, np.ndarray]) -> list[str]:
    """Returns the names of the CSV columns for {output: array}."""
    return [column for name, array in outputs.items() for column in _column_names(name, array.shape[1:])]


def _unequal(path: str, before: Iterable[str], now: Iterable[str]) -> InputError:
    return InputError(
        f"--output {path}: the model's outputs differ in length between batches, which its columns cannot represent: "
        f"first {', '.join(before)}, then {', '.join(now)}. Use .jsonl or .tfrecord."
    )


def _column_names(name: str, shape: tuple[int, ...]) -> list[str]:
    if int(np.prod(shape)) == 1:
        return [name]
    return ["_".join(map(str, (name, *index))) for index in np.ndindex(*shape)]


def _json_values(array: np.ndarray) -> list[object]:
    values = _values(array)
    if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
        values = values.astype(object)
        values[~finite] = [number_word(value) for value in values[~finite]]
    rows: list[object] = values.tolist()
    return rows


def _csv_values(array: np.ndarray) -> np.ndarray:
    values: np.ndarray = _values(array).astype(object)
    for index in np.ndindex(*values.shape) if array.dtype == object else ():
        if isinstance(values[index], (dict, list)):
            values[index] = json.dumps(values[index], ensure_ascii=False)
    return values


def _values(array: np.ndarray) -> np.ndarray:
    """Returns the array with elements that JSON and CSV can represent."""
    if array.dtype != object:
        return _shortest(array) if array.dtype == np.float32 else array
    values: np.ndarray = np.empty(array.size, dtype=object)
    values[:] = [_json_value(value) for value in array.ravel()]
    shaped: np.ndarray = values.reshape(array.shape)
    return shaped


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


def _json_value(value: object) -> object:
    if isinstance(value, list):
        return list(map(_json_value, value))
    if isinstance(value, float) and not math.isfinite(value):
        return number_word(value)
    return _text(value) if isinstance(value, bytes) else value


def _cell(value: object) -> object:
    """Returns a value of an input for CSV: empty for a missing one, JSON for lists and for bytes that are not UTF-8."""
    plain = value if isinstance(value, float) else _json_value(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, (list, dict)) else plain


def _with_text(array: pa.Array) -> pa.Array:
    """Returns an array of values or lists with strings in place of bytes."""
    if pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(array.offsets, _with_text(array.values))
    return pa.array(list(map(_cell, array.to_pylist())), pa.string()) if array.type == BYTES else array


def _arrow_values(array: np.ndarray) -> pa.Array:
    plain = _values(array)
    kind = pa.string() if plain.dtype == object else pa.from_numpy_dtype(plain.dtype)
    values = pa.array(_csv_values(array).ravel(), kind)
    shape = () if int(np.prod(array.shape[1:])) == 1 else array.shape[1:]
    for size in reversed(shape):
        count = len(values) // size if size else int(np.prod(array.shape[:-1]))
        values = pa.ListArray.from_arrays(pa.array(np.arange(count + 1) * size, pa.int32()), values)
    return values


def _features(array: pa.Array) -> pa.ListArray:
    """Returns the values or lists as those of a tf.Example: int64, float32 or bytes."""
    kind = array.type.value_type if pa.types.is_list(array.type) else array.type
    rows = [value if value is None or isinstance(value, list) else [value] for value in array.to_pylist()]
    return pa.array(rows, pa.list_(FLOAT if pa.types.is_floating(kind) else kind))


def _lists(name: str, array: np.ndarray) -> pa.ListArray:
    if array.dtype == object and any(isinstance(row, list) for row in array.ravel()):
        return _ragged(name, array)
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise _unwritable(name, "an unsigned integer of more than 63 bits")
    kinds = {"O": BYTES, "b": INT, "i": INT, "u": INT}
    kind = kinds.get(array.dtype.kind, FLOAT)
    flat = array.ravel() if kind == BYTES else array.ravel().astype(kind.to_pandas_dtype())
    width = int(np.prod(array.shape[1:]))
    return pa.ListArray.from_arrays(pa.array(np.arange(len(array) + 1) * width, pa.int32()), pa.array(flat, kind))


def _ragged(name: str, rows: np.ndarray) -> pa.ListArray:
    values = pa.array(rows.tolist())
    if pa.types.is_nested(values.type.value_type):
        raise _unwritable(name, "rows of nested lists")
    return _features(values.cast(pa.list_(INT)) if pa.types.is_null(values.type.value_type) else values)


def _unwritable(name: str, what: str) -> InputError:
    return InputError(f"The model's output {name!r} has {what}, which TFRecords cannot represent. Use .jsonl.")
