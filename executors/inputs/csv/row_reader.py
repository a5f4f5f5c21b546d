"""Reads the rows of CSV files with Python's csv module, and validates each of them.

The rules for CSV in this package are those of Python's csv module, which TFX's CsvExampleGen uses. A quote is special
only at the start of a value, quoted values may contain separators and line breaks, and empty lines are not rows. This
module follows them, and so does `rows.py`, which finds the values of a file with NumPy at 100 times the throughput.
`example_rows.py` writes the examples of CsvExampleGen with the same bytes, and so also splits the header at every
comma, and records at the first line end after an even number of quotes.

Usage:

    with csv_rows("iris.csv") as rows:
        rows.names       # ["petal.length", "variety"]
        for row in rows:
            row          # ["1.4", "Setosa"]
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import re
from collections.abc import Collection, Iterator

from ...errors import InputError
from ..gzipped_files import BinaryFile, opened, position
from ..message_text import join_names
from .rows import count_problem

_UNDECODED = re.compile("[\udc80-\udcff]")  # bytes as decoded by surrogateescape


@contextlib.contextmanager
def csv_rows(
    path: str,
    sep: str = ",",
    encoding: str = "utf-8-sig",
    *,
    skipped: int = 0,
    newline: str = "\n",
    is_strict: bool = True,
    keeps_bytes: bool = False,
) -> Iterator[CsvRows]:
    """Opens a CSV file, gzipped or not, and reads its first row.

    Args:
      path: The file.
      sep: The separator, one character.
      encoding: Python's name of the encoding; the default removes a byte order mark.
      skipped: Number of lines before the first row.
      newline: Line terminator besides those with a carriage return; "" for files that may have carriage returns only.
      is_strict: Whether text after a closing quote, and an unclosed quote at the end of the file, are errors.
      keeps_bytes: Whether bytes that are not of the encoding are decoded with "surrogateescape", instead of an error.

    Raises:
      InputError: If the first row is not CSV, or, in the block, if a gzipped file is damaged.
    """
    with opened(path) as file:
        lines = io.TextIOWrapper(file, encoding, "surrogateescape", newline)
        yield CsvRows(path, file, lines, sep, skipped, is_strict, keeps_bytes)


class CsvRows:
    """An iterable over the rows of a CSV file below its first row, without empty rows; see `csv_rows`.

    Iterating raises an InputError for a row that is not CSV, or that has another number of values than the first row.

    Attributes:
      path: The file.
      names: The values of the first row, which should be the names of the columns; [] if the first line is empty.
      number: Number of the last row, from 1; the first row does not count.
      line: Number of the line, from 1, at which the last row starts.
    """

    def __init__(
        self,
        path: str,
        file: BinaryFile,
        lines: io.TextIOWrapper,
        sep: str,
        skipped: int,
        is_strict: bool,
        keeps_bytes: bool,
    ) -> None:
        self.path = path
        self.number = 0
        self.line = skipped + 1
        self._file = file
        self._skipped = skipped
        self._encoding = lines.encoding.removesuffix("-sig").upper()
        wanted = itertools.islice(lines, skipped, None)
        self._reader = csv.reader(wanted if keeps_bytes else self._decoded(wanted), delimiter=sep, strict=is_strict)
        with self._csv_errors():
            self.names = next(self._reader, [])

    def __iter__(self) -> Iterator[list[str]]:
        width = len(self.names)
        self.line = self._next_line()
        with self._csv_errors():
            for row in self._reader:
                if row:
                    self.number += 1
                    if len(row) != width:
                        raise InputError(
                            f"{self.path}, row {self.number} (line {self.line}): {count_problem(len(row), width)}. "
                            "Correct the row, or remove it."
                        )
                    yield row
                self.line = self._next_line()

    @property
    def position(self) -> int:
        """Bytes of the file that have been read, compressed ones if it is gzipped."""
        return position(self._file)

    def required_names(self, *, are_unique: bool = False) -> list[str]:
        """Returns the names of the columns.

        Args:
          are_unique: Whether the same name for two columns is an error.

        Raises:
          InputError: If the first row has no names, or has one twice.
        """
        if not any(self.names) or (are_unique and len(set(self.names)) < len(self.names)):
            raise header_error(self.path, self.names)
        return self.names

    @contextlib.contextmanager
    def _csv_errors(self) -> Iterator[None]:
        try:
            yield
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(
                f"{self.path}, line {self.line}: not valid CSV: {error}. Correct the line; a quote may be unclosed."
            ) from error

    def _next_line(self) -> int:
        """Returns the number of the first line that the csv module has not taken yet."""
        return self._skipped + self._reader.line_num + 1

    def _decoded(self, lines: Iterator[str]) -> Iterator[str]:
        """Yields lines; raises an InputError for bytes that are not of the encoding."""
        for line in lines:
            if not line.isascii() and (found := _UNDECODED.search(line)):
                what = f"the byte 0x{ord(found[0]) - 0xDC00:02x} is not {self._encoding}"
                raise InputError(
                    f"{self.path}, line {self._next_line()}: not valid CSV: {what}. Convert the file to UTF-8."
                )
            yield line


def header_error(path: str, names: Collection[str]) -> InputError:
    """Returns the error for a file whose first row, with these values, does not have the names of the columns."""
    each = ", each once" if len(set(names)) < len(names) else ""
    return InputError(
        f"{path}: its first line must contain the column names{each}; it is {join_names(names) or 'empty'}."
    )
