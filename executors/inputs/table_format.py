"""Base of formats whose files are read as Arrow tables.

A subclass reads tables, and writes one for the samples of `check`; training, inference and evaluation follow from it:

    class Avro(TableFormat):
        name, endings, payloads = "Avro", (".avro",), ("FORMAT_AVRO",)

        def tables(self, path, columns, rows):
            ...
            yield pa.Table.from_pylist(records)

        def write(self, path, table):
            ...
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import InputError
from ..runtime.files import file_io
from .input_format import FIRST_RECORDS, Batch, Copied, Factories, InputFormat
from .message_text import shorten

if TYPE_CHECKING:
    import pyarrow as pa

    from ..examples_format import ExamplesFormat

_COPIED_ROWS = 4096  # rows that are read at a time to copy a whole file


class TableFormat(InputFormat):
    """A format whose files are tables of typed columns; lists are features with several values."""

    def tables(self, path: str, columns: Sequence[str] | None, rows: int) -> Iterator[pa.Table]:
        """Yields the rows of a file, in order.

        Args:
          path: The file.
          columns: Names of the columns to read; more may be returned. None for all.
          rows: Maximum number of rows in a table.

        Raises:
          InputError: If the file is not of this format, or is damaged so that it is unknown how many rows are lost. For
            rows that cannot be read, call `skip`.
        """
        raise NotImplementedError

    def write(self, path: str, table: pa.Table) -> None:
        """Writes a file with the rows of a table that `tables` has read."""
        raise InputError(f"{path}: {self.name} files cannot be sampled.")

    def shape(self, path: str) -> tuple[Sequence[str], int]:
        """Returns the names of a file's columns, and its number of rows for progress bars; 0 if it is unknown."""
        table = next(self.tables(path, None, 1), None)
        return (() if table is None else table.column_names), 0

    def batches(self, path: str, size: int) -> Iterator[Batch]:
        """See `InputFormat`; dates, times and decimals are text, as in CSV and JSON."""
        from .tables.examples import plain_values

        for first, table, position in self._numbered(path, size):
            columns = plain_values(path, table)
            yield Batch(path, first, table.num_rows, columns=columns, position=position)

    def examples(self, path: str, size: int) -> Iterator[Batch]:
        """See `InputFormat`; a feature has the type of its column."""
        from .tables.examples import serialized_examples

        for first, table, position in self._numbered(path, size):
            yield Batch(path, first, table.num_rows, records=serialized_examples(path, table), position=position)

    def copy(self, path: str, target: str, limit: int | None) -> Copied:
        """See `InputFormat`; a file without tables is not copied.

        Raises:
          InputError: See `InputFormat`; also if parts of the file have different columns or types.
        """
        import pyarrow as pa

        from .tables.rows import joined

        tables: list[pa.Table] = []
        for table in self.tables(path, None, limit or _COPIED_ROWS):
            tables.append(table)
            if limit is not None and sum(part.num_rows for part in tables) >= limit:
                break
        if not tables:
            return 0, []
        try:
            copied = joined(tables).slice(0, limit)
        except pa.ArrowException as error:
            problem = f"parts of the file have different columns or types: {shorten(str(error))}"
            raise InputError(f"{path}: {problem}") from error
        self.write(target, copied)
        return copied.num_rows, copied.slice(0, FIRST_RECORDS).to_pylist()

    def factories(self, examples: ExamplesFormat) -> Factories:
        """See `InputFormat`."""
        from .tables import datasets

        return functools.partial(datasets.tf_dataset, self), functools.partial(datasets.record_batches, self)

    def _numbered(self, path: str, size: int) -> Iterator[tuple[int, pa.Table, float]]:
        """Yields tables, the numbers of their first rows, and the bytes read, by the share of the rows."""
        done, size_of_file, count = 0, file_io.size_of(path), self.shape(path)[1]
        for table in self.tables(path, None, size):
            if table.num_rows:
                position = size_of_file * min(1.0, (done + table.num_rows) / count) if count else 0.0
                yield done + 1, table, position
                done += table.num_rows
