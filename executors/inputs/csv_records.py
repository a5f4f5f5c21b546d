"""CSV rows as string vectors of chosen columns, block by block through Arrow.

Arrow's reader follows the rules of Python's csv module, which ElasticDL used: quotes only count at a value's begin,
quoted values may hold separators and line ends, and two quotes in them stand for one. It gives a hundred times the rows
a second; tf.data's CsvDataset gives a third of Arrow's (200,000 rows of iris on two cores).

Usage:

    names = column_names("iris.csv", ",")
    for block in csv_blocks(["iris.csv"], ["petal.length", "variety"], ","):
        block     # an array of bytes, [rows, 2]
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from .. import file_io
from ..errors import InputError, did_you_mean
from .arrow_file import ArrowFile
from .bad_records import policy
from .reader_params import CSV
from .record_files import GZIP_ERRORS, is_gzipped

_BLOCK_BYTES = 4 << 20  # no row may be larger
_ROWS_AT_ONCE = 16384  # a string in Python takes ten times the bytes that a short one has in the file


def column_names(path: str, sep: str) -> list[str]:
    """Returns the names in a file's first line.

    Raises:
      InputError: When it has none.
    """
    with file_io.file_system(path).open(path, mode="rb") as file:
        binary = gzip.GzipFile(fileobj=file) if is_gzipped(path) else file
        text = (line.decode("utf-8").removeprefix("\ufeff") for line in binary)
        try:
            names = next(csv.reader(text, delimiter=sep), [])
        except (csv.Error, UnicodeDecodeError, *GZIP_ERRORS) as error:
            raise InputError(f"{path}: its first line cannot be read as CSV: {error}") from error
    if not any(names):
        raise InputError(f"{path}: its first line must name the columns; it is {names}.")
    return names


def csv_blocks(paths: Sequence[str], columns: Sequence[str], sep: str) -> Iterator[Any]:
    """Yields the rows of all files as arrays of bytes, [rows, columns], in the files' order.

    Args:
      paths: CSV files with a header; gzipped ones may be among them.
      columns: The columns to read, in the order in which they are wanted.
      sep: What separates values.

    Raises:
      InputError: When a header lacks a column, or a row does not have as many values as the header.
    """
    for path in paths:
        check_columns(path, columns, column_names(path, sep))
        with ArrowFile(path, "rb") as file:
            source = pa.CompressedInputStream(file, "gzip") if is_gzipped(path) else file
            wrong = _WrongRows(path)
            try:
                for batch in _batches(source, columns, sep, wrong):
                    yield np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns], axis=1)
                    wrong.require_none()
                wrong.require_none()
            except (pa.ArrowInvalid, OSError) as error:
                wrong.require_none()
                raise InputError(
                    f"{path}: it is not CSV with a header, or a row is larger than {_BLOCK_BYTES >> 20} MiB: {error}"
                ) from error


def check_columns(origin: str, columns: Sequence[str], there: Sequence[str]) -> None:
    """Checks that the columns are there, each once.

    Raises:
      InputError: When one is not.
    """
    for name in columns:
        if name not in there:
            raise InputError(
                f"{origin}: there is no column {name!r}.{did_you_mean(name, there)} It has {', '.join(there)}."
            )
        if there.count(name) > 1:
            raise InputError(
                f"{origin}: there are {there.count(name)} columns {name!r}; the header must tell them apart."
            )


class _WrongRows:
    """Rows that do not have as many values as the header; called by Arrow, in the order of the file.

    Args:
      path: The file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._bad = policy(CSV)
        self._error: InputError | None = None  # what is raised here comes to nobody
        self._after = 0

    def __call__(self, row: Any) -> str:
        self._after += 1
        place = (
            f"row {row.number}, the header counted"
            if row.number is not None
            else f"wrong row {self._after}: {row.text[:80]!r}"
        )
        values = "1 value" if row.actual_columns == 1 else f"{row.actual_columns} values"
        problem = f"it has {values}, and the header names {row.expected_columns} columns"
        shown = f"{row.text[:200]!r}{'…' if len(row.text) > 200 else ''}"
        if self._bad is None:
            hint = " Write the row again; or have --on-bad-records=skip:N leave out up to N such rows."
            self._error = InputError(f"{self._path}: {place}: {problem}. The row is {shown}.{hint}")
        elif "\n" in row.text.strip("\n"):
            self._error = InputError(
                f"{self._path}: {place}: {problem}, and it goes over several lines: a quote may not be closed. "
                f"on_bad_records=skip:{self._bad.limit} does not leave it out, for nobody knows how many rows it has "
                f"swallowed. The row is {shown}."
            )
        else:
            try:
                self._bad.skip(self._path, place, f"{problem}: {shown}")
            except InputError as error:
                self._error = error
        return "skip" if self._error is None else "error"

    def require_none(self) -> None:
        """Raises what is wrong."""
        if self._error is not None:
            raise self._error from None


def _batches(source: Any, columns: Sequence[str], sep: str, wrong: _WrongRows) -> Iterator[pa.RecordBatch]:
    wanted = list(dict.fromkeys(columns))
    reader = pyarrow.csv.open_csv(
        source,
        # In one thread, Arrow knows the numbers of rows.
        read_options=pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(delimiter=sep, newlines_in_values=True, invalid_row_handler=wrong),
        convert_options=pyarrow.csv.ConvertOptions(
            include_columns=wanted, column_types=dict.fromkeys(wanted, pa.binary()), strings_can_be_null=False
        ),
    )
    for batch in reader:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            yield batch.slice(start, _ROWS_AT_ONCE)
