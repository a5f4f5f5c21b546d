r"""Splits CSV text into values, and removes rows whose number of values differs from the header's.

The rules are those of Python's csv module: a quote is special only at the start of a value, two quotes inside a quoted
value are an escaped quote, line breaks inside quotes do not end a row, and empty lines are not rows.

The values of a block are found with NumPy: they are the text without separators, line ends, and the quotes that enclose
or escape.

Usage:

    for values in row_values(file, b",", 3, [0, 2], wrong=lambda number, row, count: print(number, count)):
        values.lengths     # [[1, 2], [1, 0]], for b'1,2,"ab"\n4,5,\n'
        values.content     # b"1ab4"
"""

from __future__ import annotations

import codecs
import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..gzipped_files import BinaryFile

BLOCK_BYTES = 1 << 17  # of larger blocks, temporary arrays do not fit into the CPU cache: half the throughput
MAX_BYTES = 1 << 30  # of a row: a tensor can be serialized up to 2 GiB
_QUOTE, _LINE_END, _CARRIAGE_RETURN = b'"\n\r'
_PART_BYTES = 1 << 15


def count_problem(count: int, columns: int) -> str:
    """Returns "it has 1 value, but the header has 3 columns", for messages on a row."""
    return f"it has {'1 value' if count == 1 else f'{count} values'}, but the header has {columns} columns"


class RowError(ValueError):
    """A row has an unclosed quote or is too large; `number` is the row's number, the header being 1."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.number = number


@dataclasses.dataclass(frozen=True)
class RowValues:
    """Values of consecutive rows.

    Attributes:
      lengths: The values' lengths in bytes, [rows, values].
      content: The values, concatenated in the order of the lengths.
    """

    lengths: np.ndarray
    content: bytes


def row_values(
    file: BinaryFile, sep: bytes, columns: int, chosen: Sequence[int], wrong: Callable[[int, bytes, int], None]
) -> Iterator[RowValues]:
    """Yields the values of the rows below the header in blocks; the last row may lack a line terminator.

    Args:
      file: The CSV file, open for reading in binary mode.
      sep: The separator, one byte.
      columns: Number of values that each row must have.
      chosen: Places of the values to return, ascending.
      wrong: Called for each row with a different number of values, with the row's number (the header is 1), text and
        number of values. Unless it raises, the row is skipped.

    Raises:
      RowError: If a quote is not closed, or a row is larger than `MAX_BYTES`.
    """
    rest, number = b"", 0
    while True:
        # Block sizes grow with an incomplete row, so that scanning a large row takes linear time.
        block = file.read(max(BLOCK_BYTES, len(rest)))
        text = (rest + block).removeprefix(codecs.BOM_UTF8) if number == 0 else rest + block
        if not block and text and not text.endswith(b"\n"):
            text += b"\n"
        rows = Rows(text, sep)
        rest = text[rows.end :]
        if len(rest) > MAX_BYTES:
            raise RowError(number + len(rows) + 1, f"it is larger than {MAX_BYTES >> 30} GiB")
        begin = int(number == 0)  # without the header
        for index in np.flatnonzero(rows.counts != columns):
            if begin < index:
                yield rows.values(begin, int(index), columns, chosen)
            wrong(number + int(index) + 1, rows.text_of(index), int(rows.counts[index]))
            begin = int(index) + 1
        if begin < len(rows):
            yield rows.values(begin, len(rows), columns, chosen)
        number += len(rows)
        if not block:
            if rest:
                raise RowError(number + 1, "the file ends inside of it; a quote may be unclosed")
            return


class Rows:
    """The complete rows of a text that starts at a row.

    Attributes:
      starts: Places of the rows in the text.
      ends: Places of the rows' line ends.
      counts: Number of values of each row.
      end: Place after the last complete row.
    """

    def __init__(self, text: bytes, sep: bytes) -> None:
        self._text, self._delimiters = text, sep + b"\r\n"
        self._data = np.frombuffer(text, np.uint8)
        self._removed, is_mark = _removed_bytes(text, sep)
        indices = np.flatnonzero(is_mark)
        marks = self._removed[indices]
        self._has_quotes = len(marks) < len(self._removed)
        lengths = np.diff(marks, prepend=-1) - np.diff(indices, prepend=-1)  # bytes that are not removed
        places = np.flatnonzero(self._data[marks] != sep[0])  # indices of the line ends among the marks
        lengths = lengths[: places[-1] + 1] if len(places) else lengths[:0]
        ends, counts = marks[places], np.diff(places, prepend=-1)
        starts: np.ndarray = np.append(0, ends[:-1] + 1)[: len(ends)]
        self.end = int(ends[-1]) + 1 if len(ends) else 0
        is_row = ends > starts
        if not is_row.all():
            lengths = lengths[np.repeat(is_row, counts)]
            starts, ends, counts = starts[is_row], ends[is_row], counts[is_row]
        self._lengths = lengths
        self._firsts: np.ndarray = np.append(0, np.cumsum(counts))  # indices of the rows' first values
        self.starts, self.ends, self.counts = starts, ends, counts

    def __len__(self) -> int:
        return len(self.starts)

    def text_of(self, row: np.intp) -> bytes:
        """Returns the text of a row without its line end."""
        return self._text[self.starts[row] : self.ends[row]]

    def values(self, begin: int, end: int, columns: int, chosen: Sequence[int]) -> RowValues:
        """Returns the chosen values of the rows [begin, end), which have `columns` values each."""
        span = slice(self.starts[begin], self.ends[end - 1] + 1)
        lengths = self._lengths[self._firsts[begin] : self._firsts[end]].reshape(-1, columns)
        if self._has_quotes:
            content = self._data[span][self._is_content[span]].tobytes()
        else:
            content = self._text[span].translate(None, self._delimiters)
        if len(chosen) < columns:
            is_chosen = np.isin(np.arange(columns), chosen)
            of_value: np.ndarray = np.repeat(np.broadcast_to(is_chosen, lengths.shape).ravel(), lengths.ravel())
            content = np.frombuffer(content, np.uint8)[of_value].tobytes()
        return RowValues(lengths[:, chosen], content)

    @functools.cached_property
    def _is_content(self) -> np.ndarray:
        """Whether each byte of the text belongs to a value."""
        is_content: np.ndarray = np.ones(len(self._data), bool)
        is_content[self._removed] = False
        return is_content


def _removed_bytes(text: bytes, sep: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Finds the bytes that belong to no value: separators, line ends, and quotes that enclose or escape.

    Returns:
      Their sorted places, and whether each is a mark: a separator or line end.
    """
    data = np.frombuffer(text, np.uint8)
    optional = [byte for byte in (_CARRIAGE_RETURN, _QUOTE) if byte in text]
    places = byte_positions(data, sep[0], _LINE_END, *optional)
    is_quote = data[places] == _QUOTE
    quotes = places[is_quote]
    if not _are_plain(data, quotes, sep[0]):
        return _removed_one_by_one(text, sep)
    if not len(quotes):
        return places, ~is_quote
    is_removed = np.cumsum(is_quote) & 1 == 0  # a mark after an odd number of quotes is inside quotes
    # Quotes enclose, except that of two adjacent ones inside a value the first one remains: it closes, the other opens.
    is_removed[is_quote] = np.append(np.diff(quotes) > 1, True) | (np.arange(len(quotes)) & 1 == 0)
    return places[is_removed], ~is_quote[is_removed]


