r"""Splits CSV text at row boundaries and removes rows whose number of values differs from the header's.

Up to version 19, Arrow's CSV reader overruns its buffer if a row has more values than expected (apache/arrow#45497),
and it fails at a row that does not fit into a block. It is therefore given only complete rows with the expected number
of values.

The rules are those of Python's csv module and of Arrow: a quote is special only at the start of a value, two quotes
inside a quoted value are an escaped quote, line breaks inside quotes do not end a row, and empty lines are not rows.

Usage:

    for text in whole_rows(file, b",", 3, wrong=lambda number, row, count: print(number, count)):
        text     # b"1,2,3\n4,5,6\n"
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..gzipped_files import BinaryFile

BLOCK_BYTES = 4 << 20
MAX_BYTES = 1 << 30  # of a row: Arrow counts the bytes of a block in a 32-bit integer
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


def whole_rows(file: BinaryFile, sep: bytes, columns: int, wrong: Callable[[int, bytes, int], None]) -> Iterator[bytes]:
    """Yields blocks of complete rows, without the header; the last row may lack a line terminator.

    Args:
      file: The CSV file, open for reading in binary mode.
      sep: The separator, one byte.
      columns: Number of values that each row must have.
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
        starts, ends, counts = _rows(text, sep, not block)
        rest = text[ends[-1] + 1 :] if len(ends) else text
        if len(rest) > MAX_BYTES:
            raise RowError(number + np.count_nonzero(ends > starts) + 1, f"it is larger than {MAX_BYTES >> 30} GiB")
        some = ends > starts
        yield from _valid_rows(text, starts[some], ends[some], counts[some], columns, number, wrong)
        number += int(np.count_nonzero(some))
        if not block:
            if rest:
                raise RowError(number + 1, "the file ends inside of it; a quote may be unclosed")
            return


def _valid_rows(
    text: bytes,
    starts: np.ndarray,
    ends: np.ndarray,
    counts: np.ndarray,
    columns: int,
    before: int,
    wrong: Callable[[int, bytes, int], None],
) -> Iterator[bytes]:
    """Yields the text between rows with a wrong number of values, without the file's first row, the header."""
    begin = int(before == 0)
    for index in np.flatnonzero(counts != columns):
        wrong(before + int(index) + 1, text[starts[index] : ends[index]], int(counts[index]))
        if begin < index:
            yield text[starts[begin] : ends[index - 1] + 1]
        begin = int(index) + 1
    if begin < len(starts):
        yield text[starts[begin] : ends[-1] + 1]


def _rows(text: bytes, sep: bytes, is_last: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns starts, ends and numbers of values of the lines; `is_last` includes a last line without terminator."""
    data = np.frombuffer(text, np.uint8)
    quotes = byte_positions(data, _QUOTE) if b'"' in text else np.zeros(0, np.int64)
    if not _are_plain(data, quotes, sep[0]):
        return _rows_one_by_one(text, sep, is_last)
    marks = byte_positions(data, sep[0], _LINE_END, *([_CARRIAGE_RETURN] if b"\r" in text else []))
    if len(quotes):  # a mark after an odd number of quotes is inside quotes
        marks = marks[np.searchsorted(quotes, marks) % 2 == 0]
    places = np.flatnonzero(data[marks] != sep[0])  # indices of the line ends among the marks
    ends, counts = marks[places], np.diff(places, prepend=-1)
    if is_last and len(quotes) % 2 == 0 and text and (not len(ends) or ends[-1] < len(text) - 1):
        ends = np.append(ends, len(text))
        counts = np.append(counts, len(marks) - (places[-1] + 1 if len(places) else 0) + 1)
    return np.append(0, ends[:-1] + 1)[: len(ends)], ends, counts


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


def _rows_one_by_one(text: bytes, sep: bytes, is_last: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slow version of `_rows` for text with quotes in the middle of values."""
    boundary = re.compile(b"[%s\r\n]" % re.escape(sep))
    rows: list[tuple[int, int, int]] = []
    start = place = 0
    count = 1
    while place < len(text) or (is_last and start < len(text)):
        if text.startswith(b'"', place):
            place = _end_of_quotes(text, place)
            if place < 0:
                break
        found = boundary.search(text, place)
        if found is None and not is_last:
            break
        place = found.end() if found else len(text) + 1
        if found and found.group() == sep:
            count += 1
        else:
            rows.append((start, place - 1, count))
            start, count = place, 1
    return tuple(np.array(rows, np.int64).reshape(-1, 3).T)


def _end_of_quotes(text: bytes, place: int) -> int:
    """Returns the position after the closing quote of the value that starts at `place`; -1 if it is not closed."""
    while (place := text.find(b'"', place + 1)) >= 0 and text.startswith(b'"', place + 1):
        place += 1
    return place + 1 if place >= 0 else -1
