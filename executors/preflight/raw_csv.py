"""Converts a sample of CSV rows to tf.Examples, with column types inferred from the first 100,000 rows.

The first rows alone may suggest wrong types (1, 2, … with 4.5 later on), and may have columns without missing values or
without any values. So the sample adds random later rows, and rows with and without a value of each column.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence

from ..errors import InputError
from ..inputs.csv.row_reader import csv_rows
from ..inputs.csv.value_types import FLOAT, INT, TEXT, type_of
from ..inputs.gzipped_files import is_gzipped
from ..inputs.message_text import join_names, short_repr
from ..inputs.text_format import check_text
from ..inputs.tf_examples import serialized
from ..runtime.files import file_io

_MAX_ROWS = 100_000  # maximum number of rows read
_FIRST, _RANDOM = 400, 200  # rows in the sample: the first, and random later ones
_MIN_ROWS = 3  # minimum number of rows with a value of each column, and of rows without one, if there are as many
_CONVERT: Mapping[int, Callable[[str], bytes | float]] = {INT: int, FLOAT: float, TEXT: str.encode}
_MOSTLY_NUMBERS = 0.8  # share of numbers, from which other values of a column are reported


def csv_examples(paths: Sequence[str]) -> tuple[list[bytes], int, list[str]]:
    """Returns a sample of rows as serialized tf.Examples, the estimated total number of rows, and warnings.

    Columns are integers, floats or strings, by CsvExampleGen's rules; an empty cell is a missing value.

    Args:
      paths: CSV files with the same header row.

    Returns:
      The examples, the number of rows, and one warning per column of numbers that single values turn into text.

    Raises:
      InputError: If a row does not fit the header, headers differ, a file cannot be read as CSV, or there are no rows.
    """
    table: _Table | None = None
    size = sum(map(file_io.size_of, paths))
    read = 0
    for path in filter(file_io.size_of, paths):
        check_text(path)
        if is_gzipped(path):
            raise InputError(f"{path} is gzipped, which CsvExampleGen does not support. Unpack it with gunzip.")
        # CsvExampleGen does not remove a byte order mark, and accepts text after a closing quote.
        with csv_rows(path, encoding="utf-8", is_strict=False) as rows:
            header = rows.required_names()
            for row in rows:
                table = table or _Table(header)
                if header != table.header:
                    raise InputError(
                        f"{path} has the columns {join_names(header)}, but {paths[0]} has {join_names(table.header)}."
                    )
                table.take(row, f"{path}, line {rows.line}")
                read += sum(map(len, row)) + len(row)  # approximately
                if table.count >= _MAX_ROWS:
                    return table.examples(), int(table.count * max(1.0, size / read)), table.warnings()
    if table is None:
        raise InputError(f"{', '.join(paths)}: no rows below the header.")
    return table.examples(), table.count, table.warnings()


@dataclasses.dataclass
class _Column:
    """The type of a column, and how many of its values are numbers, as long as most may be.

    Attributes:
      name: Its name.
      kind: The narrowest type that holds its values.
      numbers: The number of numbers.
      others: The number of other values.
      first: Place and value of the first other value.
      taken: How many rows of the sample have no value, and have one.
    """

    name: str
    kind: int = INT
    numbers: int = 0
    others: int = 0
    first: tuple[str, str] = ("", "")
    taken: list[int] = dataclasses.field(default_factory=lambda: [0, 0])

    def see(self, value: str, place: str) -> None:
        if not value or self.others > max(self.numbers, _FIRST):
            return
        kind = type_of(value)
        self.kind = max(self.kind, kind)
        if kind != TEXT:
            self.numbers += 1
            return
        self.others += 1
        if self.others == 1:
            self.first = place, value

    def warning(self) -> str:
        total = self.numbers + self.others
        if not self.others or self.numbers < _MOSTLY_NUMBERS * total:
            return ""
        place, value = self.first
        more = f" (and {self.others - 1:,} more)" if self.others > 1 else ""
        return (
            f"{place}{more}: the column {self.name!r} is {short_repr(value)}, but {self.numbers:,} of its {total:,} "
            "values are numbers. It makes the whole column text: correct the value, or leave it empty"
        )


class _Table:
    """The sampled rows, and the columns."""

    def __init__(self, header: list[str]) -> None:
        self.header = header
        self.count = 0
        self._columns = [_Column(name) for name in header]
        self._first: list[list[str]] = []
        self._random: list[list[str]] = []
        self._rare: list[list[str]] = []  # later rows with a rare combination of column and missing or present value
        self._chance = random.Random(1)  # noqa: S311 (a sample, no secrets)

    def take(self, row: list[str], place: str) -> None:
        """Updates the columns by a row at a place, and adds the row to the sample if selected."""
        self.count += 1
        cells = list(zip(self._columns, row, strict=True))
        for column, value in cells:
            column.see(value, place)
        is_first = len(self._first) < _FIRST
        if is_first or any(column.taken[bool(value)] < _MIN_ROWS for column, value in cells):
            (self._first if is_first else self._rare).append(row)
            for column, value in cells:
                column.taken[bool(value)] += 1
        elif len(self._random) < _RANDOM:
            self._random.append(row)
        elif (replaced := self._chance.randrange(self.count)) < _RANDOM:
            self._random[replaced] = row

    def examples(self) -> list[bytes]:
        """Returns the sampled rows as serialized tf.Examples."""
        # Rows with rare values go to the front and to the back, so that both splits get some.
        rows = [*self._rare[::2], *self._first, *self._random, *self._rare[1::2]]
        return [
            serialized(
                {
                    column.name: [_CONVERT[column.kind](value)] if value else []
                    for column, value in zip(self._columns, row, strict=True)
                }
            )
            for row in rows
        ]

    def warnings(self) -> list[str]:
        """Returns a warning for each column in which most values are numbers, but not all."""
        return list(filter(None, (column.warning() for column in self._columns)))
