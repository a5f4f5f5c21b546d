r"""Decodes blocks of delimited rows with Arrow, with the same results as `delimited.decode`.

Arrow takes half the time of decode_csv and creates no Python object per row. TensorFlow decodes the block instead if
Arrow rejects it, would accept a value that decode_csv rejects, or would parse a value differently. Either way, batches
have the same tensors, and the same batch fails.

Usage:

    decoder = BlockDecoder([Field("age", "int32"), Field("label", "float32")])
    dataset = decoder.batches(lambda: read_ranges(reader, ledger, read=decoder.read), ReaderErrors(), batch_size=64)
    dataset = dataset.map(decoder.decode)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import numpy as np
import pyarrow as pa
import tensorflow as tf

from ....inputs.csv.rows import Rows, byte_positions
from ....inputs.readers.reader_errors import ReaderErrors
from ..sharding.range_reader import read_range
from .arrow_rows import parsed_rows
from .delimited import (
    FIELD_DELIM,
    VALUE_DELIM,
    Field,
    check_format,
    default_value,
    raw_columns,
    typed,
)

if TYPE_CHECKING:
    from ....inputs.readers.reader_errors import Nested

_MAX_BYTES = 1 << 30
_MAX_REFUSED = 4  # consecutive blocks, after which Arrow is not tried again; a failure takes 0.1 s with pyarrow 10
# TensorFlow 2.15 rejects longer strings for floats, TensorFlow 2.21 accepts them.
_LONGEST_FLOAT = None if tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 21) else 31
_QUOTE, _LINE_END, _ZERO = b'"\n0'


class TextReader(Protocol):
    """A reader that can return a range of rows as one text."""

    def read_text(self, start: int, end: int, /) -> bytes | None:
        """Returns the rows [start, end) in the form that `BlockDecoder.columns` takes, or None if it cannot."""


class TextBlock(TypedDict):
    """A block of rows: undecoded in `rows`, or decoded in `columns`; the other one is empty.

    Values are NumPy arrays, or tensors inside tf.data. A string column is a pair of vectors: indices, and the strings.
    """

    rows: np.ndarray | tf.Tensor
    columns: tuple[np.ndarray | tf.Tensor | tuple[np.ndarray | tf.Tensor, np.ndarray | tf.Tensor], ...]


class BlockDecoder:
    """Decodes blocks of rows that have the same columns and delimiters.

    Attributes:
      spec: Type specs of a `TextBlock`.
      threads: Recommended number of threads that call `read`.
    """

    threads = min(8, os.cpu_count() or 1)  # the work is CPU-bound, so more threads than cores would only compete

    def __init__(self, fields: Sequence[Field], delim: str = FIELD_DELIM, value_delim: str = VALUE_DELIM) -> None:
        """Initializes the decoder; the arguments are those of `delimited.decode`.

        Raises:
          InputError: If a delimiter is not allowed, or there are no columns, duplicate names or more than 2^16 columns.
        """
        check_format(fields, delim, value_delim)
        self._fields, self._delim, self._value_delim = fields, delim, value_delim
        self._defaults = [default_value(field) for field in fields]
        texts = tf.TensorSpec([None], tf.string)
        codes = tf.TensorSpec([None], tf.int32)
        self.spec: dict[str, Nested[tf.TypeSpec]] = {
            "rows": texts,
            "columns": tuple(
                (codes, texts) if value.dtype == object else tf.TensorSpec([None], value.dtype)
                for value in self._defaults
            ),
        }
        self._has_integers, self._has_floats = (
            any(value.dtype.kind == kind for value in self._defaults) for kind in "if"
        )
        # Dictionary encoding: each distinct string is created once, and repeated by tf.gather.
        text = pa.dictionary(pa.int32(), pa.binary())
        types = [text if value.dtype == object else pa.from_numpy_dtype(value.dtype) for value in self._defaults]
        self._types = dict(enumerate(types))
        self._refused = 0  # consecutive blocks that Arrow could not decode

    def read(
        self, reader: TextReader, start: int, end: int, is_stopped: Callable[[], bool] = lambda: False
    ) -> TextBlock:
        """Reads the rows [start, end) as a block.

        Args:
          reader: As in `range_reader.read_range`, and a `TextReader`.
          start: Number of the first row, from 0.
          end: Number of the row to stop before.
          is_stopped: As in `range_reader.read_range`.

        Raises:
          RowsError: As `range_reader.read_range`. Exceptions of the reader itself are not wrapped.
        """
        if self._refused < _MAX_REFUSED:
            text = reader.read_text(start, end)
            columns = None if text is None else self.columns(text, end - start)
            if columns is not None:
                self._refused = 0
                return {"rows": np.array([], object), "columns": tuple(columns)}
            self._refused += 1
        rows = read_range(reader, start, end, is_stopped)
        return {"rows": rows, "columns": tf.nest.map_structure(_empty_array, self.spec["columns"])}

    def columns(self, text: bytes, count: int) -> list[np.ndarray | tuple[np.ndarray, np.ndarray]] | None:
        r"""Decodes rows into columns identical to decode_csv's; returns None if only decode_csv itself can decode them.

        A string column is a pair of vectors: the index of each row's string in the second vector, and the strings.

        Args:
          text: The rows, separated by "\n"; empty lines are ignored.
          count: Number of rows.
        """
        if not text.endswith(b"\n"):
            text += b"\n"
        if count == 0 or not self._is_plain(text, count):
            return None
        try:
            table = parsed_rows(text, len(self._types), self._types, self._delim)
        except pa.ArrowException:
            return None
        if table.num_rows != count:  # there is a line break in quotes
            return None
        if any(
            not len(value) and _has_gap(column) for column, value in zip(table.columns, self._defaults, strict=True)
        ):
            return None
        columns = [_filled(column, value) for column, value in zip(table.itercolumns(), self._defaults, strict=True)]
        return columns if all(map(_is_ordinary, columns)) else None

    def batches(
        self, make_blocks: Callable[[], Iterator[TextBlock]], errors: ReaderErrors, batch_size: int
    ) -> tf.data.Dataset:
        """Returns a dataset of batches of columns, to be mapped by `decode`; the last batch may be smaller.

        Args:
          make_blocks: Called for each iteration over the dataset; returns an iterator over results of `read`.
          errors: Keeps the exception that the iterator raises, to re-raise it.
          batch_size: Number of rows in a batch.
        """

        def columns(block: TextBlock) -> tuple[tf.Tensor, ...]:
            rows = block["rows"]
            found = tf.cond(
                tf.size(rows) > 0,
                lambda: list(raw_columns(rows, self._fields, self._delim)),
                lambda: [tf.gather(*reversed(c)) if isinstance(c, tuple) else c for c in block["columns"]],
            )
            return tuple(tf.nest.flatten(found))  # tf.cond returns a single column without a list

        blocks = errors.blocks(lambda: _cut_into_batches(make_blocks(), batch_size), self.spec)
        return blocks.map(tf.autograph.experimental.do_not_convert(columns), tf.data.AUTOTUNE).rebatch(batch_size)

    def decode(self, *columns: tf.Tensor) -> dict[str, tf.Tensor | tf.SparseTensor]:
        """Converts the columns of a batch to the result of `delimited.decode`."""
        return typed(columns, self._fields, self._value_delim)

    def _is_plain(self, text: bytes, count: int) -> bool:
        """Returns whether Arrow, unless it fails, parses the same fields, integers and long floats as decode_csv."""
        if b"\r" in text or len(text) > _MAX_BYTES:
            return False
        data = np.frombuffer(text, np.uint8)
        exes = [mark for mark in b"xX" if mark in text]
        if (
            self._has_integers and exes and (data[byte_positions(data, *exes) - 1] == _ZERO).any()
        ):  # Arrow parses 0x10 as 16
            return False
        if self._has_floats and _LONGEST_FLOAT and _longest_field(data, ord(self._delim)) > _LONGEST_FLOAT:
            return False
        if b'"' in text and not _has_plain_quotes(data, ord(self._delim)):
            return False
        return self._fits(text, data, count)

    def _fits(self, text: bytes, data: np.ndarray, count: int) -> bool:
        """Returns whether no row has too many fields, for which Arrow before version 20 writes beyond its buffer."""
        columns, delim = len(self._types), self._delim.encode()
        if b'"' in text:
            return bool((Rows(text, delim).counts == columns).all())
        marks = data[byte_positions(data, delim[0], _LINE_END)]
        return len(marks) == count * columns and bool((marks[columns - 1 :: columns] == _LINE_END).all())


def _longest_field(data: np.ndarray, delim: int) -> int:
    """Returns the length of the longest field in bytes, assuming that no field contains a delimiter."""
    return int(np.diff(byte_positions(data, delim, _LINE_END), prepend=-1).max()) - 1


def _has_plain_quotes(data: np.ndarray, delim: int) -> bool:
    """Returns whether quotes occur only at the start and end of fields, which excludes doubled quotes."""
    quotes = byte_positions(data, _QUOTE)
    before, after = data[quotes[::2] - 1], data[quotes[1::2] + 1]  # index -1 wraps to the last byte, a line end
    return len(before) == len(after) and all(
        bool(((around == delim) | (around == _LINE_END)).all()) for around in (before, after)
    )


def _filled(column: pa.ChunkedArray, default: Any) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Converts a column to NumPy, with the default in place of empty fields."""
    (values,) = column.chunks
    if default.dtype != object:
        numbers: np.ndarray = (values.fill_null(default[0]) if values.null_count else values).to_numpy()
        return numbers
    texts = values.dictionary.to_numpy(zero_copy_only=False)
    if len(default):
        texts[texts == b""] = default[0].encode()
    return values.indices.to_numpy(), texts


