r"""Detects the dialect of a CSV file from its content: encoding, separator, and lines before the header row.

    detect_format("kunden.csv")       # CsvFormat(encoding="cp1252", separator=";", first=1, …)

The file name extension is not used for the detection.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import dataclasses
import io
import itertools
import re
import string
import time

import numpy as np
from absl import logging

from ...errors import InputError
from ...runtime.files import file_io
from ..gzipped_files import is_gzipped, opened, position
from .rows import byte_positions
from .separators import SEPARATORS

_HEAD_BYTES, _BLOCK_BYTES = 1 << 16, 1 << 20
_ROWS = 200  # rows from which the separator is detected
_MIN_SHARE = 0.9  # minimum share of these rows that have as many values as the header
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NOT_IN_WINDOWS_1252 = bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D])
_ASCII = bytes(range(0x80))
_ASCII_LETTERS = string.ascii_letters.encode()
_LOG_SECONDS = 10.0
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WITH_POINTS = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?")  # 1.234,5
WITH_COMMAS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?|" + _PLAIN.pattern)  # 1,234.5
_GROUPED_IN_QUOTES = re.compile(rb'"[+-]?\d{1,3}(,\d{3})+(\.\d*)?"')
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # invalid bytes as decoded by surrogateescape


@dataclasses.dataclass(frozen=True)
class CsvFormat:
    """The dialect of a CSV file.

    Attributes:
      encoding: Python's name of the encoding.
      separator: Separator between values, one character.
      first: Number of lines before the header row: empty lines, or Excel's `sep=;`.
      has_old_line_ends: Whether lines end in a carriage return alone, as on classic Mac OS.
      has_quoted_names: Whether the header row contains quotes.
      may_be_changed: Whether values may contain line breaks or thousands separators, which would be removed.
      gzipped: Whether the content is gzipped, regardless of the file name.
      is_named: Whether the file name ends in .csv.
    """

    encoding: str
    separator: str
    first: int
    has_old_line_ends: bool
    has_quoted_names: bool
    may_be_changed: bool
    gzipped: bool
    is_named: bool

    @property
    def is_plain(self) -> bool:
        """Whether CsvExampleGen can read a file of this dialect, apart from its column names and values."""
        is_text = self.encoding == "utf-8" and not (self.has_old_line_ends or self.gzipped)
        return is_text and self.separator == "," and not self.first and self.is_named


def detect_format(path: str) -> CsvFormat | None:
    """Detects the dialect of a CSV file; returns None if the file is not tabular text.

    Reads the file completely, and logs the progress every 10 seconds.

    Raises:
      InputError: If the encoding cannot be detected, or the file is gzipped and damaged.
    """
    with opened(path) as file:
        head = file.read(_HEAD_BYTES)
        encoding = next((name for mark, name in _BYTE_ORDER_MARKS.items() if head.startswith(mark)), "")
        if (encoding != "utf-16" and b"\0" in head) or head.lstrip()[:1] in (b"{", b"[", b"<"):
            return None
        content = _Content(is_text := encoding != "utf-16")
        progress = Progress(path, "read")
        for block in itertools.chain([head], iter(lambda: file.read(_BLOCK_BYTES), b"")):
            content.scan(block)
            progress.log(position(file))
    encoding = encoding or content.encoding(path)
    text = head.decode(encoding, "replace")
    separator, first = _separator(text, len(head) == _HEAD_BYTES)
    if not separator:
        return None
    return CsvFormat(
        encoding,
        separator,
        first,
        is_text and content.has_old_line_ends,
        '"' in "".join(itertools.islice(io.StringIO(text), first, first + 1)),
        not is_text or content.may_be_changed,
        is_gzipped(path),
        path.endswith(".csv"),
    )


class _Content:
    """Statistics of a file's bytes, collected block by block.

    Args:
      is_text: Whether ASCII characters are single bytes, as in all supported encodings except UTF-16.
    """

    def __init__(self, is_text: bool) -> None:
        self._is_text = is_text
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._returns = self._ends = self._quotes = 0
        self._high = self._letters = self._as_utf8 = self._not_utf8 = 0
        self._is_windows_1252 = True
        self._ended_in_return = False
        self.may_be_changed = False

    def scan(self, block: bytes) -> None:
        if not self._is_text:
            return
        self._returns += block.count(b"\r")
        self._ends += block.count(b"\r\n") + (self._ended_in_return and block.startswith(b"\n"))
        self._ended_in_return = block.endswith(b"\r")
        if b'"' in block:
            self._scan_quotes(block)
        if not block.isascii() or self._high:
            text = self._decoder.decode(block)
            not_utf8 = len(_NOT_UTF8.findall(text))
            self._not_utf8 += not_utf8
            self._as_utf8 += len(text) - len(text.encode("ascii", "ignore")) - not_utf8
            self._high += len(block.translate(None, _ASCII))
            self._letters += len(block) - len(block.translate(None, _ASCII_LETTERS))
            self._is_windows_1252 &= not any(byte in block for byte in _NOT_IN_WINDOWS_1252)

    def _scan_quotes(self, block: bytes) -> None:
        data = np.frombuffer(block, np.uint8)
        quotes = byte_positions(data, ord('"'))
        if not self.may_be_changed:
            line_ends = byte_positions(data, ord("\n"), ord("\r"))
            in_quotes = (np.searchsorted(quotes, line_ends) + self._quotes) % 2 == 1
            self.may_be_changed = bool(in_quotes.any()) or _GROUPED_IN_QUOTES.search(block) is not None
        self._quotes += len(quotes)

    @property
    def has_old_line_ends(self) -> bool:
        """Whether a carriage return occurs without a following line feed."""
        return self._returns > self._ends

    def encoding(self, path: str) -> str:
        """Returns the encoding of a file without a byte order mark: "utf-8", "cp1252" or "latin-1".

        Raises:
          InputError: If the file is mostly but not entirely UTF-8, or has too few ASCII letters for Latin-1.
        """
        if not self._not_utf8:
            return "utf-8"
        if self._as_utf8 > self._not_utf8:
            raise InputError(
                f"{path}: {self._not_utf8:,} bytes are not UTF-8, but {self._as_utf8:,} characters are: the file is "
                "damaged, or was joined from files with different encodings. Find the lines with: grep -naxv '.*' "
                f"{path}"
            )
        if self._high > self._letters / 2:
            raise InputError(
                f"{path} is neither UTF-8 nor Latin-1. Convert it to UTF-8; from Windows-1251, for instance, with: "
                f"iconv -f WINDOWS-1251 -t UTF-8 {path}"
            )
        return "cp1252" if self._is_windows_1252 else "latin-1"


def _separator(text: str, is_cut: bool) -> tuple[str, int]:
    """Returns the separator, or "" if none is found, and the number of lines before the header row.

    The separator is the one with which at least 90 % of the first rows have as many values as the header, and more than
    one. If several qualify, it is the one that gives the most values per row, then the most numbers among the values.
    """
    first = len(text) - len(text.lstrip("\r\n"))
    first = len(text[:first].splitlines())
    if stated := re.match(r"[\r\n]*sep=([^\w\"\r\n])[\r\n]+", text):
        return stated[1], len(stated[0].splitlines())
    found: dict[str, tuple[int, int]] = {}
    for sign in SEPARATORS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=sign)
        with contextlib.suppress(csv.Error):
            rows = [row for row in itertools.islice(reader, _ROWS) if row]
            rows = rows[:-1] if is_cut and len(rows) > 1 else rows
            width = len(rows[0]) if rows else 0
            if width > 1 and sum(len(row) == width for row in rows) >= _MIN_SHARE * len(rows):
                numbers = WITH_COMMAS if sign == "," else WITH_POINTS
                found[sign] = width, sum(numbers.fullmatch(cell) is not None for row in rows for cell in row)
    return max(found, key=lambda sign: found[sign], default=""), first


class Progress:
    """Logs how much of a file has been read, such as "kunden.csv: 40 % copied", every 10 seconds.

    Args:
      path: The file.
      verb: Past participle for the message.
    """

    def __init__(self, path: str, verb: str) -> None:
        self._path, self._verb = path, verb
        self._size = max(file_io.size_of(path), 1)
        self._last_log = time.monotonic()

    def log(self, place: int) -> None:
        """Logs a message if it is time, for a position in the file in bytes."""
        if (now := time.monotonic()) - self._last_log >= _LOG_SECONDS:
            logging.info("%s: %d %% %s", self._path, 100 * place // self._size, self._verb)
            self._last_log = now
