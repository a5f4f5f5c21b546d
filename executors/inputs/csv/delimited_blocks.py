r"""Blocks of delimited rows as tensors: decoded by Arrow, many batches at a time, wherever it is as `delimited.decode`.

Arrow takes half the time of decode_csv and makes no row an object of its own. Where it would take what decode_csv
refuses, or read it otherwise, and where it refuses something itself, the block's rows stay text, and TensorFlow decodes
them. Either way a batch has the same tensors, and the same batch fails.

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
import pyarrow.csv
import tensorflow as tf

from ..readers.range_reader import read_range
from ..readers.reader_errors import ReaderErrors
from .delimited import (
    FIELD_DELIM,
    VALUE_DELIM,
    Field,
    check_format,
    default_value,
    raw_columns,
    typed,
)
from .rows import places_of

if TYPE_CHECKING:
    from ..readers.reader_errors import Nested

_MOST_BYTES = 1 << 30
_MOST_REFUSED = 4  # after so many, the rest will be alike; with pyarrow 10, a refusal takes a tenth of a second
# TensorFlow 2.15 refuses longer texts for floats, 2.21 takes them.
_LONGEST_FLOAT = None if tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 21) else 31
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # Arrow leaves one out at a block's beginning
_QUOTE, _LINE_END, _ZERO = b'"\n0'


class TextReader(Protocol):
    """A reader that may have rows as one text."""

    def read_text(self, start: int, end: int, /) -> bytes | None:
        """Returns the rows [start, end) as `BlockDecoder.columns` takes them, or None."""


class TextBlock(TypedDict):
    """Rows as text, or as columns where these are decoded; strings are two vectors. Arrays, or tensors of tf.data."""

    rows: np.ndarray | tf.Tensor
    columns: tuple[np.ndarray | tf.Tensor | tuple[np.ndarray | tf.Tensor, np.ndarray | tf.Tensor], ...]


class BlockDecoder:
    """Decodes the rows of one format.

    Attributes:
      spec: Type specs of a block.
      threads: How many should call `read`.
    """

    threads = min(8, os.cpu_count() or 1)  # they compute; more would be in each other's way

    def __init__(self, fields: Sequence[Field], delim: str = FIELD_DELIM, value_delim: str = VALUE_DELIM) -> None:
        """Takes what `delimited.decode` takes.

        Raises:
          InputError: When a delimiter cannot be one.
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
        self._names = [str(place) for place in range(len(fields))]
        # Strings that come again and again are made once, and multiplied in TensorFlow.
        text = pa.dictionary(pa.int32(), pa.binary())
        types = [text if value.dtype == object else pa.from_numpy_dtype(value.dtype) for value in self._defaults]
        self._convert = pyarrow.csv.ConvertOptions(
            column_types=dict(zip(self._names, types, strict=True)), null_values=[""], strings_can_be_null=False
        )
        self._refused = 0  # blocks, one after the other
        # A line end in quotes then makes one row of two lines, which shows.
        self._parse = pyarrow.csv.ParseOptions(delimiter=delim, newlines_in_values=True)

    def read(
        self, reader: TextReader, start: int, end: int, is_stopped: Callable[[], bool] = lambda: False
    ) -> TextBlock:
        """Returns the rows [start, end) as a block.

        Args:
          reader: As of `read_range`, and with `read_text(start, end)`: what `columns` takes, or None.
          start: As of `read_range`.
          end: As of `read_range`.
          is_stopped: As of `read_range`.

        Raises:
          Exception: What the reader raises.
        """
        if self._refused < _MOST_REFUSED:
            text = reader.read_text(start, end)
            columns = None if text is None else self.columns(text, end - start)
            if columns is not None:
                self._refused = 0
                return {"rows": np.array([], object), "columns": tuple(columns)}
            self._refused += 1
        rows = read_range(reader, start, end, is_stopped)
        return {"rows": rows, "columns": tf.nest.map_structure(_nothing, self.spec["columns"])}

    def columns(self, text: bytes, count: int) -> list[np.ndarray | tuple[np.ndarray, np.ndarray]] | None:
        r"""Returns the columns of rows as decode_csv would return them, or None where it has to be asked itself.

        Strings are two vectors: the place of each in the second one, and the strings.

        Args:
          text: The rows, with "\n" between them; empty lines are none.
          count: How many there are.
        """
        if not text.endswith(b"\n"):
            text += b"\n"
        if count == 0 or not self._is_plain(text):
            return None
        read = pyarrow.csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(text) + 1)
        try:
            table = pyarrow.csv.read_csv(pa.BufferReader(text), read, self._parse, self._convert)
        except pa.ArrowException:
            return None
        if table.num_rows != count:
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
        """Returns the rows of blocks as a dataset of batches for `decode`, the last one shorter; see `range_reader`.

        Args:
          make_blocks: Called at each run through the dataset; returns an iterator of what `read` returns.
          errors: Keeps what it raises.
          batch_size: Number of rows in a batch.
        """

        def columns(block: TextBlock) -> tuple[tf.Tensor, ...]:
            rows = block["rows"]
            found = tf.cond(
                tf.size(rows) > 0,
                lambda: list(raw_columns(rows, self._fields, self._delim)),
                lambda: [tf.gather(*reversed(c)) if isinstance(c, tuple) else c for c in block["columns"]],
            )
            return tuple(tf.nest.flatten(found))  # one alone comes without a list

        blocks = errors.blocks(lambda: _cut(make_blocks(), batch_size), self.spec)
        return blocks.map(tf.autograph.experimental.do_not_convert(columns), tf.data.AUTOTUNE).rebatch(batch_size)

    def decode(self, *columns: tf.Tensor) -> dict[str, tf.Tensor | tf.SparseTensor]:
        """Returns the columns of a batch as `delimited.decode` does."""
        return typed(columns, self._fields, self._value_delim)

    def _is_plain(self, text: bytes) -> bool:
        """Returns whether Arrow divides the text into the same fields, or fails, and reads no integers as others."""
        if b"\r" in text or text.startswith(_BYTE_ORDER_MARK) or len(text) > _MOST_BYTES:
            return False
        data = np.frombuffer(text, np.uint8)
        exes = [mark for mark in b"xX" if mark in text]
        if self._has_integers and exes and (data[places_of(data, *exes) - 1] == _ZERO).any():  # Arrow takes 0x10 for 16
            return False
        if self._has_floats and _LONGEST_FLOAT and _longest_field(data, ord(self._delim)) > _LONGEST_FLOAT:
            return False
        return b'"' not in text or _has_plain_quotes(data, ord(self._delim))