def _has_gap(column: pa.ChunkedArray) -> bool:
    """Returns whether the column has an empty field."""
    (values,) = column.chunks
    return bool(values.null_count) or (pa.types.is_dictionary(values.type) and b"" in values.dictionary.to_pylist())


def _empty_array(spec: tf.TensorSpec) -> np.ndarray:
    nothing: np.ndarray = np.zeros(0, spec.dtype.as_numpy_dtype)
    return nothing


def _is_ordinary(values: np.ndarray | tuple[np.ndarray, np.ndarray]) -> bool:
    """Returns whether all floats are finite and not denormal; others are parsed differently from release to release."""
    if isinstance(values, tuple) or values.dtype.kind != "f":
        return True
    sizes = np.abs(values)
    limits = np.finfo(values.dtype)
    return bool(((sizes <= limits.max) & ((sizes >= limits.tiny) | (sizes == 0))).all())


def _cut_into_batches(blocks: Iterator[TextBlock], batch_size: int) -> Iterator[TextBlock]:
    """Yields blocks, with undecoded ones split at batch boundaries so that a bad row fails only its own batch."""
    before = 0
    for block in blocks:
        rows = block["rows"]
        if not len(rows):
            before += len(tf.nest.flatten(block["columns"])[0])
            yield block
        while len(rows):
            end = batch_size - before % batch_size
            yield {**block, "rows": rows[:end]}
            before += len(rows[:end])
            rows = rows[end:]