def byte_positions(data: np.ndarray, *marks: int) -> np.ndarray:
    """Returns the sorted positions of the given byte values in an array of bytes.

    Works in parts of 32 KiB: with several threads, temporary arrays of the length of a block, which do not fit into the
    CPU cache, take four times as long.
    """
    found: list[np.ndarray] = []
    for start in range(0, len(data), _PART_BYTES):
        part = data[start : start + _PART_BYTES]
        is_mark = part == marks[0]
        for mark in marks[1:]:
            is_mark |= part == mark
        found.append(np.flatnonzero(is_mark) + start)
    places: np.ndarray = np.concatenate([np.zeros(0, np.int64), *found])
    return places


def _are_plain(data: np.ndarray, quotes: np.ndarray, sep: int) -> bool:
    """Returns whether quotes only enclose values or are doubled inside them; the last quote may still be open."""
    around = np.isin(np.arange(256), (sep, _LINE_END, _CARRIAGE_RETURN))
    opening, closing = quotes[::2], quotes[1::2]
    is_begin = (opening == 0) | around[data[opening - 1]]
    is_begin[1:] |= opening[1:] - 1 == closing[: len(opening) - 1]  # the second quote of a doubled one
    is_end = closing == len(data) - 1
    is_end |= around[data[np.minimum(closing + 1, len(data) - 1)]]
    is_end[: len(opening) - 1] |= closing[: len(opening) - 1] + 1 == opening[1:]
    return bool(is_begin.all() and is_end.all())


def _removed_one_by_one(text: bytes, sep: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Slow version of `_removed_bytes` for text with quotes in the middle of values."""
    boundary = re.compile(b"[%s\r\n]" % re.escape(sep))
    removed: list[int] = []
    marks: list[int] = []
    place = 0
    while place < len(text):
        if text.startswith(b'"', place):
            removed.append(place)
            while (place := text.find(b'"', place + 1)) >= 0 and text.startswith(b'"', place + 1):
                removed.append(place)
                place += 1
            if place < 0:
                break
            removed.append(place)
            place += 1
        found = boundary.search(text, place)
        if found is None:
            break
        marks.append(found.start())
        place = found.end()
    places = np.sort(np.array(removed + marks, np.int64))
    return places, np.isin(places, marks)