def _longest_field(data: np.ndarray, delim: int) -> int:
    """Returns the length of the longest field, if none has a separator in it."""
    return int(np.diff(places_of(data, delim, _LINE_END), prepend=-1).max()) - 1


def _has_plain_quotes(data: np.ndarray, delim: int) -> bool:
    """Returns whether quotes are at the begin and the end of fields only, so that none is doubled."""
    quotes = places_of(data, _QUOTE)
    before, after = data[quotes[::2] - 1], data[quotes[1::2] + 1]  # before the first byte is the last, a line end
    return len(before) == len(after) and all(
        bool(((around == delim) | (around == _LINE_END)).all()) for around in (before, after)
    )


def _filled(column: pa.ChunkedArray, default: Any) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Returns a column as NumPy's, with the default where a field is empty."""
    (values,) = column.chunks
    if default.dtype != object:
        numbers: np.ndarray = (values.fill_null(default[0]) if len(default) else values).to_numpy()
        return numbers
    texts = values.dictionary.to_numpy(zero_copy_only=False)
    if len(default):
        texts[texts == b""] = default[0].encode()
    return values.indices.to_numpy(), texts


def _has_gap(column: pa.ChunkedArray) -> bool:
    """Returns whether a field is empty."""
    (values,) = column.chunks
    return bool(values.null_count) or (pa.types.is_dictionary(values.type) and b"" in values.dictionary.to_pylist())


def _nothing(spec: tf.TensorSpec) -> np.ndarray:
    nothing: np.ndarray = np.zeros(0, spec.dtype.as_numpy_dtype)
    return nothing


def _is_ordinary(values: np.ndarray | tuple[np.ndarray, np.ndarray]) -> bool:
    """Returns whether all floats are finite and not denormal: of others, releases differ in how they read them."""
    if isinstance(values, tuple) or values.dtype.kind != "f":
        return True
    sizes = np.abs(values)
    limits = np.finfo(values.dtype)
    return bool(((sizes <= limits.max) & ((sizes >= limits.tiny) | (sizes == 0))).all())


def _cut(blocks: Iterator[TextBlock], batch_size: int) -> Iterator[TextBlock]:
    """Yields blocks, those of text cut where a batch ends, so that no batch fails because of the rows of another."""
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
